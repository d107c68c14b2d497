"""Which rank holds which elements of a vector, and which elements move to fewer ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple


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

    Raises
    ------
    ValueError
        There are not fewer ranks than before, or none.
    """
    if not 1 <= ranks < len(sharding):
        raise ValueError(f"{ranks} ranks are no reduction of {len(sharding)}: use fewer, from 1")
    total = sum(map(shard_elements, sharding))
    supply = [piece for shard in sharding[ranks:] for piece in shard]
    reduced = []
    for shard, size in zip(sharding, even_sizes(total, ranks), strict=False):
        taken, supply = cut(supply, size - shard_elements(shard))
        reduced.append(shard + taken)
    return tuple(reduced)


def nested_shardings(elements: int, degrees: Iterable[int]) -> dict[int, Sharding]:
    """Return a sharding for each degree, the highest one even, each lower one made from the next.

    Raises
    ------
    ValueError
        A degree is below 1.
    """
    shardings: dict[int, Sharding] = {}
    current: Sharding | None = None
    for degree in sorted(set(degrees), reverse=True):
        if degree < 1:
            raise ValueError(f"a degree of {degree} is out of range: use whole numbers from 1")
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
