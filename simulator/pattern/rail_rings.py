"""Rings of replicas over scale-up domains: sender, receiver and share of the bytes.

NCCL cuts a collective into rings, as many as the domain with the fewest members has. Each ring
passes all members of a domain and leaves it by another member's adapter. So a member sends to its
neighbour in the domain, and its part of the bytes to the member of its place in the next domain.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple


class RingEdge(NamedTuple):
    """A message of a ring.

    Attributes
    ----------
    sender, receiver : int
        Members, by their numbers.
    share : float
        Share of the bytes that a member sends in a single ring.
    """

    sender: int
    receiver: int
    share: float


def ring_edges(domains: Sequence[Hashable]) -> tuple[RingEdge, ...]:
    """Return the messages of a collective's members, given the domain of each.

    Over an adapter goes 1/n of the bytes for n members in each domain; so what leaves a domain is
    what a ring of single GPUs would send, once.
    """
    members: dict[Hashable, list[int]] = {}
    for member, domain in enumerate(domains):
        members.setdefault(domain, []).append(member)
    if len(domains) < 2:
        return ()
    blocks, apart = list(members.values()), len(members) > 1
    rings = min(map(len, blocks))
    edges = []
    for number, block in enumerate(blocks):
        following = blocks[(number + 1) % len(blocks)]
        for place, member in enumerate(block):
            if len(block) > 1:
                inside = 1.0 - 1.0 / len(block) if apart else 1.0
                edges.append(RingEdge(member, block[(place + 1) % len(block)], inside))
            if apart and place < rings:
                edges.append(RingEdge(member, following[place], 1.0 / rings))
    return tuple(edges)
