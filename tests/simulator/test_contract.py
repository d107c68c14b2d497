"""Schemes that break their contract are named, instead of giving a number like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from faultline.experiments.cli import main
from faultline.simulator.contract import Contract, ContractError
from faultline.simulator.failures.distributions import Exponential
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import play
from faultline.simulator.training import Training
from faultline.strategies.base import Continue, StepPlan, Strategy, StrategyOptions, Verdict
from faultline.strategies.errors import StrategyError
from faultline.strategies.recovery import rejoining
from faultline.strategies.registry import all_strategies
from faultline.strategies.step_shares import idle, reduced

from tests.simulator.helpers import small_job


class Pliant(Strategy):
    """Drops whoever is missing, unless told to do something else."""

    name = "pliant"
    summary = "A scheme for these tests"

    def __init__(self, groups: int, redundancy: int = 1, **changes: Any) -> None:
        super().__init__(groups, redundancy, StrategyOptions())
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
            self._plan = replace(StepPlan(members, 1), **self._plan_changes)
        return replace(Continue(tuple(missing)), **self._verdict_changes)

    def masked_failures(self) -> float:
        return 5.0

    def work_per_step(self) -> float:
        return 1.0


def test_who_keeps_it_is_let_through() -> None:
    scheme = Pliant(4)
    contract = Contract(scheme, 4)
    assert contract.verdict((1, 2)) == Continue((1, 2))
    assert contract.verdict((3,)) == Continue((3,))
    scheme.restart()
    contract.restarted()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"clings": True}, "dropped groups as members"),
        ({"plan": {"members": (0, 3)}}, "other members than before"),
        ({"plan": {"members": (3, 2, 0)}}, "other members than before"),
        ({"plan": {"pace": float("nan")}}, "pace of nan"),
        ({"plan": {"stacks": 0}}, "0 stacks"),
        ({"plan": {"batch_share": 1.5}}, "batch share of 1.5"),
        ({"plan": {"pipelines": (idle(1),)}}, r"pipelines of groups \[1\]"),
        ({"plan": {"pipelines": (idle(3), idle(2))}}, "ascending order"),
        ({"plan": {"pipelines": (reduced(4, 1, 1, 1),)}}, r"pipelines of groups \[4\]"),
        ({"plan": {"pipelines": (reduced(2, 1, 0, 1),)}}, "pipeline that cannot be"),
        ({"verdict": {"dropped": ()}}, "missing for ever"),
        ({"verdict": {"dropped": (1, 1)}}, "each once"),
        ({"verdict": {"carried_on": (2,)}}, "members that are missing"),
        ({"verdict": {"patch": {1: 1}}}, "group 1 compute a patch"),
        ({"verdict": {"patch": {7: 1}}}, "group 7 compute a patch"),
        ({"verdict": {"patch": {2: -1}}}, "-1 stacks"),
        ({"verdict": {"recovery": rejoining([4])}}, "state that is none of the job's"),
    ],
)
def test_who_breaks_it_is_named(changes: dict[str, Any], told: str) -> None:
    contract = Contract(Pliant(4, **changes), 4)
    with pytest.raises(ContractError, match=f"'pliant' broke its contract.*{told}"):
        contract.verdict((1,))


def test_a_verdict_is_one() -> None:
    class Silent(Pliant):
        def on_failures(self, missing: Sequence[int]) -> Verdict:
            return None  # type: ignore[return-value]

    with pytest.raises(ContractError, match="returned None"):
        Contract(Silent(4), 4).verdict((1,))


def test_a_restart_with_new_hardware_brings_everybody_back() -> None:
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


def test_a_run_of_a_scheme_that_drops_nobody_ends_with_its_name() -> None:
    """Without the check the job goes on with a group that is down, and takes hardly longer."""
    job = small_job(Exponential(100.0))
    with pytest.raises(ContractError, match="scheme 'pliant' broke its contract"):
        play(Training(job.work, job.rules, Pliant(3, clings=True)), ReplayEngine(job))


def test_redundancy_that_is_none_of_a_scheme_is_refused() -> None:
    class Pairs(Pliant):
        name = "pairs"

        @classmethod
        def redundancies(cls, groups: int, options: StrategyOptions) -> Sequence[int]:
            return (2, 4)

    assert Pairs(8, 4).redundancy == 4
    with pytest.raises(StrategyError, match=r"redundancy 3 is none of pairs.*use one of 2, 4"):
        Pairs(8, 3)


def test_the_command_names_the_scheme_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = all_strategies()["spare"]
    monkeypatch.setattr(broken, "on_failures", lambda _, missing: Continue(tuple(missing)))
    asked = ["job.groups=24", "job.steps=200", "strategy.name=spare", "strategy.redundancy=3"]
    settings = [part for one in asked for part in ("--set", one)]
    assert main(["run", "spare-sound", *settings]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "scheme 'spare' broke its contract" in told
