"""Jitter and validation in steps that are simulated by their messages: only computing is slower."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.step_times import step_time_of
from faultline.experiments.runs.single_run import run
from faultline.simulator.job.compute_times import ComputeTimes

from tests.simulator.helpers import alike, small_model, traced

On = Callable[..., Scenario]
STEPS, GROUPS, SAVE_S, JITTER = 12, 4, 0.02, 0.1


@pytest.fixture
def on_model(servers_of: Callable[..., Path]) -> On:
    """Four servers of eight GPUs, a group on each."""
    servers = servers_of(domains=4, domains_per_leaf=4)

    def on(*more: str) -> Scenario:
        job = ("job.gpus=32", f"job.groups={GROUPS}", f"job.steps={STEPS}", "failures.mtbf_s=1e9")
        return load_scenario("llama3-70b-stress", small_model(servers, *job, *more))

    return on


@pytest.mark.parametrize(
    ("jitter", "validation"), [(JITTER, 0.0), (0.0, 0.25), (JITTER, 0.25)], ids=str
)
def test_messages_take_as_long_as_ever(on_model: On, jitter: float, validation: float) -> None:
    """One stage a group: a step is (1 + validation) times a factor of computing, and messages.

    The factor is that of the slowest of four groups, in multiples of half the jitter.
    """
    step = step_time_of(on_model())
    assert step is not None
    assert step.tensor_s > 0.1 * step.compute_s
    drawn = ComputeTimes(1.0, jitter, 0)
    slowest = [drawn.slowest_s(GROUPS, 1) for _ in range(STEPS)]
    if jitter:
        slowest = [jitter / 2 * round(factor / (jitter / 2)) for factor in slowest]
    factors = [(1 + validation) * factor for factor in slowest]
    changes = f"job.compute_jitter={jitter}", f"failures.kinds.validation_share={validation}"
    record = alike(on_model(*changes))
    expected_s = STEPS * step.step_s + (sum(factors) - STEPS) * step.compute_s + SAVE_S
    assert record["time_s"] == pytest.approx(expected_s, rel=1e-6)
    once_s = STEPS * validation * step.compute_s
    assert record["redundancy_s"] == pytest.approx(once_s, rel=1e-6, abs=1e-9)


SLOW = "0.1,gpu-6,slow,0.5,1.6,3.2", "0.1,group-3,slow,0.5,1.2,3.2", "0.2,gpu-7,slow,0.5,1.7,3.2"
LINK = ("0.1,nvlink-14,slow,0.5,1.6,3.2",)
LOST = "0.3,gpu-3,hardware,,,100", "0.9,gpu-19,hardware,,,100"


@pytest.mark.parametrize("rows", [SLOW, LINK, LOST], ids=["slow GPUs", "slow link", "failures"])
@pytest.mark.parametrize("model", ["model.pipeline=2", "model.gradient_overlap=0.9"])
def test_engines_draw_the_same_factors(
    rows: tuple[str, ...], model: str, on_model: On, tmp_path: Path
) -> None:
    """What is slow beside the jitter adds up by computations, too."""
    layout = ("model.tensor=4",) if "pipeline" in model else ()
    changes = f"job.compute_jitter={JITTER}", "failures.kinds.validation_share=0.05"
    failing = *traced(tmp_path, *rows), "failures.trace_span_s=1e9", "job.steps=40"
    scenario = on_model(*changes, model, *layout, *failing)
    columns = "time_s", "degraded_s", "waiting_s", "redundancy_s", "events", "all_reduce_s"
    record = alike(scenario, 0, *columns, abs_s=1e-6)
    assert record["events"] == len(rows) * (rows == LOST)
    assert record["waiting_s"] > 0.0


def test_jitter_is_part_of_the_undisturbed_step(on_model: On) -> None:
    record = run(on_model(f"job.compute_jitter={JITTER}", "job.steps=2000"), 0)
    assert record["time_to_train_ratio"] == pytest.approx(1.0, abs=0.005)
    assert record["goodput"] == pytest.approx(1.0, abs=0.005)
