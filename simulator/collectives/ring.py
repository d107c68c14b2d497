"""Rings: every member sends to its successor and receives from its predecessor, round by round.

With latency a and bandwidth 1/b on every edge, n members and m bytes, a reduce-scatter or an
all-gather takes ``(n - 1) a + (n - 1)/n m b``. An all-reduce is a reduce-scatter followed by an
all-gather: ``2 (n - 1) a + 2 (n - 1)/n m b``. No all-reduce moves fewer bytes.

References
----------
Patarasu and Yuan 2009, Bandwidth optimal all-reduce algorithms for clusters of workstations,
J. Parallel Distrib. Comput. 69(2).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from faultline.simulator.collectives.schedule import (
    Circle,
    Hop,
    Message,
    Round,
    Schedule,
    ScheduleStage,
    Share,
)


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring among some of the members of a collective, over a part of its buffer.

    Attributes
    ----------
    ring : sequence of int
        Positions of its members, in order.
    place : int
        The member of these rounds, as an index into `ring`.
    first_piece : int
        Start of the ring's part of the buffer.
    block : int
        Pieces of a message; the part has ``block * len(ring)`` of them.
    name : str
        Distinguishes this ring from others of the same stage.
    """

    ring: Sequence[int]
    place: int
    first_piece: int
    block: int
    name: str

    def reduce_scatter(self) -> ScheduleStage:
        """Return the stage after which each member holds the sum of the block of its place."""
        return self._stage(scatters=True, gathers=False)

    def all_gather(self) -> ScheduleStage:
        """Return the stage after which each member holds the blocks of all places."""
        return self._stage(scatters=False, gathers=True)

    def all_reduce(self) -> ScheduleStage:
        """Return reduce-scatter and all-gather as one stage: they use the same edges."""
        return self._stage(scatters=True, gathers=True)

    def _stage(self, *, scatters: bool, gathers: bool) -> ScheduleStage:
        count = len(self.ring)
        rounds = (count - 1) * (scatters + gathers)
        successor, predecessor = self._neighbours()
        pieces = self.block * rounds

        def rounds_of() -> Iterator[Round]:
            if scatters:
                yield from self._rounds(-1, adds=True)
            if gathers:
                yield from self._rounds(0, adds=False)

        return ScheduleStage(
            rounds_of,
            (Share(successor, pieces),),
            (Share(predecessor, pieces),),
            latency_steps=rounds - 1,
            circle=Circle(self.name, count),
        )

    def _neighbours(self) -> tuple[int, int]:
        count = len(self.ring)
        return self.ring[(self.place + 1) % count], self.ring[(self.place - 1) % count]

    def _rounds(self, offset: int, *, adds: bool) -> Iterator[Round]:
        """Yield n - 1 rounds; each sends the block that the round before has received."""
        count, block = len(self.ring), self.block
        successor, predecessor = self._neighbours()
        outgoing = (self.place + offset) % count
        for _ in range(count - 1):
            incoming = (outgoing - 1) % count
            yield Round(
                (Message(successor, self.first_piece + outgoing * block, block, adds),),
                (Message(predecessor, self.first_piece + incoming * block, block, adds),),
            )
            outgoing = incoming


@dataclass(frozen=True, slots=True)
class _WholeRing(Schedule):
    """All members in one ring, with one piece per member."""

    passes: ClassVar[int] = 1  # How often the pieces go round.

    @property
    def piece_count(self) -> int:
        return self.members

    def stages(self, position: int) -> Iterator[ScheduleStage]:
        if self.members > 1:
            yield self._stage(Ring(range(self.members), position, 0, 1, "ring"))

    @abstractmethod
    def _stage(self, ring: Ring) -> ScheduleStage:
        """Return the only stage of a member, given its ring."""

    def alpha_beta_s(self, hop: Hop) -> float:
        return self.passes * (self.members - 1) * hop.seconds(self.piece_bytes)


class RingAllReduce(_WholeRing):
    """All-reduce: ``2 (n - 1) a + 2 (n - 1)/n m b`` (Patarasu and Yuan 2009)."""

    __slots__ = ()
    passes = 2

    def _stage(self, ring: Ring) -> ScheduleStage:
        return ring.all_reduce()


class RingReduceScatter(_WholeRing):
    """Reduce-scatter: ``(n - 1) a + (n - 1)/n m b``; member p keeps the sum of piece p."""

    __slots__ = ()

    def _stage(self, ring: Ring) -> ScheduleStage:
        return ring.reduce_scatter()


class RingAllGather(_WholeRing):
    """All-gather: ``(n - 1) a + (n - 1)/n m b``; piece p comes from member p."""

    __slots__ = ()

    def _stage(self, ring: Ring) -> ScheduleStage:
        return ring.all_gather()
