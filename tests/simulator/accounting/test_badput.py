"""Where the time went: every second is booked once, and under the right cause."""

from __future__ import annotations

from math import fsum

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.single_run import run
from faultline.simulator.accounting.badput import BADPUT_TYPES, CAUSES, MEANINGS, USEFUL
from faultline.simulator.accounting.progress import Progress
from faultline.simulator.accounting.timeline import Event, EventKind
from faultline.strategies.plugins.registry import all_strategies
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples


def test_every_cause_has_a_meaning_and_useful_ones_come_first() -> None:
    assert tuple(MEANINGS) == CAUSES
    assert CAUSES[: len(USEFUL)] == USEFUL
    assert (*USEFUL, *BADPUT_TYPES) == CAUSES


def test_a_restart_takes_back_what_was_not_kept() -> None:
    progress = Progress()
    progress.seconds["compute"] += 10
    progress.seconds["checkpoint"] += 5
    mark = progress.mark()
    progress.seconds["compute"] += 7
    progress.seconds["waiting"] += 2
    progress.seconds["detection"] += 1
    progress.take_back(mark)
    progress.take_back(mark)
    assert {cause: s for cause, s in progress.seconds.items() if s} == {
        "compute": 10,
        "repeated": 9,
        "detection": 1,
        "checkpoint": 5,
    }


@given(
    scenario=st.sampled_from(["spare-study", "spare-sound"]),
    scheme=st.sampled_from(sorted(all_strategies())),
    redundancy=st.integers(2, 4),
    mtbf_s=st.floats(200, 20_000),
    interval=st.integers(1, 12),
    resume=st.sampled_from(["redo", "after"]),
    fixed_step=st.sampled_from(["commits", "retries"]),
    seed=st.integers(0, 2**32),
)
@examples(0.25)
def test_the_causes_sum_to_the_whole_time(
    scenario: str,
    scheme: str,
    redundancy: int,
    mtbf_s: float,
    interval: int,
    resume: str,
    fixed_step: str,
    seed: int,
) -> None:
    chosen = all_strategies()[scheme]
    if redundancy not in chosen.redundancies(24, chosen.Options()):
        redundancy = 1
    scenario = load_scenario(
        scenario,
        [
            "job.groups=24",
            "job.steps=60",
            "job.give_up_after_restarts=20",
            f"strategy.name={scheme}",
            f"strategy.redundancy={redundancy}",
            f"failures.mtbf_s={mtbf_s}",
            f"checkpoint.interval_steps={interval}",
            f"restart.resume={resume}",
            "restart.failure_during=absorbed",
            f"all_reduce.fixed_step={fixed_step}",
        ],
    )
    record = run(scenario, seed)
    seconds = {cause: record[f"{cause}_s"] for cause in CAUSES}
    assert fsum(seconds.values()) == pytest.approx(record["time_s"], rel=1e-12)
    assert seconds["compute"] == pytest.approx(record["completed_steps"] * 64.0)
    # The slowest of 24 takes longer than nominal, but one of few steps need not.
    slack_s = 64 * 0.05 * 9 * redundancy * max(1, record["simulated_steps"])
    assert all(s >= -1e-6 for cause, s in seconds.items() if cause not in {"waiting", "repeated"})
    assert min(seconds["waiting"], seconds["repeated"]) >= -slack_s
    if record["completed_steps"] == record["simulated_steps"]:
        assert seconds["repeated"] == 0


def test_repeated_time_is_what_lies_between_a_checkpoint_and_the_wipe_out() -> None:
    """From the timeline alone: with checkpoints only, every missing group is a wipe-out."""
    events: list[Event] = []
    scenario = load_scenario(
        "spare-sound",
        [
            "strategy.name=checkpoint",
            "job.groups=24",
            "job.steps=400",
            "failures.mtbf_s=10800",
            "checkpoint.interval_steps=20",
        ],
    )
    record = run(scenario, 3, record_event=events.append)
    lost_s, since_s = 0.0, 0.0
    for event in events:
        if event.kind in {EventKind.CHECKPOINT, EventKind.LOADED}:
            since_s = event.time_s
        elif event.kind is EventKind.WIPE_OUT:
            lost_s += event.time_s - since_s
    assert record["restarts"] >= 3
    assert record["repeated_s"] == pytest.approx(lost_s - record["detection_s"])


def test_a_redone_step_is_repeated_compute() -> None:
    """Each restart redoes one saved step; all steps that count were computed once."""
    settings_ = [
        "strategy.name=checkpoint",
        "job.groups=24",
        "job.steps=60",
        "job.compute_jitter=0",
        "failures.mtbf_s=10800",
        "checkpoint.interval_steps=1",
        "failures.distribution=exponential",
    ]
    redo, after = (
        run(load_scenario("spare-study", [*settings_, f"restart.resume={resume}"]), 1)
        for resume in ("redo", "after")
    )
    assert redo["restarts"] > 0
    assert redo["compute_s"] == after["compute_s"] == 60 * 64
    # The step that ends in a wipe-out was computed, but never all-reduced.
    for record in (redo, after):
        again = record["simulated_steps"] - 60
        reduced = again - record["restarts"]
        assert record["repeated_s"] == pytest.approx(64 * again + 0.24 * reduced)
    assert redo["simulated_steps"] - 60 == 2 * redo["restarts"]
    assert after["simulated_steps"] - 60 == after["restarts"]
