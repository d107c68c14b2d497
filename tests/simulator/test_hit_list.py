"""What a scheme is told of what is broken: everything, once, also what broke in a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.simulator.failures.failure import Failure
from faultline.simulator.hit_list import HitList
from faultline.strategies.base import Hit, StepPlan, Strategy, StrategyOptions, Verdict, WipeOut

from tests.simulator.helpers import Scripted, replayed, small_job, traced
from tests.stated_times import NOTHING_MEASURED, SNAPSHOT_SETTINGS

TRACE = (
    "1000,gpu-3,hardware,,,9000",
    "1100,gpu-17,hardware,,,9000",
    "1150,host-5,hardware,,,20000",
    "6000,gpu-40,software,,,100",
    "12000,gpu-50,hardware,,,9000",
)


class Listener(Strategy):
    """Restarts at each failure with all groups, and writes down what it hears."""

    tracks_components: ClassVar[bool] = True
    restart_replaces: ClassVar[bool] = False
    repairs_wait_for_restart: ClassVar[bool] = True

    def __init__(self, groups: int) -> None:
        super().__init__(groups, 1, StrategyOptions())
        self.heard: list[list[tuple[int, int]]] = [[]]
        self._plan = StepPlan(tuple(range(groups)), 1)

    def restart(self) -> None:
        self.heard.append([])

    def plan(self) -> StepPlan:
        return self._plan

    def on_hit(self, hit: Hit) -> None:
        self.heard[-1].append((hit.group, hit.first_gpu))

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        return WipeOut(tuple(missing))

    def masked_failures(self) -> float:
        return 1.0

    def work_per_step(self) -> float:
        return 1.0


@pytest.mark.parametrize("protection", ["storage", "async-storage"])
def test_what_breaks_in_a_restart_is_told_after_the_next(tmp_path: Path, protection: str) -> None:
    """Restarts take 600 s: GPUs 17 and 40 to 47 break in the first. Nothing is told twice."""
    scenario = load_scenario(
        "spare-sound",
        [
            "strategy.name=checkpoint",
            "job.groups=8",
            "job.gpus=128",
            "job.parameter_bytes=1e12",
            "job.steps=300",
            "job.compute_jitter=0",
            *traced(tmp_path, *TRACE),
            "failures.gpus_per_host=8",
            "times.restart_s=600",
            *NOTHING_MEASURED,
            f"protection.name={protection}",
            *SNAPSHOT_SETTINGS,
        ],
    )
    job = resolve(scenario).job(seed=0)
    listener = Listener(8)
    progress = replayed(job, listener)
    assert progress.failures == 5
    assert [sorted(told) for told in listener.heard] == [
        [(0, 3)],
        [(0, 3), (2, 8)],
        [(0, 3), (1, 1), (2, 8), (2, 8), (3, 2)],
        [(2, 8), (3, 2)],
    ]


def shared(time_s: float, repair_s: float) -> Failure:
    """Return a failure of a switch that takes groups 0 and 1 down."""
    return Failure(time_s, "switch", 0, "unstated", "hardware", repair_s, range(2))


def test_what_a_reconfiguration_tells_is_kept_as_long_as_it_is_broken() -> None:
    """Group 0 is dropped; group 1 was down already, and comes back broken with the next restart."""
    work = replace(resolve(load_scenario("mecefo-7b")).job(0).work, layout=None)
    scheme = Listener(4)
    hits = HitList(scheme, work)
    failure = shared(10.0, 1000.0)
    hits.strike([0], [failure], 12.0)
    hits.hear([failure], 12.0)
    hits.note([])
    hits.after_restart(900.0)
    assert sorted(scheme.heard[-1]) == [(0, 0), (0, 0), (1, 0)]
    for time_s in range(100, 10_000, 10):
        hits.strike([0], [shared(time_s, 25.0)], time_s)
        hits.hear([shared(time_s, 25.0)], time_s)
        assert len(hits._told) <= 3
        assert len(hits._known) <= 3


class Needy(Listener):
    """Works where at most two components are broken."""

    def plan(self) -> StepPlan:
        return self._plan if len(self.heard[-1]) <= 2 else StepPlan((), 1)


def test_a_restart_waits_for_as_many_repairs_as_the_scheme_needs() -> None:
    scheme = Needy(4)
    hits = HitList(scheme, resolve(load_scenario("mecefo-7b")).job(0).work)
    hits.inherit([(10.0 * number, Hit(0, number, number, 8)) for number in range(1, 7)])
    assert hits.enough_repaired_s() == 40.0
    assert scheme.heard[-1] == [(0, 5), (0, 6)]
    hits.inherit([(70.0, Hit(0, 1, 1, 8))])
    assert hits.enough_repaired_s() < 0.0


class Attentive(Listener):
    """Takes what it has heard for known once its plan is asked for, as pipelines do."""

    has_news = False

    def plan(self) -> StepPlan:
        self.has_news = False
        return super().plan()

    def on_hit(self, hit: Hit) -> None:
        super().on_hit(hit)
        self.has_news = True

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        assert self.has_news
        return super().on_failures(missing)


def test_the_verdict_follows_the_hits_before_any_plan() -> None:
    assert replayed(small_job(Scripted({1: [15.0]})), Attentive(3)).restarts == 1
