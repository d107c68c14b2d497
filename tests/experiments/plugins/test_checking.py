"""`check_scheme` lets every scheme of ours pass, and names the law that a broken one breaks."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import pytest
from faultline.experiments.plugins.job_laws import engines_agree, played_groups, played_jobs
from faultline.experiments.plugins.laws import LAWS
from faultline.experiments.plugins.subject import Subject
from faultline.simulator.loop.contract import ContractError
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.recovery import Mirror, Move, SentMove
from faultline.strategies.interface.scheme import (
    Continue,
    Hit,
    StepPlan,
    StrategyOptions,
    Verdict,
    WipeOut,
)
from faultline.strategies.interface.step_shares import reduced_pipeline
from faultline.strategies.plugins.registry import all_strategies
from faultline.strategies.schemes.mecefo.mecefo import Mecefo
from faultline.strategies.schemes.replication import Replication
from faultline.testing import SchemeError, check_scheme


@pytest.mark.parametrize("name", ["checkpoint", "dp-drop", "replication", "spare"])
def test_schemes_of_ours_keep_their_promises(name: str) -> None:
    check_scheme(all_strategies()[name], groups=12, engines=False)


def test_the_check_prints_the_laws(capsys: pytest.CaptureFixture[str]) -> None:
    check_scheme(Replication, groups=12, engines=False)
    first, *laws, last = capsys.readouterr().out.splitlines()
    assert first == "replication keeps 11 laws (12 groups, redundancy 2, 5, 8, 11):"
    assert [line.split("  ")[1] for line in laws] == [law.name for law in LAWS]
    left_out = "time booked, goodput at most 1, engines agree"
    assert last == f"not checked, because engines=False: {left_out}"


@pytest.mark.slow
@pytest.mark.parametrize("name", all_strategies())
def test_all_schemes_of_ours_do_on_both_engines(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    check_scheme(all_strategies()[name])
    assert capfd.readouterr().err == ""


class Broken(Replication):
    """Each of its children breaks one promise, under a name of its own."""

    def __init_subclass__(cls) -> None:
        cls.name = "broken"


class UnknownProtection(Broken):
    """Suits a protection that there is not."""

    protections = ("prayer",)


class TakesAnything(Broken):
    """Is built with any redundancy."""

    @classmethod
    def accepts(cls, groups: int, redundancy: int, options: StrategyOptions) -> bool:
        return True


class BeginsAnewEachTime(Broken):
    """Returns another plan at each call."""

    def plan(self) -> StepPlan:
        return super().plan()._replace()


class KeepsTheDead(Broken):
    """Drops no group from its plan."""

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        before = self._plan
        verdict = super().on_failures(missing)
        self._plan = before
        return verdict


class MirrorsTheDead(Broken):
    """Goes on sending state to groups that have left."""

    def restart(self) -> None:
        super().restart()
        sent = tuple(SentMove(Move(group ^ 1, 0, 0, 1), group) for group in range(self.groups))
        self._mirrors = (Mirror(sent),)
        self._plan = self._plan._replace(mirrors=self._mirrors)

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        verdict = super().on_failures(missing)
        self._plan = self._plan._replace(mirrors=self._mirrors)
        return verdict


class TrainsForFree(Broken):
    """Computes one shard type where two are needed."""

    def restart(self) -> None:
        super().restart()
        self._plan = self._plan._replace(stack_size=1)

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        verdict = super().on_failures(missing)
        self._plan = self._plan._replace(stack_size=1)
        return verdict


class RollsDice(Broken):
    """Decides by a random number."""

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        verdict = super().on_failures(missing)
        moved = random.randrange(10**6)
        return verdict._replace(moved_types=moved) if isinstance(verdict, Continue) else verdict


class HoldsWhatCannotTravel(Broken):
    """Cannot be sent to another process."""

    def restart(self) -> None:
        super().restart()
        self.decide = lambda: 0


class NeverForgets(Broken):
    """Restarts at a slower pace."""

    def restart(self) -> None:
        first = not hasattr(self, "_restarted")
        super().restart()
        self._restarted = True
        if not first:
            self._plan = self._plan._replace(pace=1.5)


class WaitsForEver(Mecefo):
    """Returns seconds, which are the scenario's to state."""

    name = "broken"

    def on_repair(self, hit: Hit) -> Any:
        return float("inf")


class NeverSaidSo(Broken):
    """Needs a recovery that it has not announced."""

    recoveries = ()


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        (UnknownProtection, "'complete declaration': protections names unknown ones: prayer"),
        (TakesAnything, "'offered redundancies': is built with redundancy 13, more than groups"),
        (BeginsAnewEachTime, "'stable plan': plan.. returns another object although nothing"),
        (KeepsTheDead, "still has dropped groups as members"),
        (MirrorsTheDead, "mirror from group .* let a member send to another member"),
        (
            TrainsForFree,
            "'compute conserved': .*trains 12 of 12 shard types, while 10 .* compute 10",
        ),
        (RollsDice, "'failures alone decide': returns different verdicts for the same failures"),
        (HoldsWhatCannotTravel, "'travels to workers': raised .*pickle"),
        (NeverForgets, "'complete restart': restart.. does not reset all failures"),
        (WaitsForEver, "'complete repair': needs inf to recover"),
        (NeverSaidSo, "'announced recoveries': needs shrink, and recoveries lists"),
    ],
)
def test_a_broken_law_is_named(scheme: Any, message: str) -> None:
    with pytest.raises(SchemeError, match=message):
        check_scheme(scheme, groups=12, engines=False)


class KnowsOneJob(Broken):
    """Plans pipelines of eight stages, whatever the job has."""

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        verdict = super().on_failures(missing)
        if self._plan.members:
            own = reduced_pipeline(
                self._plan.members[0], 8, JobShape().micro_batches, JobShape().tensor
            )
            self._plan = self._plan._replace(pipelines=(own,))
        return verdict


def test_a_job_with_a_model_is_simulated() -> None:
    """Without one, the scheme does as it promises."""
    check_scheme(KnowsOneJob, groups=12, engines=False)
    with pytest.raises(ContractError, match="in the pipeline of group"):
        played_jobs(Subject(KnowsOneJob, 12, Replication.Options()))


class KnowsItsProcess(Broken):
    """Decides otherwise in another process than this one."""

    home = os.getpid()

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        verdict = super().on_failures(missing)
        return verdict if os.getpid() == self.home else WipeOut(tuple(missing))


def test_engines_that_disagree_are_reported() -> None:
    played = played_groups(lambda: KnowsItsProcess(24, 3, Replication.Options(), JobShape()), 24)
    with pytest.raises(SchemeError, match="the engines disagree"):
        engines_agree(played[0])
