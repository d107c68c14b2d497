"""Verification: which choices are simulated, with which seeds, and when they stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faultline.experiments.analysis.intervals import factors_to_all_seeds
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve
from faultline.experiments.planner import verification
from faultline.experiments.planner.plan import make_plan
from faultline.experiments.planner.situation import (
    choices_of,
)
from faultline.experiments.planner.verification import (
    FAILURES_WANTED,
    HOPELESS,
    MOST_SEEDS,
    Simulated,
    steps_needed,
    verify,
)
from faultline.experiments.runs.single_run import run

from tests.experiments.planner.small_jobs import STORAGE, small


def test_the_length_of_a_simulated_job_does_not_depend_on_the_schemes() -> None:
    often = small("failures.mtbf_s=20", "times.restart_s=1", "times.checkpoint_load_s=0")
    wanted = FAILURES_WANTED * 20 / often.ideal_step_s
    for scheme in ("checkpoint", "spare", "replica-drop"):
        resolved = choices_of(often, scheme, "storage")[0].resolved
        assert steps_needed(resolved) == pytest.approx(wanted, abs=1)
    whole = choices_of(small(), "checkpoint", "storage")[0].resolved
    assert steps_needed(whole) == 600


def test_one_failure_of_all_groups_is_one_recovery(tmp_path: Path) -> None:
    """Its mean recovery is the whole restart, by whatever number of groups it stops."""
    path = tmp_path / "trace.csv"
    path.write_text("time,component\n2000,job\n", encoding="utf-8")
    settings = ["failures.model=trace", f"failures.trace={path}", "times.restart_s=700"]
    resolved = resolve(load_scenario("spare-sound", [*settings, "job.groups=24", "job.steps=60"]))
    (simulated,) = verify([resolved], [0], 60)
    record = run(resolved.shortened(60), 0)
    assert (record["events"], record["hits"], record["restarts"]) == (1, 24, 1)
    assert simulated.recovery_s == pytest.approx(
        record["detection_s"] + record["restart_s"] + record["load_s"]
    )
    assert simulated.recovery_s >= 700


def test_ties_get_more_seeds_and_hopeless_choices_are_stopped() -> None:
    situation = small()
    choice = choices_of(situation, "spare", "storage")[0]
    near = replace(
        choice, resolved=replace(choice.resolved, interval_steps=choice.interval_steps + 1)
    )
    best, alike = verify([choice.resolved, near.resolved], range(3), 300)
    assert len(best.ratios) == len(alike.ratios)
    assert 3 < len(best.ratios) <= MOST_SEEDS
    slow = small("failures.mtbf_s=300", "job.steps=100")
    bad = choices_of(slow, "checkpoint", "storage")[0]
    good = choices_of(slow, "spare", "storage")[0]
    _, stopped = verify([good.resolved, bad.resolved], range(3), 100)
    assert stopped.stopped_at == HOPELESS
    assert len(stopped.ratios) == 1
    assert not stopped.finished


def stand_in(monkeypatch: pytest.MonkeyPatch, ratio_of: Callable[[int, int], float]) -> None:
    """Let each of some choices take `ratio_of(place, seed)` instead of being simulated."""

    def records(
        resolved_jobs: Sequence[ResolvedJob],
        pairs: Sequence[tuple[int, int]],
        steps: int,
        limit_s: float | None = None,
        on_done: object = None,
    ) -> list[dict[str, float]]:
        found = []
        for place, seed in pairs:
            ratio, ideal_s = ratio_of(place, seed), steps * resolved_jobs[place].ideal_step_s
            in_time = limit_s is None or ratio * ideal_s <= limit_s
            record = dict.fromkeys(
                ("states_refused", "events", "detection_s", "reconfigure_s", "restart_s",
                 "load_s"), 0.0,
            )  # fmt: skip
            record |= {"steps": steps, "completed_steps": steps if in_time else steps / 2}
            record |= {"time_to_train_ratio": ratio, "goodput": 1 / ratio, "availability": 0.9}
            record |= {"checkpoint_interval_s": 70.0, "checkpoint_interval_steps": 1}
            found.append(record)
        return found

    monkeypatch.setattr(verification, "simulate_pairs", records)


@pytest.mark.parametrize(
    "order", [(3.0, 1.2, 2.3, 13.0), (1.2, 2.3, 13.0, 3.0), (13.0, 2.3, 3.0, 1.2)]
)
@pytest.mark.parametrize("failures", [9, 11])
def test_only_the_soonest_choice_decides_whether_another_is_stopped(
    order: tuple[float, ...], failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.3 is within twice 1.2, 3.0 is not; where failures are few, it is within ten times that."""
    step_s = small().ideal_step_s
    choice = choices_of(small(f"failures.mtbf_s={100 * step_s / failures}"), "spare", "storage")[0]
    stand_in(monkeypatch, lambda place, _: order[place])
    results = verify([choice.resolved] * 4, range(3), 100)
    most = 12.0 if failures < 10 else 2.4
    going = [ratio < most for ratio in order]
    assert [one.finished for one in results] == going
    assert [one.stopped_at is None for one in results] == going


def test_choices_with_fewer_seeds_are_ranked_by_common_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seeds 0 to 2 are kind; what was 1 % behind with them once came before what met all."""
    seed_costs = [0.0, 0.1, 0.2, *[0.6] * (MOST_SEEDS - 3)]
    sway = [0.0, 0.03, -0.03, *[0.02, -0.02] * MOST_SEEDS]

    def ratio_of(place: int, seed: int) -> float:
        own = (0.0, sway[seed], 0.01)[place]  # The soonest, one like it by chance, one behind.
        return 1.1 + seed_costs[seed] + own

    situation = small("rejoin.when=at-restart")
    schemes = ["replication", "spare", "checkpoint"]
    simulated: list[ResolvedJob] = []

    def verified(resolved_jobs: Sequence[ResolvedJob], *args: Any) -> list[Simulated]:
        simulated.extend(resolved_jobs)
        return verify(resolved_jobs, *args)

    stand_in(monkeypatch, ratio_of)
    monkeypatch.setattr("faultline.experiments.planner.plan.verify", verified)
    plan = make_plan(situation, schemes, STORAGE, range(3), 1)
    rank = [simulated.index(line.choice.resolved) for line in plan.lines]
    seeds = [len(line.simulated.ratios) for line in plan.lines if line.simulated is not None]
    assert rank.index(2) > rank.index(0)
    assert seeds[rank.index(2)] == 3
    assert seeds[rank.index(0)] == seeds[rank.index(1)] == MOST_SEEDS
    soonest, behind = plan.lines[0], plan.lines[rank.index(2)]
    assert soonest.simulated is not None
    assert behind.simulated is not None
    # It varies from seed to seed as the soonest does, but for its longer time.
    scaled = (
        soonest.ratio * np.mean(behind.simulated.ratios) / np.mean(soonest.simulated.ratios[:3])
    )
    assert behind.ratio == pytest.approx(scaled, rel=3e-3)
    assert behind.goodput * behind.ratio == pytest.approx(1.0, rel=0.02)


def test_a_choice_that_hardly_varies_over_seeds_keeps_its_time() -> None:
    """The soonest had three kind seeds of six: half as sensitive a choice had half the luck."""
    soonest = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5)
    varying = {"alike": (2.0, 2.2, 2.4), "half": (2.1, 2.2, 2.3), "deaf": (2.2, 2.2, 2.2)}
    whole = 1.25 / 1.1
    expected = [1.0, whole, 1.0 + 0.5 * (whole - 1.0), 1.0]
    assert factors_to_all_seeds([soonest, *varying.values()]) == pytest.approx(expected)


def test_a_choice_that_was_separated_early_can_become_the_soonest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Place 1 is surely behind 0 with three seeds, and before it when 0 meets its unkind seeds."""

    def ratio_of(place: int, seed: int) -> float:
        if place == 0:
            return 1.10 if seed < 3 else 1.30
        if place == 1:
            return 1.12
        return 1.09 + 0.04 * (seed % 2)

    choice = choices_of(small(), "spare", "storage")[0]
    stand_in(monkeypatch, ratio_of)
    results = verify([choice.resolved] * 3, range(3), 100)
    factors = factors_to_all_seeds([one.ratios for one in results])
    means = [factor * np.mean(one.ratios) for factor, one in zip(factors, results, strict=True)]
    soonest = results[int(np.argmin(means))]
    assert len(soonest.ratios) == max(len(one.ratios) for one in results)


def test_results_of_a_scheme_do_not_depend_on_other_schemes() -> None:
    """Failures, length and limit of a simulated job do not depend on the other schemes."""
    known: dict[tuple[str, int, str], tuple[float, ...]] = {}
    for schemes in (["replication", "spare"], ["spare"], ["replication"]):
        for line in make_plan(small(), schemes, STORAGE, range(3), 6).lines:
            assert line.simulated is not None
            assert line.simulated.steps == 600
            if line.finished:
                own = line.simulated.ratios[:3]
                choice = line.choice
                setting = choice.scheme, choice.redundancy, choice.rejoin_when
                assert known.setdefault(setting, own) == own
    assert {scheme for scheme, *_ in known} == {"replication", "spare"}
