"""Gradient all-reduce between replicas of different tensor-parallel degrees.

A replica of degree N holds a vector of gradients in N shards. To sum it with replicas of lower
degrees, every replica reshards to the lowest degree of all, its core ranks all-reduce with their
peers in the other replicas, and it reshards back (Arfeen et al. 2025, Nonuniform tensor
parallelism, arXiv 2504.06095). Shards are nested: a core rank keeps what it has at every lower
degree, and only ranks beyond that degree, the spare ones, send.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from faultline.simulator.collectives.schedule import (
    Circle,
    Hop,
    Message,
    Round,
    Schedule,
    Share,
    Stage,
    single_round,
)


class Slice(NamedTuple):
    """Consecutive elements of a vector: the first one, and how many."""

    first: int
    elements: int


Shard = tuple[Slice, ...]
"""The elements of a vector that one rank holds."""

Sharding = tuple[Shard, ...]
"""The elements of each rank; shards do not overlap and make up the whole vector."""


class Transfer(NamedTuple):
    """Elements that go from one rank to another."""

    sender: int
    receiver: int
    piece: Slice


def shard_elements(shard: Shard) -> int:
    """Return how many elements a shard has."""
    return sum(piece.elements for piece in shard)


def even_sharding(elements: int, ranks: int) -> Sharding:
    """Cut a vector into consecutive shards whose sizes differ by one element at most."""
    sizes = even_sizes(elements, ranks)
    ends = accumulate(sizes)
    return tuple(
        (Slice(end - size, size),) if size else () for size, end in zip(sizes, ends, strict=True)
    )


def reduced_sharding(sharding: Sharding, ranks: int) -> Sharding:
    """Return a sharding over the first `ranks` ranks, each of which keeps all it has.

    The other ranks' elements are dealt out so that sizes still differ by one element at most. An
    even size ``ceil((n - i)/N)`` of rank i grows as N falls, so no rank has to give elements.
    """
    total = sum(map(shard_elements, sharding))
    supply = [piece for shard in sharding[ranks:] for piece in shard]
    reduced = []
    for shard, size in zip(sharding, even_sizes(total, ranks), strict=False):
        taken, supply = cut(supply, size - shard_elements(shard))
        reduced.append(shard + taken)
    return tuple(reduced)


def nested_shardings(elements: int, degrees: Iterable[int]) -> dict[int, Sharding]:
    """Return a sharding for each degree: the highest even, each lower one made from the next."""
    shardings: dict[int, Sharding] = {}
    current: Sharding | None = None
    for degree in sorted(set(degrees), reverse=True):
        current = (
            even_sharding(elements, degree)
            if current is None
            else reduced_sharding(current, degree)
        )
        shardings[degree] = current
    return shardings


def transfers(before: Sharding, after: Sharding) -> list[Transfer]:
    """Return the elements that move from one sharding to another, by sender and element."""
    holders = sorted(
        (piece.first, piece.first + piece.elements, rank)
        for rank, shard in enumerate(after)
        for piece in shard
    )
    found = []
    for sender, shard in enumerate(before):
        for piece in shard:
            for first, end, receiver in holders:
                start = max(first, piece.first)
                count = min(end, piece.first + piece.elements) - start
                if count > 0 and receiver != sender:
                    found.append(Transfer(sender, receiver, Slice(start, count)))
    return found


def even_sizes(elements: int, parts: int) -> list[int]:
    """Divide elements among parts; the first parts take the remainder, one each."""
    each, more = divmod(elements, parts)
    return [each + (part < more) for part in range(parts)]


def cut(pieces: Sequence[Slice], elements: int) -> tuple[Shard, list[Slice]]:
    """Return the first elements of some slices, and the rest of the slices."""
    taken = []
    rest = list(pieces)
    while elements > 0:
        piece = rest.pop(0)
        count = min(piece.elements, elements)
        taken.append(Slice(piece.first, count))
        elements -= count
        if count < piece.elements:
            rest.insert(0, Slice(piece.first + count, piece.elements - count))
    return tuple(taken), rest


@dataclass(frozen=True, slots=True)
class NonuniformAllReduce(Schedule):
    """Reshard to the lowest degree, a ring between replicas for each core rank, reshard back.

    With R replicas, the lowest degree K, and inner edges (a', b') and outer ones (a, b)::

        2 (a' + s b') + 2 (R - 1) (a + m/(K R) b)

    where s is the most that a rank sends or receives in resharding: m/N of a spare rank of the
    degree N, or all that a core rank gets, if that is more. Where elements do not divide evenly,
    the largest shares count.

    Members are the ranks of the first replica, then those of the second, and so on. `size_bytes` is
    the vector of a whole replica, and a piece is an element.

    Attributes
    ----------
    degrees : sequence of int
        Tensor-parallel degree of each replica.
    elements : int
        Elements of the vector.
    """

    degrees: Sequence[int] = ()
    elements: int = 1

    @property
    def piece_count(self) -> int:
        return self.elements

    def shard(self, position: int) -> Shard:
        """Return the elements of the member at a position, before and after."""
        replica, rank = self._place(position)
        return _nested(self.elements, tuple(self.degrees))[self.degrees[replica]][rank]

    def stages(self, position: int) -> Iterator[Stage]:
        replica, rank = self._place(position)
        moved = _moved(self.elements, tuple(self.degrees), self.degrees[replica])
        first = position - rank
        sends = tuple(Message(t.receiver + first, *t.piece) for t in moved if t.sender == rank)
        receives = tuple(Message(t.sender + first, *t.piece) for t in moved if t.receiver == rank)
        yield single_round(sends, receives)
        if rank < min(self.degrees) and len(self.degrees) > 1:
            yield self._ring(replica, rank)
        else:
            yield single_round()
        yield single_round(receives, sends)

    def alpha_beta_s(self, hop: Hop, inner: Hop | None = None) -> float:
        """Return the time with edges `hop` between replicas and `inner` inside them, in seconds."""
        busiest = max(self._busiest(degree) for degree in self.degrees)
        core = _nested(self.elements, tuple(self.degrees))[min(self.degrees)]
        replicas = len(self.degrees)
        block = even_sizes(max(map(shard_elements, core)), replicas)[0]
        reshard_s = (inner or hop).seconds(busiest * self.piece_bytes) if busiest else 0.0
        return 2 * reshard_s + 2 * (replicas - 1) * hop.seconds(block * self.piece_bytes)

    def _busiest(self, degree: int) -> int:
        """Return the most elements that a rank of a replica sends or receives one way."""
        moved = _moved(self.elements, tuple(self.degrees), degree)
        totals = [0] * (2 * degree)
        for transfer in moved:
            totals[transfer.sender] += transfer.piece.elements
            totals[degree + transfer.receiver] += transfer.piece.elements
        return max(totals)

    def _place(self, position: int) -> tuple[int, int]:
        rank = position
        for replica, degree in enumerate(self.degrees):
            if rank < degree:
                return replica, rank
            rank -= degree
        raise IndexError(position)

    def _ring(self, replica: int, rank: int) -> Stage:
        """Return the all-reduce of a core rank's shard with its peers in the other replicas."""
        starts = [0, *accumulate(self.degrees)][:-1]
        count = len(self.degrees)
        successor = starts[(replica + 1) % count] + rank
        predecessor = starts[(replica - 1) % count] + rank
        remaining = list(_nested(self.elements, tuple(self.degrees))[min(self.degrees)][rank])
        blocks = []
        for size in even_sizes(sum(piece.elements for piece in remaining), count):
            block, remaining = cut(remaining, size)
            blocks.append(block)
        rounds = 2 * (count - 1)

        def rounds_of() -> Iterator[Round]:
            for number in range(rounds):
                adds = number < count - 1
                # After the reduce-scatter each holds the sum of the block behind its own place.
                outgoing = (replica - number) % count
                yield Round(
                    tuple(Message(successor, *piece, adds) for piece in blocks[outgoing]),
                    tuple(Message(predecessor, *piece, adds) for piece in blocks[outgoing - 1]),
                )

        def shared(offset: int) -> int:
            numbers = range(rounds)
            return sum(shard_elements(blocks[(replica - n + offset) % count]) for n in numbers)

        return Stage(
            rounds_of,
            (Share(successor, shared(0)),),
            (Share(predecessor, shared(-1)),),
            latency_steps=rounds - 1,
            circle=Circle(f"core-{rank}", count),
        )


@cache
def _nested(elements: int, degrees: tuple[int, ...]) -> dict[int, Sharding]:
    return nested_shardings(elements, degrees)


@cache
def _moved(elements: int, degrees: tuple[int, ...], degree: int) -> tuple[Transfer, ...]:
    shardings = _nested(elements, degrees)
    return tuple(transfers(shardings[degree], shardings[min(degrees)]))
