"""SPARe and replication whose groups work on with broken GPUs (`nonuniform.within`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from faultline.strategies.base import Strategy, StrategyOptions
from faultline.strategies.nonuniform.within import NonuniformWithin, WithinOptions
from faultline.strategies.replication import Replication, ReplicationOptions
from faultline.strategies.spare import Spare, SpareOptions


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

    def _inner_scheme(self, groups: int, redundancy: int, options: WithinOptions) -> Strategy:
        assert isinstance(options, SpareNtpOptions)
        return Spare(groups, redundancy, options)


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

    def _inner_scheme(self, groups: int, redundancy: int, options: WithinOptions) -> Strategy:
        assert isinstance(options, ReplicationNtpOptions)
        return Replication(groups, redundancy, options)

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
