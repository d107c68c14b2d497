"""Broadcasts from the first member: the binomial tree, and the pipelined chain.

References
----------
Thakur, Rabenseifner and Gropp 2005, Optimization of collective communication operations in MPICH,
Int. J. High Perform. Comput. Appl. 19(1), section 4.2. The chain is NCCL's ring broadcast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import inf, sqrt

from faultline.simulator.collectives.schedule import (
    Circle,
    Hop,
    HopOf,
    Message,
    Round,
    Schedule,
    Share,
    Stage,
    single_round,
)

LEAST_PIECE_BYTES = 4096.0
"""Smallest piece of a pipeline: a packet of RDMA over Ethernet carries it."""
MOST_PIECES = 4096
"""Largest number of pieces, also if latencies are zero."""


def pipeline_pieces(fill: float, size_bytes: float, hop: Hop) -> int:
    """Return the number k of pieces that minimises ``(fill + k) (a + m/k b)``.

    More pieces fill a pipeline of `fill` further steps sooner, but each costs a latency. The
    optimum is ``sqrt(fill m b / a)``.
    """
    transfer_s = size_bytes / hop.bandwidth_bytes_per_s
    best = sqrt(fill * transfer_s / hop.latency_s) if hop.latency_s > 0.0 else inf
    return max(1, int(min(best, size_bytes / LEAST_PIECE_BYTES, MOST_PIECES)))


@dataclass(frozen=True, slots=True)
class BinomialBroadcast(Schedule):
    """Each member that has the buffer sends it on, at half the distance each time.

    ``ceil(log2 n) (a + m b)``. Each edge carries one message, so each flow is a message.
    """

    @property
    def piece_count(self) -> int:
        return 1

    @property
    def _rounds(self) -> int:
        return (self.members - 1).bit_length()

    def stages(self, position: int) -> Iterator[Stage]:
        for number in reversed(range(self._rounds)):
            distance = 1 << number
            if position % (2 * distance) == distance:
                yield single_round(receives=(Message(position - distance, 0, 1),))
            elif position % (2 * distance) == 0 and position + distance < self.members:
                yield single_round(sends=(Message(position + distance, 0, 1),))
            else:
                yield single_round()

    def alpha_beta_s(self, hop: Hop) -> float:
        return self._rounds * hop.seconds(self.size_bytes)


@dataclass(frozen=True, slots=True)
class ChainBroadcast(Schedule):
    """Each member sends k pieces to the next, each while it receives the following piece.

    ``(n - 2 + k) (a + m/k b)``.

    Attributes
    ----------
    pieces : int
        k; `pipeline_pieces` with a fill of n - 2 returns the best number.
    """

    pieces: int = 64

    @property
    def piece_count(self) -> int:
        return self.pieces

    def stages(self, position: int) -> Iterator[Stage]:
        if self.members < 2:
            return
        receives = position > 0
        sends = position < self.members - 1

        def rounds_of() -> Iterator[Round]:
            for number in range(self.pieces + 1):
                yield Round(
                    (Message(position + 1, number - 1, 1),) if sends and number > 0 else (),
                    (Message(position - 1, number, 1),)
                    if receives and number < self.pieces
                    else (),
                )

        yield Stage(
            rounds_of,
            (Share(position + 1, self.pieces),) if sends else (),
            (Share(position - 1, self.pieces),) if receives else (),
            latency_steps=self.pieces - 1,
            fill_s=self._fill_s,
            circle=Circle("chain", self.members),
        )

    def _fill_s(self, hop_of: HopOf) -> float:
        """Return the time of the first piece over all edges except the slowest: that is busy."""
        edges_s = [
            hop_of(*edge).seconds(self.piece_bytes) for edge in pairwise(range(self.members))
        ]
        return sum(edges_s) - max(edges_s)

    def alpha_beta_s(self, hop: Hop) -> float:
        if self.members < 2:
            return 0.0
        return (self.members - 2 + self.pieces) * hop.seconds(self.piece_bytes)
