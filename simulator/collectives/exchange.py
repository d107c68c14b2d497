"""Exchanges without reduction: all-to-all, and one member to another.

References
----------
Thakur, Rabenseifner and Gropp 2005, Optimization of collective communication operations in MPICH,
Int. J. High Perform. Comput. Appl. 19(1), section 4.3 (pairwise exchange).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from faultline.simulator.collectives.schedule import (
    Hop,
    Message,
    Schedule,
    ScheduleStage,
    single_round,
)


@dataclass(frozen=True, slots=True)
class PairwiseAllToAll(Schedule):
    """In round i every member sends to the i-th member after it: ``(n - 1) (a + m/n b)``.

    m is the size of a member's data for all n members, including itself. Each edge carries one
    message, so each flow is a message.
    """

    @property
    def piece_count(self) -> int:
        """One piece for each pair: piece ``i n + j`` goes from member i to member j."""
        return self.members**2

    @property
    def piece_bytes(self) -> float:
        """1/n of a member's buffer, which holds n of the n^2 pieces."""
        return self.size_bytes / self.members

    def stages(self, position: int) -> Iterator[ScheduleStage]:
        count = self.members
        for step in range(1, count):
            target, source = (position + step) % count, (position - step) % count
            yield single_round(
                (Message(target, position * count + target, 1),),
                (Message(source, source * count + position, 1),),
            )

    def alpha_beta_s(self, hop: Hop) -> float:
        return (self.members - 1) * hop.seconds(self.piece_bytes)


@dataclass(frozen=True, slots=True)
class PointToPoint(Schedule):
    """One message from the first member to the last: ``a + m b``."""

    @property
    def piece_count(self) -> int:
        return 1

    def stages(self, position: int) -> Iterator[ScheduleStage]:
        last = self.members - 1
        if last < 1:
            return
        yield single_round(
            (Message(last, 0, 1),) if position == 0 else (),
            (Message(0, 0, 1),) if position == last else (),
        )

    def alpha_beta_s(self, hop: Hop) -> float:
        return hop.seconds(self.size_bytes) if self.members > 1 else 0.0
