"""All-reduce along two complementary binary trees, pipelined.

References
----------
Sanders, Speck and Traeff 2009, Two-tree algorithms for full bandwidth broadcast, reduction and
scan, Parallel Computing 35(12). The trees are those of NCCL (``src/graph/trees.cc``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import inf, sqrt
from typing import NamedTuple

from faultline.simulator.collectives.schedule import (
    Circle,
    Hop,
    HopOf,
    Message,
    Round,
    Schedule,
    ScheduleStage,
    Share,
)

_PIECES_UNTIL_STEADY = 8
"""Number of pieces after which each further one takes the same time."""
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


class Edge(NamedTuple):
    """An edge of one of the trees, and the round in which it sends the first piece downwards."""

    tree: int
    parent: int
    child: int
    first_round: int


class Trees(NamedTuple):
    """Both trees: the edges of each member, and the rounds until all have the first pieces.

    The next piece of the same tree follows `lanes` rounds later: 2, or 1 for two members.
    """

    edges: tuple[tuple[Edge, ...], ...]
    depth: int
    lanes: int


def _parent(rank: int, members: int) -> int:
    """Return the parent in the first tree: odd ranks are leaves, rank 0 is the root (-1)."""
    if rank == 0:
        return -1
    lowest = rank & -rank
    above = (rank ^ lowest) | (lowest << 1)
    return above if above < members else rank ^ lowest


@cache
def double_tree(members: int) -> Trees:
    """Return the two trees for a number of members, with rounds that use each member once.

    The second tree is the first one mirrored (n even) or shifted by one (n odd), so that inner
    members of one are leaves of the other. Edges are coloured alternately, so that no member
    receives or sends two pieces in rounds of the same parity. This is always possible: each member
    has at most two parents and two children in all, so edges form paths and even cycles.
    """
    parents: list[dict[int, int]] = [{}, {}]
    for rank in range(1, members):
        above = _parent(rank, members)
        parents[0][rank] = above
        if members % 2 == 0:
            parents[1][members - 1 - rank] = members - 1 - above
        else:
            parents[1][(rank + 1) % members] = (above + 1) % members
    lanes = 2 if members > 2 else 1
    colours = _colours(parents) if lanes == 2 else {(0, 1): 0, (1, 0): 0}
    edges: list[list[Edge]] = [[] for _ in range(members)]
    depth = 0
    for tree, above_of in enumerate(parents):
        arrival: dict[int, int] = {}
        for child in above_of:
            for edge in _first_rounds(tree, child, above_of, colours, arrival, lanes):
                edges[edge.parent].append(edge)
                edges[edge.child].append(edge)
                depth = max(depth, edge.first_round + 1)
    return Trees(tuple(map(tuple, edges)), depth, lanes)


def _first_rounds(
    tree: int,
    member: int,
    parents: dict[int, int],
    colours: dict[tuple[int, int], int],
    arrival: dict[int, int],
    lanes: int,
) -> Iterator[Edge]:
    """Yield the edges from the nearest known ancestor down to a member."""
    path = []
    while member in parents and member not in arrival:
        path.append(member)
        member = parents[member]
    for child in reversed(path):
        parent = parents[child]
        ready = arrival.get(parent, -1) + 1
        arrival[child] = ready + (colours[tree, child] - ready) % lanes
        yield Edge(tree, parent, child, arrival[child])


def _colours(parents: list[dict[int, int]]) -> dict[tuple[int, int], int]:
    """Colour each edge, named by tree and child, so that edges with a common end differ."""
    below: dict[int, list[tuple[int, int]]] = {}
    for tree, above_of in enumerate(parents):
        for child, parent in above_of.items():
            below.setdefault(parent, []).append((tree, child))
    colours: dict[tuple[int, int], int] = {}
    for start in [edge for edges in below.values() for edge in edges]:
        stack = [(start, 0)] if start not in colours else []
        while stack:
            edge, colour = stack.pop()
            if edge in colours:
                continue
            colours[edge] = colour
            tree, child = edge
            conflicts = [other for other in below[parents[tree][child]] if other != edge]
            if child in parents[1 - tree]:
                conflicts.append((1 - tree, child))
            stack.extend((other, 1 - colour) for other in conflicts)
    return colours


@dataclass(frozen=True, slots=True)
class DoubleTreeAllReduce(Schedule):
    """Half of the buffer goes up and down each tree, in k pieces.

    With d rounds until the first pieces have reached all members (``log2 n <= d <= 2 log2 n + 1``)
    and n > 2, a reduction or a broadcast takes ``2 (k - 1) + d`` rounds. An all-reduce takes::

        2 (2 (k - 1) + d) (a + m/(2 k) b)

    For large buffers this tends to ``2 m b``, like a ring, but its latency grows with log n, not n.

    Attributes
    ----------
    pieces : int
        k, for each of the trees.
    """

    pieces: int = 64

    @property
    def piece_count(self) -> int:
        return 2 * self.pieces

    @property
    def _rounds(self) -> int:
        trees = double_tree(self.members)
        return trees.lanes * (self.pieces - 1) + trees.depth

    def stages(self, position: int) -> Iterator[ScheduleStage]:
        if self.members > 1:
            yield self._stage(position, up=True)
            yield self._stage(position, up=False)

    def _stage(self, position: int, *, up: bool) -> ScheduleStage:
        trees = double_tree(self.members)
        edges = trees.edges[position]
        towards = [e.child if up else e.parent for e in edges]
        sends = tuple(
            Share(e.parent if up else e.child, self.pieces, e.first_round % trees.lanes)
            for e, sender in zip(edges, towards, strict=True)
            if sender == position
        )
        receives = tuple(
            Share(sender, self.pieces, e.first_round % trees.lanes)
            for e, sender in zip(edges, towards, strict=True)
            if sender != position
        )
        return ScheduleStage(
            lambda: self._messages(position, up),
            sends,
            receives,
            latency_steps=self.pieces - 1,
            fill_s=self._fill_s,
            circle=Circle("trees", self.members),
        )

    def _fill_s(self, hop_of: HopOf) -> float:
        """Return the time of the first pieces down the trees, less that of the same number later.

        A member that is idle in a round starts its next one, so fast edges save time.
        """
        trees = double_tree(self.members)
        first_pieces = min(self.pieces, _PIECES_UNTIL_STEADY)
        by_round: dict[int, list[tuple[Edge, float]]] = {}
        lanes_s = [[0.0] * trees.lanes for _ in range(self.members)]
        for edge in {edge for at in trees.edges for edge in at}:
            took_s = hop_of(edge.parent, edge.child).seconds(self.piece_bytes)
            lane = edge.first_round % trees.lanes
            for member in (edge.parent, edge.child):
                lanes_s[member][lane] = max(lanes_s[member][lane], took_s)
            for piece in range(first_pieces):
                by_round.setdefault(edge.first_round + trees.lanes * piece, []).append(
                    (edge, took_s)
                )
        free_s = [0.0] * self.members
        for _, meeting in sorted(by_round.items()):
            ends_s: dict[int, float] = {}
            for edge, took_s in meeting:
                end_s = max(free_s[edge.parent], free_s[edge.child]) + took_s
                for member in (edge.parent, edge.child):
                    ends_s[member] = max(ends_s.get(member, 0.0), end_s)
            for member, end_s in ends_s.items():
                free_s[member] = end_s
        return max(free_s) - first_pieces * max(map(sum, lanes_s))

    def _messages(self, position: int, up: bool) -> Iterator[Round]:
        """Yield the rounds of a broadcast, or those of a reduction in reverse order."""
        trees = double_tree(self.members)
        rounds: dict[int, tuple[list[Message], list[Message]]] = {}
        for edge in trees.edges[position]:
            sender, receiver = (edge.child, edge.parent) if up else (edge.parent, edge.child)
            for piece in range(self.pieces):
                number = edge.first_round + trees.lanes * piece
                sends, receives = rounds.setdefault(number, ([], []))
                index = edge.tree * self.pieces + piece
                if sender == position:
                    sends.append(Message(receiver, index, 1, up))
                else:
                    receives.append(Message(sender, index, 1, up))
        for number in sorted(rounds, reverse=up):
            sends, receives = rounds[number]
            yield Round(tuple(sends), tuple(receives))

    def alpha_beta_s(self, hop: Hop) -> float:
        return 2 * self._rounds * hop.seconds(self.piece_bytes) if self.members > 1 else 0.0
