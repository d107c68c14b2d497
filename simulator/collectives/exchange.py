"""All-to-all: every member sends a different part to every other.

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
    Round,
    Schedule,
    ScheduleStage,
    Share,
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
            single = Round(
                (Message(target, position * count + target, 1),),
                (Message(source, source * count + position, 1),),
            )
            yield ScheduleStage((single,).__iter__, (Share(target, 1),), (Share(source, 1),))

    def alpha_beta_s(self, hop: Hop) -> float:
        return (self.members - 1) * hop.seconds(self.piece_bytes)
