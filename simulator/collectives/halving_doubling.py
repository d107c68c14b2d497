"""All-reduce by recursive halving and doubling.

References
----------
Thakur, Rabenseifner and Gropp 2005, Optimization of collective communication operations in MPICH,
Int. J. High Perform. Comput. Appl. 19(1), sections 4.4 and 4.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from faultline.simulator.collectives.schedule import Hop, Message, Schedule, Stage, single_round


@dataclass(frozen=True, slots=True)
class HalvingDoublingAllReduce(Schedule):
    """Exchange ever smaller halves with ever more distant peers, then reverse.

    With p the largest power of two up to n: ``2 log2(p) a + 2 (p - 1)/p m b``. If n is no power
    of two, the first 2 (n - p) members form pairs: one of each pair sends its whole buffer to the
    other at first, and receives the result at the end; that adds ``2 (a + m b)``.

    The largest halves go to the nearest peers, which share a scale-up domain if ranks are packed.
    Each edge carries one message per direction and stage, so each flow is a message.
    """

    @property
    def piece_count(self) -> int:
        return 1 << (self.members.bit_length() - 1)

    @property
    def _pairs(self) -> int:
        return self.members - self.piece_count

    def stages(self, position: int) -> Iterator[Stage]:
        if self._pairs == 0:
            yield from self._core(position)
        elif position >= 2 * self._pairs:
            yield single_round()
            yield from self._core(position - self._pairs)
            yield single_round()
        elif position % 2 == 1:
            yield single_round(receives=(self._everything(position - 1, adds=True),))
            yield from self._core(position // 2)
            yield single_round(sends=(self._everything(position - 1, adds=False),))
        else:
            yield single_round(sends=(self._everything(position + 1, adds=True),))
            for _ in range(2 * (self.piece_count.bit_length() - 1)):
                yield single_round()
            yield single_round(receives=(self._everything(position + 1, adds=False),))

    def _everything(self, peer: int, *, adds: bool) -> Message:
        return Message(peer, 0, self.piece_count, adds)

    def _core(self, rank: int) -> Iterator[Stage]:
        """Yield the stages of one of the p members that take part, by its number among them."""
        first, count = 0, self.piece_count
        halvings: list[tuple[int, Message, Message]] = []
        distance = 1
        while distance < self.piece_count:
            peer = self._position(rank ^ distance)
            count //= 2
            lower, upper = first, first + count
            kept, given = (upper, lower) if rank & distance else (lower, upper)
            halvings.append((kept, Message(peer, given, count), Message(peer, kept, count)))
            yield single_round(
                (Message(peer, given, count, adds=True),), (Message(peer, kept, count, adds=True),)
            )
            first, distance = kept, distance * 2
        for _, given_half, kept_half in reversed(halvings):
            yield single_round((kept_half,), (given_half,))

    def _position(self, rank: int) -> int:
        return 2 * rank + 1 if rank < self._pairs else rank + self._pairs

    def alpha_beta_s(self, hop: Hop) -> float:
        power = self.piece_count
        rounds = 2 * (power.bit_length() - 1)
        share = 2 * (power - 1) / power
        core_s = rounds * hop.latency_s + share * self.size_bytes / hop.bandwidth_bytes_per_s
        return core_s + (2 * hop.seconds(self.size_bytes) if self._pairs else 0.0)
