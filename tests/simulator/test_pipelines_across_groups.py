"""Pipelines that list nodes of other groups, some of them twice, while these groups fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.platform_files import platform_file
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.job.step_times import simulated_traffic
from faultline.simulator.job import Job
from faultline.simulator.progress import Progress
from faultline.simulator.simgrid_engine.errors import SimulationError
from faultline.simulator.simgrid_engine.process import (
    SimgridResult,
    in_own_process,
    run_on_simgrid,
    simulate_here,
)
from faultline.simulator.simgrid_engine.traffic import Traffic
from faultline.simulator.timeline import Event, EventKind
from faultline.strategies.base import Continue, Hit, StepPlan, StrategyOptions, Verdict, WipeOut
from faultline.strategies.recovery import Recovery, RecoveryKind
from faultline.strategies.step_shares import Pipeline, StageShare
from faultline.strategies.takeover.pipeline_scheme import NOTHING_LEFT, PipelineScheme

from tests.simulator.helpers import replayed, same_story, traced
from tests.simulator.test_engines_agree_on_schemes import PLAYED

MTBF_S = 1.0


class StandIn(PipelineScheme):
    """The same stage of the next group does a lost one besides its own."""

    name: ClassVar[str] = "stand-in"
    summary: ClassVar[str] = "A scheme for these tests"
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("take-over", "hand-back")

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        again = dict.fromkeys(self._interrupted(missing), 1)
        self._newly.clear()
        if self._step_plan() is NOTHING_LEFT:
            return WipeOut(tuple(missing))
        recovery = Recovery("take-over") if again else None
        return Continue((), again, carried_on=tuple(missing), recovery=recovery)

    def on_repair(self, hit: Hit) -> Recovery | None:
        if not self._lost.repair(hit):
            return None
        self._plan = None
        return Recovery("hand-back", is_expected=True)

    def _step_plan(self) -> StepPlan:
        lost = [self._lost.of(group) for group in range(self.groups)]
        pipelines = []
        for group in range(self.groups):
            nearest = [*range(group, self.groups), *range(group)]
            does = [
                next((each for each in nearest if stage not in lost[each]), None)
                for stage in range(self.shape.stages)
            ]
            if None in does:
                return NOTHING_LEFT
            shares = tuple(
                StageShare(each, stage) for stage, each in enumerate(does) if each is not None
            )
            if lost[group]:
                pipelines.append(
                    Pipeline(group, shares, self.shape.micro_batches, self.shape.tensor)
                )
        return StepPlan(self._whole.members, 1, pipelines=tuple(pipelines))


def question(path: Path, *changes: str) -> Scenario:
    settings = [*PLAYED, "detection.mode=all-reduce", *changes, f"platform.file={path}"]
    return load_scenario("llama3-70b-hgx", [*settings, "strategy.name=checkpoint"])


def asked(scenario: Scenario, seed: int) -> tuple[Job, StandIn, Path, Traffic]:
    path = platform_file(scenario)
    job = resolve(scenario).job(seed)
    scheme = StandIn(job.work.groups, 1, StrategyOptions().for_job(job_shape(scenario)))
    return job, scheme, path, simulated_traffic(scenario, path, simulated=True)


def on_both(scenario: Scenario, seed: int) -> tuple[list[Event], Progress]:
    """Run on both engines, assert that they agree, and return what came of it."""
    job, scheme, path, traffic = asked(scenario, seed)
    events: list[Event] = []
    ours = replayed(job, scheme, events.append)
    scheme.restart()
    theirs = run_on_simgrid(job, scheme, path, traffic, events=True)
    same_story(events, theirs.events)
    spent = pytest.approx(ours.seconds, rel=1e-6, abs=1e-6 * ours.now_s)
    assert theirs.progress.seconds == spent
    # All groups compute at the nominal pace, so no group is faster than that.
    assert ours.seconds["waiting"] > -1e-6 * ours.now_s
    assert ours.events > 0
    return events, ours


@pytest.mark.parametrize(
    "seed", [2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1, 4))]
)
def test_engines_agree_if_a_stand_in_fails_too(servers_of: Callable[..., Path], seed: int) -> None:
    """A pipeline on nodes of a failed group delays neither passes nor patches.

    In one of these jobs two pipelines have all stages on the same nodes.
    """
    path = servers_of(domains=4, domains_per_leaf=4)
    on_both(question(path, f"failures.mtbf_s={MTBF_S}", "rejoin.repair_s=20"), seed)


@pytest.mark.parametrize("moment_s", [0.02, 0.1, 0.2])
def test_a_host_goes_off_in_the_middle_of_a_step(
    servers_of: Callable[..., Path], tmp_path: Path, moment_s: float
) -> None:
    """Group 1 does a stage of group 0 besides its own, and fails in a later step."""
    rows = traced(tmp_path, "0.05,gpu-0,hardware", f"{1 + moment_s},gpu-12,hardware")
    path = servers_of(domains=4, domains_per_leaf=4)
    events, progress = on_both(question(path, *rows, "rejoin.repair_s=1e6", "job.steps=6"), 0)
    assert progress.events == 2
    assert [event.groups for event in events if event.kind is EventKind.MISSING] == [(0,), (1,)]


def without_foresight(job: Job, scheme: StandIn, path: Path, traffic: Traffic) -> SimgridResult:
    """Run a job on an engine that runs each step to its end, even if a group fails."""
    from faultline.simulator.simgrid_engine.controller import SimgridEngine

    SimgridEngine._unharmed = lambda self, members, duration_s: set(members)  # type: ignore[method-assign]
    return simulate_here(job, scheme, path, traffic, True)


def test_a_host_that_goes_off_under_a_task_is_refused_by_name(
    servers_of: Callable[..., Path], tmp_path: Path
) -> None:
    path = servers_of(domains=4, domains_per_leaf=4)
    rows = traced(tmp_path, "0.05,gpu-0,hardware")
    with pytest.raises(SimulationError, match=r"^group 0 fails at 0.05 s while tasks of a step"):
        in_own_process(without_foresight, *asked(question(path, *rows), 0))
