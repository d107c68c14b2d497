"""Algorithms of NCCL in their steady state: the bytes between each pair of GPUs, and the latencies.

NCCL cuts a buffer into chunks and keeps all stages of an algorithm busy with successive chunks. So
all pairs send at the same time, and a large collective takes as long as its busiest link, plus the
latency of each step that one chunk takes. This is also how NCCL predicts its own times, from which
it chooses an algorithm. Only its protocol for large messages (Simple) is modelled.

GPUs at one position of their scale-up domains share a rail. An algorithm has a channel per
position, so it uses all adapters. A message to another position in another domain takes NVLink to
the sender's neighbour at that position, then the rail, as with NCCL's PXN.

References
----------
NCCL 2.27, src/graph/tuning.cc: base and step latencies, and the efficiencies of trees.
Patarasu and Yuan 2009, J. Parallel Distrib. Comput. 69(2): rings.
Sanders, Speck and Träff 2009, Parallel Computing 35(12): double binary trees.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, permutations
from typing import NamedTuple

from faultline.platforms.errors import nearest

_TREE_EFFICIENCY = 0.92
"""Bandwidth of a tree over that of its links."""
_SWITCH_TREE_EFFICIENCY = 5 / 6
"""Bandwidth between domains of a tree whose domains reduce in their switch (NVLSTree)."""


class CollectiveError(ValueError):
    """An unknown collective or algorithm, or one that does not fit the ranks; one line."""


class LinkShares(NamedTuple):
    """Shares of the links' bandwidth that large messages reach.

    `in_switch` is that of all-reduces that NVSwitches reduce (NVLink SHARP), by the bytes of a
    ring. It may exceed 1, because less is sent than in a ring. None if switches do not reduce.
    """

    scale_up: float = 1.0
    scale_out: float = 1.0
    in_switch: float | None = None


class Latency(NamedTuple):
    """Steps that one chunk takes inside domains and between them; times in seconds."""

    base_s: float
    scale_up_steps: int
    scale_up_s: float
    scale_out_steps: int = 0
    scale_out_s: float = 14e-6

    def seconds(self, scale_up_route_s: float, scale_out_route_s: float) -> float:
        """Return the latency of all steps; no step is faster than its route."""
        return (
            self.base_s
            + self.scale_up_steps * max(self.scale_up_s, scale_up_route_s)
            + self.scale_out_steps * max(self.scale_out_s, scale_out_route_s)
        )


class Collective:
    """What some ranks send, per byte of their buffer.

    The buffer is that of nccl-tests, the larger of a rank's two: an all-gather of n ranks makes it
    of n parts, and a reduce-scatter leaves 1/n of it.

    Parameters
    ----------
    domains : sequence of sequence of int
        Ranks of each scale-up domain, by their position in it.
    shares : LinkShares
        Shares of the links' bandwidth.
    """

    def __init__(self, domains: Sequence[Sequence[int]], shares: LinkShares) -> None:
        self.domains = domains
        self.shares = shares
        self.sent: defaultdict[tuple[int, int, int], float] = defaultdict(float)
        """Bytes by sender, receiver and stream, over the share of their links: links at full
        bandwidth take the time of real ones. Both ends are in one domain or on one rail."""
        self.latency = Latency(0.0, 0, 0.0)
        self.ranks = sum(map(len, domains))
        self.channels = min(map(len, domains))
        self.place = {
            rank: (domain, position) for domain in domains for position, rank in enumerate(domain)
        }

    def send(self, sender: int, receiver: int, size: float, stream: int = 0) -> None:
        """Add bytes from one rank to another, over NVLink, or NVLink and a rail.

        Streams share links equally, so a pair with twice the bytes of others has two.
        """
        (here, _), (there, position) = self.place[sender], self.place[receiver]
        relay = receiver if here is there else here[position % len(here)]
        if sender != relay:
            self.sent[sender, relay, stream] += size / self.shares.scale_up
        if relay != receiver:
            self.sent[relay, receiver, stream] += size / self.shares.scale_out

    def chains(self) -> Iterator[list[Sequence[int]]]:
        """Yield for each channel the ranks of each domain, in order from that with its adapter."""
        for first in range(self.channels):
            yield [[*domain[first:], *domain[:first]] for domain in self.domains]


def _ring(collective: Collective, passes: int) -> None:
    """Rings over all ranks: each edge carries ``passes (n - 1)/n`` of the channel's bytes."""
    steps = passes * (collective.ranks - 1)
    for chains in collective.chains():
        order = [rank for chain in chains for rank in chain]
        for edge in pairwise([*order, order[0]]):
            collective.send(*edge, steps / collective.ranks / collective.channels)
    between = passes * (len(collective.domains) - 1)
    collective.latency = Latency(8.4e-6, steps - between, 3.4e-6, between)


def _tree(collective: Collective) -> None:
    """Chains in domains and double binary trees between: all bytes go up each edge, and down."""
    for chains in collective.chains():
        for near, far in (edge for chain in chains for edge in pairwise(chain)):
            for edge in ((far, near), (near, far)):
                collective.send(*edge, 1 / collective.channels / _TREE_EFFICIENCY)
    _between_domains(collective, _TREE_EFFICIENCY)
    depth = (len(collective.domains) - 1).bit_length()
    longest = max(map(len, collective.domains))
    collective.latency = Latency(8.4e-6, 2 * (longest - 1), 4e-6, 2 * depth)


def _in_switch(collective: Collective) -> None:
    """Reductions in the NVSwitches of each domain, and double binary trees between domains."""
    share = collective.shares.in_switch
    if share is None:
        raise CollectiveError("nvls needs GPUs with NVLink SHARP: H100, H200, B200 or later")
    if collective.channels < 2:
        raise CollectiveError("nvls needs 2 ranks or more in each scale-up domain")
    for domain in collective.domains:
        # A rank sends and receives the same bytes; to and from whom makes no difference.
        for edge in pairwise([*domain, domain[0]]):
            collective.sent[(*edge, 0)] += 2 * (1 - 1 / len(domain)) / share
    _between_domains(collective, _SWITCH_TREE_EFFICIENCY)
    depth = (len(collective.domains) - 1).bit_length()
    collective.latency = Latency(0.0, 1, 25e-6, 2 * depth)


def _between_domains(collective: Collective, efficiency: float) -> None:
    """Two trees per channel, with half of its bytes each, up and down."""
    count = len(collective.domains)
    for heads in ([chain[0] for chain in chains] for chains in collective.chains()):
        for number, (child, parent) in enumerate(double_tree(count)):
            for near, far in ((child, parent), (parent, child)):
                size = 0.5 / collective.channels / efficiency
                collective.send(heads[near], heads[far], size, stream=number % 2)


def double_tree(count: int) -> Iterator[tuple[int, int]]:
    """Yield child and parent of the edges of two binary trees over 0 to `count` - 1, in turn.

    No node has more than four edges: an inner node of one tree is a leaf of the other. In the first
    tree odd numbers are leaves, and a node's lowest set bit is its height. The second is its mirror
    image, or, if `count` is odd, the first with all numbers shifted by one.
    """
    for node in range(1, count):
        height = node & -node
        parent = (node ^ height) | (height << 1)
        parent = parent if parent < count else node ^ height
        yield node, parent
        if count % 2:
            yield (node + 1) % count, (parent + 1) % count
        else:
            yield count - 1 - node, count - 1 - parent


def _all_to_all(collective: Collective) -> None:
    """Each rank sends 1/n of its buffer to each other, all at once."""
    for edge in permutations(collective.place, 2):
        collective.send(*edge, 1 / collective.ranks)
    collective.latency = _direct(collective)


def _send_recv(collective: Collective) -> None:
    """Each rank sends its buffer to the next, all at once."""
    order = list(collective.place)
    for edge in pairwise([*order, order[0]]):
        collective.send(*edge, 1.0)
    collective.latency = _direct(collective)


def _direct(collective: Collective) -> Latency:
    return Latency(8.4e-6, int(collective.channels > 1), 3.4e-6, int(len(collective.domains) > 1))


ALGORITHMS: Mapping[str, Mapping[str, Callable[[Collective], None]]] = {
    "all-reduce": {"ring": partial(_ring, passes=2), "tree": _tree, "nvls": _in_switch},
    "reduce-scatter": {"ring": partial(_ring, passes=1)},
    "all-gather": {"ring": partial(_ring, passes=1)},
    "all-to-all": {"direct": _all_to_all},
    "send-recv": {"direct": _send_recv},
}
"""Algorithms of each collective."""


def collectives_of(
    name: str, algorithm: str | None, domains: Sequence[Sequence[int]], shares: LinkShares
) -> dict[str, Collective]:
    """Return a collective by an algorithm, or by each one that fits the ranks if it is None.

    Raises
    ------
    CollectiveError
        There is no such collective or algorithm, or it does not fit the ranks.
    """
    known = ALGORITHMS.get(name)
    if known is None:
        raise CollectiveError(
            f"no collective is called {name!r}{nearest(name, ALGORITHMS)}; use one of "
            f"{', '.join(ALGORITHMS)}"
        )
    if algorithm is not None and algorithm not in known:
        raise CollectiveError(
            f"{name} has no algorithm {algorithm!r}{nearest(algorithm, known)}; use one of "
            f"{', '.join(known)}"
        )
    if sum(map(len, domains)) < 2:
        raise CollectiveError("a collective needs at least 2 ranks")
    fitting = {}
    for each in known if algorithm is None else (algorithm,):
        collective = Collective(domains, shares)
        try:
            known[each](collective)
        except CollectiveError:
            if algorithm is not None:
                raise
            continue
        fitting[each] = collective
    return fitting


def bus_factor(name: str, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth, as defined by nccl-tests.

    ``2 (n - 1)/n`` for an all-reduce, 1 for a send, ``(n - 1)/n`` for the others (nccl-tests,
    doc/PERFORMANCE.md). Algorithm bandwidth is size over time. Bus bandwidth is comparable with
    the bandwidth of links for any number of ranks.
    """
    if name == "send-recv":
        return 1.0
    return (2 if name == "all-reduce" else 1) * (ranks - 1) / ranks
