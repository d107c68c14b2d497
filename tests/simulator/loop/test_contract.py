"""What a scheme is given of what is broken, and what it may return, else it is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from faultline.experiments.cli import main
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolving import resolve
from faultline.simulator.failures.distributions import Exponential
from faultline.simulator.failures.failure import Failure
from faultline.simulator.hardware.hit_list import HitList
from faultline.simulator.loop.contract import Contract, ContractError
from faultline.simulator.loop.run import simulate
from faultline.simulator.loop.training import Training
from faultline.simulator.replay.engine import ReplayEngine
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.recovery import Mirror, Move, SentMove, rejoining
from faultline.strategies.interface.scheme import (
    Continue,
    Hit,
    StepPlan,
    Strategy,
    StrategyOptions,
    Task,
    Verdict,
    WipeOut,
)
from faultline.strategies.interface.step_shares import Pipeline, StageShare, idle, reduced_pipeline
from faultline.strategies.plugins.registry import all_strategies
from faultline.strategies.theory.checkpoint_period import Costs

from tests.simulator.helpers import Obedient, replayed, small_job, traced
from tests.stated_times import NOTHING_MEASURED, SNAPSHOT_SETTINGS

_SHAPE = JobShape()
_STAGES = [StageShare(2, stage) for stage in range(_SHAPE.stages)]
FREE = Pipeline(
    2, (*_STAGES[:-1], StageShare(2, 7, None, 0.0, 0.0)), _SHAPE.micro_batches, _SHAPE.tensor
)
HALF_A_STAGE = replace(FREE, stages=(*_STAGES[:3], StageShare(2, 3, None, 1.0, 0.5), *_STAGES[4:]))
BOOSTED = reduced_pipeline(2, _SHAPE.stages, _SHAPE.micro_batches, _SHAPE.tensor, 0.9)
SHORT = replace(FREE, stages=tuple(_STAGES[:-1]))


def computing(pipeline: Pipeline, **changes: Any) -> dict[str, Any]:
    """Return a plan of three of four groups."""
    return {"pipelines": (pipeline,), "batch_share": 0.75, **changes}


ON_THE_DEAD = replace(FREE, stages=(*_STAGES[:-1], StageShare(1, 7)))
NOT_A_NUMBER = replace(FREE, stages=(*_STAGES[:-1], StageShare(2, 7, None, float("nan"), 1.0)))

SENT = SentMove(Move(0, 0, 0, 1), 2)


def sending(sender: int | None = 2, **changes: Any) -> tuple[Mirror, ...]:
    return (Mirror((SentMove(SENT.move._replace(**changes), sender),)),)


class Pliant(Strategy):
    """Drops the missing groups, unless it is given something else to do."""

    name = "pliant"
    summary = "A scheme for these tests"

    def __init__(self, groups: int, redundancy: int = 1, **changes: Any) -> None:
        super().__init__(groups, redundancy, StrategyOptions(), JobShape())
        self._plan_changes = changes.pop("plan", {})
        self._verdict_changes = changes.pop("verdict", {})
        self._clings, self._forgets = changes.pop("clings", False), changes.pop("forgets", False)
        self._plan = StepPlan(tuple(range(groups)), 1)

    def restart(self) -> None:
        if not self._forgets:
            self._plan = StepPlan(tuple(range(self.groups)), 1)

    def plan(self) -> StepPlan:
        return self._plan

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        if not self._clings:
            members = tuple(group for group in self._plan.members if group not in missing)
            self._plan = StepPlan(members, 1)._replace(**self._plan_changes)
        return Continue(tuple(missing))._replace(**self._verdict_changes)

    def masked_failures(self) -> float:
        return 5.0

    def work_per_step(self) -> float:
        return 1.0


@pytest.mark.parametrize(
    "changes",
    [
        computing(HALF_A_STAGE, approximate=(Task(2, 3, 3),), stages=_SHAPE.stages),
        # One of four groups draws 18 % more.
        computing(BOOSTED, power=1.05),
    ],
)
def test_work_that_is_left_out_by_a_declared_right(changes: dict[str, Any]) -> None:
    scheme = Pliant(4, plan=changes)
    assert Contract(scheme, 4).verdict((1,)) == Continue((1,))


def test_a_scheme_that_keeps_it_is_let_through() -> None:
    scheme = Pliant(4)
    contract = Contract(scheme, 4)
    assert contract.verdict((1, 2)) == Continue((1, 2))
    assert contract.verdict((3,)) == Continue((3,))
    scheme.restart()
    contract.restarted()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clings": True}, "dropped groups as members"),
        ({"plan": {"members": (0, 3)}}, "other members than before"),
        ({"plan": {"pace": float("nan")}}, "pace of nan"),
        ({"plan": {"stacks": 0}}, "0 stacks"),
        ({"plan": computing(FREE)}, "trains 3 shard types, .* 2 forward passes of stage 7"),
        ({"plan": computing(HALF_A_STAGE)}, "compute 2.5 backward passes of stage 3"),
        ({"plan": computing(BOOSTED, power=1.04)}, "compute 2.9 forward passes of stage 0"),
        ({"plan": computing(HALF_A_STAGE, power=2.0)}, "backward passes of stage 3"),
        ({"plan": computing(SHORT)}, "forward passes of stage 7"),
        ({"plan": {"pipelines": (NOT_A_NUMBER,)}}, "work .*nan, .* in the pipeline of group 2"),
        ({"plan": {"batch_share": 1.5}}, "batch share of 1.5"),
        ({"plan": {"pipelines": (idle(1),)}}, r"pipelines of groups \[1\]"),
        ({"plan": {"pipelines": (ON_THE_DEAD,)}}, "group 2's pipeline on a node of group 1, which"),
        ({"plan": {"pipelines": (idle(3), idle(2))}}, "ascending order"),
        ({"plan": {"pipelines": (reduced_pipeline(4, 1, 1, 1),)}}, r"pipelines of groups \[4\]"),
        (
            {"plan": {"pipelines": (reduced_pipeline(2, 1, 0, 1),)}},
            "0 micro-batches in the .* group 2",
        ),
        ({"plan": {"mirrors": (Mirror((SENT,), 0),)}}, "mirror every 0 steps"),
        ({"plan": {"mirrors": sending(sender=None)}}, "mirror from group None to group 0"),
        ({"plan": {"mirrors": sending(of=1)}}, "mirror that cannot be sent"),
        ({"plan": {"mirrors": sending(share=1.5)}}, "a share above 0, up to 1"),
        ({"verdict": {"dropped": ()}}, "missing for ever"),
        ({"verdict": {"dropped": (1, 1)}}, "each once"),
        ({"verdict": {"carried_on": (2,)}}, "members that are missing"),
        ({"verdict": {"patch": {1: 1}}}, "group 1 compute a patch"),
        ({"verdict": {"patch": {2: -1}}}, "-1 stacks"),
        ({"verdict": {"patch": {2: 0.5}}}, "group 2 compute 0.5 stacks"),
        ({"verdict": {"recovery": rejoining([4])}}, "moves the state of stage"),
    ],
)
def test_a_scheme_that_breaks_it_is_named(changes: dict[str, Any], message: str) -> None:
    contract = Contract(Pliant(4, **changes), 4)
    with pytest.raises(ContractError, match=f"'pliant' broke its contract.*{message}"):
        contract.verdict((1,))


@pytest.mark.parametrize("work", [-1.0, 0.0, float("nan"), float("inf")])
def test_work_per_step_is_a_number_above_zero(monkeypatch: pytest.MonkeyPatch, work: float) -> None:
    monkeypatch.setattr(Pliant, "work_per_step", lambda _: work)
    with pytest.raises(StrategyError, match=f"'pliant'.*work_per_step.. is {work}"):
        Pliant(4).best_interval_steps(Costs(1.0, 1.0, 1.0, 1.0, 1.0))


def test_a_verdict_is_one() -> None:
    class Silent(Pliant):
        def on_failures(self, missing: Sequence[int]) -> Verdict:
            return None  # type: ignore[return-value]

    with pytest.raises(ContractError, match="returned None"):
        Contract(Silent(4), 4).verdict((1,))


def test_a_restart_with_new_hardware_brings_every_group_back() -> None:
    contract = Contract(Pliant(4, forgets=True), 4)
    contract.verdict((1,))
    with pytest.raises(ContractError, match="lacks 1 of 4 groups"):
        contract.restarted()


def test_members_come_and_go_with_events_only() -> None:
    scheme = Pliant(4)
    contract = Contract(scheme, 4)
    scheme.on_failures((2,))
    with pytest.raises(ContractError, match="other members than at the last failure"):
        contract.replanned()
    scheme.restart()
    contract.verdict((1, 2))
    scheme.restart()
    with pytest.raises(ContractError, match=r"on_return\(\[1\]\)"):
        contract.returned((1,))


def test_a_run_of_a_scheme_that_drops_no_group_ends_with_its_name() -> None:
    """Without the check the job goes on with a group that is down, and takes hardly longer."""
    job = small_job(Exponential(100.0))
    with pytest.raises(ContractError, match="scheme 'pliant' broke its contract"):
        simulate(Training(job, Pliant(3, clings=True)), ReplayEngine(job))


def test_redundancy_that_is_none_of_a_scheme_is_refused() -> None:
    class Pairs(Pliant):
        name = "pairs"

        @classmethod
        def redundancies(cls, groups: int, options: StrategyOptions) -> Sequence[int]:
            return (2, 4)

    assert Pairs(8, 4).redundancy == 4
    with pytest.raises(StrategyError, match=r"pairs cannot have redundancy 3.*use one of 2, 4"):
        Pairs(8, 3)


def test_the_command_names_the_scheme_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = all_strategies()["spare"]
    monkeypatch.setattr(broken, "on_failures", lambda _, missing: Continue(tuple(missing)))
    changes = ["job.groups=24", "job.steps=200", "strategy.name=spare", "strategy.redundancy=3"]
    settings = [part for one in changes for part in ("--set", one)]
    assert main(["run", "spare-sound", *settings]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "scheme 'spare' broke its contract" in printed


TRACE = (
    "1000,gpu-3,hardware,,,9000",
    "1100,gpu-17,hardware,,,9000",
    "1150,host-5,hardware,,,20000",
    "6000,gpu-40,software,,,100",
    "12000,gpu-50,hardware,,,9000",
)


class Listener(Obedient):
    """Restarts at each failure with all groups, and writes down what is reported to it."""

    restart_replaces: ClassVar[bool] = False

    def __init__(self, groups: int) -> None:
        self.reported: list[list[tuple[int, int]]] = []
        super().__init__(groups, [])

    def restart(self) -> None:
        super().restart()
        self.reported.append([])

    def on_hit(self, hit: Hit) -> None:
        self.reported[-1].append((hit.group, hit.first_gpu))

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        return WipeOut(tuple(missing))


@pytest.mark.parametrize("protection", ["storage", "async-storage"])
def test_what_breaks_in_a_restart_is_reported_after_the_next(
    tmp_path: Path, protection: str
) -> None:
    """Restarts take 600 s: GPUs 17 and 40 to 47 break in the first. Nothing is reported twice."""
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
    assert progress.events == 5
    assert [sorted(hits) for hits in listener.reported] == [
        [(0, 3)],
        [(0, 3), (2, 8)],
        [(0, 3), (1, 1), (2, 8), (2, 8), (3, 2)],
        [(2, 8), (3, 2)],
    ]


class Needy(Listener):
    """Works where at most two components are broken."""

    def plan(self) -> StepPlan:
        return super().plan() if len(self.reported[-1]) <= 2 else StepPlan((), 1)


def test_a_restart_waits_for_as_many_repairs_as_the_scheme_needs() -> None:
    scheme = Needy(4)
    job = resolve(load_scenario("mecefo-7b")).job(0)
    hits = HitList(scheme, job.hardware, job.rules)

    def strike(gpu: int, repair_s: float) -> None:
        hits.strike({0: Failure(0.0, "gpu", gpu, "", "hardware", repair_s, range(1))}, 0.0)

    for gpu in range(1, 7):
        strike(gpu, 10.0 * gpu)
    assert hits.enough_repaired_s() == 40.0
    assert scheme.reported[-1] == [(0, 5), (0, 6)]
    assert hits.repair(60.0) is None
    strike(1, 70.0)
    assert hits.enough_repaired_s() < 0.0


def test_a_plan_is_a_step_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pliant, "plan", lambda _: None)
    with pytest.raises(ContractError, match=r"plan\(\) returned NoneType, and no StepPlan"):
        Contract(Pliant(4), 4)
