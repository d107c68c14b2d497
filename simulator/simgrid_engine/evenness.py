"""Whether it matters which groups are left: for times that were measured with all of them.

A ring among fewer groups has other edges. There are too many sets of groups to measure each, but
each set's ring consists of edges between pairs. If an all-reduce of any pair takes as long as the
ring of all would among two, in latency and in bandwidth, so does every ring between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import permutations
from math import inf

from faultline.simulator.durations import RingTime
from faultline.simulator.simgrid_engine.links import way_between

_FEW_EDGES = 4096
"""Largest number of edges for which every pair of groups is checked."""

Edge = tuple[str, str]
Groups = Sequence[Sequence[str]]


def ring_unevenness(groups: Groups, bytes_per_host: float) -> float:
    """Return by how much an all-reduce's time may depend on its members; 0.5 for half.

    Compared are each group and its successor, each and the first, any two if there are few, and the
    ring of all: groups may be alike in pairs and still share a trunk all together. The groups are
    in the order of the ring.
    """
    count = len(groups)
    if count < 2:
        return 0.0
    ways = [_way(_edges(groups, near, far)) for near, far in _pairs(groups)]
    ways.append(_way([edge for near in range(count) for edge in _edges(groups, near, near + 1)]))
    return max(
        _spread([RingTime(latency_s, bytes_per_host * per_byte)(n) for latency_s, per_byte in ways])
        # Latency weighs most in the largest ring, bandwidth in the smallest.
        for n in (2, count)
    )


def _pairs(groups: Groups) -> Iterable[tuple[int, int]]:
    count = len(groups)
    if count * count * len(groups[0]) <= _FEW_EDGES:
        return permutations(range(count), 2)
    others = range(1, count)
    successors = {(group, (group + 1) % count) for group in range(count)}
    return sorted(successors | {(0, other) for other in others} | {(other, 0) for other in others})


def _edges(groups: Groups, near: int, far: int) -> list[Edge]:
    return list(zip(groups[near], groups[far % len(groups)], strict=True))


def _way(edges: Iterable[Edge]) -> tuple[float, float]:
    """Return latency in s, and s a byte, of equal flows that start at once over some edges.

    The flows through the link with the most of them for its bandwidth all get the least share, so
    they end last, together: max-min fairness gives no flow less.
    """
    latest_s = longest_s = 0.0
    busy_s: dict[str, float] = defaultdict(float)
    for near, far in edges:
        way = way_between(near, far)
        latest_s = max(latest_s, way.latency_s)
        for name, link in way.shared:
            busy_s[name] += 1 / link.bandwidth
        longest_s = max(longest_s, *(1 / link.bandwidth for link in way.unshared), 0.0)
    return latest_s, max(longest_s, *busy_s.values(), 0.0)


def _spread(times_s: Sequence[float]) -> float:
    shortest_s, longest_s = min(times_s), max(times_s)
    if shortest_s == 0.0:
        return inf if longest_s > 0.0 else 0.0
    return longest_s / shortest_s - 1.0
