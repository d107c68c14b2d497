"""SPARe and replication whose groups work on with broken GPUs, by nonuniform tensor parallelism.

A group with a broken GPU does not leave the job: its surviving GPUs work on at a lower
tensor-parallel degree. Only a group that has lost too much of one scale-up domain dies, and then
the inner scheme does what it does for any group that dies. No published scheme does both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from faultline.strategies.base import (
    Continue,
    Hit,
    StepPlan,
    Strategy,
    StrategyOptions,
    Verdict,
    WipeOut,
)
from faultline.strategies.nonuniform.job_plan import Damage
from faultline.strategies.nonuniform.replica_plan import PowerCurve, ReductionRule
from faultline.strategies.ntp import NTP_PAPER
from faultline.strategies.recovery import Move, Recovery, RecoveryKind
from faultline.strategies.replication import Replication, ReplicationOptions
from faultline.strategies.spare import Spare, SpareOptions
from faultline.strategies.step_shares import Pipeline, reduced
from pydantic import Field


class WithinOptions(StrategyOptions):
    """Named choices of nonuniform tensor parallelism inside another scheme."""

    least_degree_share: float = Field(
        0.875,
        ge=0,
        le=1,
        description="A group dies whose worst domain is left with less than this share of its "
        "tensor-parallel degree.",
        json_schema_extra={"source": f"{NTP_PAPER}: goes down to 28 of 32", "unit": "1"},
    )
    hit_groups: Literal["slow", "boosted", "smaller-batch"] = Field(
        "slow",
        description="How the job lives with a group of a lower degree.",
        json_schema_extra={
            "source": "choice: the batch stays whole, and power within its rating",
            "choices": {
                "slow": "all wait for it",
                "boosted": "its GPUs draw more power, up to 1.3 times their rating; all wait for "
                "what that does not make up for",
                "smaller-batch": "it computes so many sequences less that it keeps up",
            },
        },
    )
    repairs: Literal["at-once", "at-restart"] = Field(
        "at-once",
        description="When a group that works on gets its repaired GPUs back.",
        json_schema_extra={
            "source": "choice: as early as possible",
            "choices": {"at-once": "at the next step", "at-restart": "with a global restart only"},
        },
    )


class NonuniformWithin(Strategy):
    """A scheme whose groups live on with fewer GPUs.

    Groups that die, and only those, are the inner scheme's. A restart finds new hardware for
    everything. Closed forms are the inner scheme's, as if every failure killed a group: how often
    one does depends on the GPUs of a group, the failures that are under repair at a time, and the
    domains they fall into.
    """

    tracks_components: ClassVar[bool] = True
    needs_layout: ClassVar[bool] = True
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("shrink", "change-of-degree")
    inner: ClassVar[type[Strategy]]
    """The scheme that is told of groups that die; `Options` are its own, too."""

    def __init__(self, groups: int, redundancy: int, options: WithinOptions) -> None:
        super().__init__(groups, redundancy, options)
        self._options = options
        self._inner = self.inner(groups, redundancy, options)
        self._damage = Damage(self.shape.tensor)
        self._rule, self._power = ReductionRule(self.shape.least_tensor), PowerCurve()
        self._plan = self._inner.plan()

    def restart(self) -> None:
        self._inner.restart()
        self._damage.clear()
        self._replan()

    def plan(self) -> StepPlan:
        return self._plan

    @property
    def checkpoint_waits(self) -> bool:
        return self._inner.checkpoint_waits

    def on_hit(self, hit: Hit) -> None:
        """Take note; what becomes of the group is decided by `on_failures`."""
        self._damage.add(hit)

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        carried_on = tuple(group for group in missing if self._works_on(group))
        dying = tuple(group for group in missing if group not in carried_on)
        self.states_refused += sum(
            self._rule.is_refused(self._damage.domain_gpus, self._damage.worst(group))
            for group in dying
        )
        verdict = self._inner.on_failures(dying) if dying else Continue((), recovery=None)
        if isinstance(verdict, WipeOut):
            return verdict
        self._damage.forget(verdict.dropped)
        self._replan()
        if not carried_on:
            return verdict
        anew = dict.fromkeys(self._begin_anew(carried_on, missing), self._plan.stacks)
        return Continue(
            verdict.dropped,
            {**verdict.patch, **anew},
            verdict.moved_types,
            carried_on,
            self._change_of_degree(carried_on).along_with(verdict.recovery),
        )

    def on_repair(self, hit: Hit) -> Recovery | None:
        if self._options.repairs == "at-restart" or not self._damage.remove(hit):
            return None
        self._replan()
        return replace(self._change_of_degree([hit.group]), is_expected=True)

    def _change_of_degree(self, groups: Sequence[int]) -> Recovery:
        """Return what groups need that go on at another tensor-parallel degree.

        Their processes start anew, and fetch from another group what a broken GPU held: one of a
        domain's.
        """
        domain = self._damage.domain_gpus
        moves = tuple(Move(group, 0, 0, 1, 1 / domain) for group in groups)
        return Recovery("change-of-degree", starts_processes=True, moves=moves)

    def on_return(self, returning: Sequence[int]) -> None:
        self._inner.on_return(returning)
        self._damage.forget(returning)
        self._replan()

    def _begin_anew(self, carried_on: Sequence[int], missing: Sequence[int]) -> Sequence[int]:
        """Return those of the hit groups that have to compute the step anew.

        Some of what they had computed is lost with their GPUs. All of them have to, unless the
        scheme has another copy of it.
        """
        return carried_on

    def _lost_share(self, cuts: Mapping[int, float]) -> float:
        """Return the share of the whole batch that is left out if hit members leave out theirs.

        Here shard types are taken to be spread evenly over the members.
        """
        return sum(cuts.values()) / len(self._inner.plan().members)

    def _works_on(self, group: int) -> bool:
        failed = self._damage.worst(group)
        degree = self._degree(failed)
        least = self._options.least_degree_share * self._damage.domain_gpus
        return failed > 0 and degree >= max(1.0, least)

    def _degree(self, failed: int) -> int:
        return self._rule.degree(self._damage.domain_gpus, failed)

    def _replan(self) -> None:
        """Plan as the inner scheme does, with hit members at lower degrees."""
        inner, whole = self._inner.plan(), self._damage.domain_gpus
        slower = {
            group: whole / self._degree(self._damage.worst(group))
            for group in set(inner.members).intersection(self._damage.groups)
            if self._works_on(group)
        }
        slowest = max(slower.values(), default=1.0)
        pace, share, power, cuts = 1.0, 1.0, 1.0, dict.fromkeys(slower, 0.0)
        if self._options.hit_groups == "smaller-batch":
            cuts = {group: self._cut(slower[group]) for group in sorted(slower)}
            share -= self._lost_share(cuts)
        elif self._options.hit_groups == "boosted":
            pace = max(1.0, slowest / self._power.most_performance)
            power += sum(map(self._power_for, slower.values())) / self.groups
        else:
            pace = slowest
        pipelines = tuple(
            self._reduced(group, slower[group], cuts[group]) for group in sorted(slower)
        )
        stacks, size = inner.stacks, inner.stack_size
        plan = StepPlan(inner.members, stacks, size, pace, share, power, pipelines=pipelines)
        if plan != self._plan:
            self._plan = plan

    def _reduced(self, group: int, slower: float, cut: float) -> Pipeline:
        """Return what a group of a lower degree does, without a share of its batch."""
        shape, work = self.shape, 1.0
        if self._options.hit_groups == "boosted":
            work = 1.0 / min(slower, self._power.most_performance)
        kept = round(shape.sequences * (1.0 - cut))
        micro_batches = -(-kept // shape.micro_batch_sequences)
        degree = self._degree(self._damage.worst(group))
        return reduced(group, shape.stages, micro_batches, degree, work)

    def _power_for(self, slower: float) -> float:
        """Return the power beyond their rating, over it, at which a group's GPUs keep up."""
        power = self._power.power(min(slower, self._power.most_performance))
        assert power is not None, "no more is asked for than there is"
        return power - 1.0

    def _cut(self, slower: float) -> float:
        """Return the share of its batch that a group leaves out to keep up.

        A group that has to compute one sequence at least may still be late; that is let pass.
        """
        whole = self.shape.sequences
        kept = max(1, int(whole / slower + 1e-9))
        return 1.0 - kept / whole

    def masked_failures(self) -> float:
        """Return those of the inner scheme: as if every failure killed its group."""
        return self._inner.masked_failures()

    def work_per_step(self) -> float:
        """Return that of the inner scheme, whose groups are all whole."""
        return self._inner.work_per_step()

    @classmethod
    def redundancies(cls, groups: int, options: StrategyOptions) -> Sequence[int]:
        """Those of the inner scheme."""
        return cls.inner.redundancies(groups, options)

    @classmethod
    def accepts(cls, groups: int, redundancy: int, options: StrategyOptions) -> bool:
        """Return what the inner scheme says; 1 is the control, which masks no dying group."""
        return cls.inner.accepts(groups, redundancy, options)


class SpareNtpOptions(WithinOptions, SpareOptions):
    """Named choices of NTP inside SPARe, and of SPARe."""


class SpareNtp(NonuniformWithin):
    """SPARe whose groups die of the loss of much of a domain only."""

    name: ClassVar[str] = "spare-ntp"
    summary: ClassVar[str] = "SPARe whose hit groups work on at lower tensor parallelism"
    title: ClassVar[str] = "SPARe on NTP"
    colour: ClassVar[str | None] = "#88CCEE"
    marker: ClassVar[str | None] = "h"
    Options: ClassVar[type[StrategyOptions]] = SpareNtpOptions
    inner: ClassVar[type[Strategy]] = Spare


class ReplicationNtpOptions(WithinOptions, ReplicationOptions):
    """Named choices of NTP inside replication, and of replication."""


class ReplicationNtp(NonuniformWithin):
    """Replication whose groups die of the loss of much of a domain only."""

    name: ClassVar[str] = "replication-ntp"
    summary: ClassVar[str] = "Replication whose hit groups work on at lower tensor parallelism"
    title: ClassVar[str] = "replication on NTP"
    colour: ClassVar[str | None] = "#EEBB99"
    marker: ClassVar[str | None] = "p"
    Options: ClassVar[type[StrategyOptions]] = ReplicationNtpOptions
    inner: ClassVar[type[Strategy]] = Replication

    def _begin_anew(self, carried_on: Sequence[int], missing: Sequence[int]) -> Sequence[int]:
        """Return those whose whole replica set was missing: else another group has computed it."""
        sound = {group // self.redundancy for group in set(self.plan().members) - set(missing)}
        return tuple(group for group in carried_on if group // self.redundancy not in sound)

    def _lost_share(self, cuts: Mapping[int, float]) -> float:
        """Return what is left out by the fullest batch of each replica set: one copy counts."""
        least: dict[int, float] = {}
        for group in self._inner.plan().members:
            replica_set = group // self.redundancy
            least[replica_set] = min(least.get(replica_set, 1.0), cuts.get(group, 0.0))
        return sum(least.values()) / len(least)
