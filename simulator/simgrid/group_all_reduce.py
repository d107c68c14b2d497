"""The all-reduce of a job's groups: a ring for each position in a group, all rings at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import permutations
from math import inf
from types import MappingProxyType

import simgrid
from faultline.simulator.job.durations import RingTime
from faultline.simulator.simgrid.links import busy_s_per_byte, way_between
from faultline.simulator.simgrid.storage_traffic import BROKEN_OFF, may_begin

_FEW_EDGES = 4096
"""Largest number of edges for which each pair of groups is checked."""

Groups = Sequence[Sequence[str]]
"""The GPU hosts of each group, by name; each group has the same number of hosts."""


def all_reduce(groups: Groups, bytes_per_host: float) -> None:
    """Run an all-reduce of all hosts of some groups; blocks the calling actor."""
    ended = simgrid.Semaphore(0)
    rings = GroupAllReduce(groups, bytes_per_host)
    rings.start(range(len(groups)), ended.release)
    ended.acquire()


class GroupAllReduce:
    """GPU k of each group reduces its part of the gradients with GPU k of the other groups.

    One actor begins a steady flow on each edge of the rings. The flows move the same bytes at the
    same times as the messages of the algorithm, for a fraction of the processor time. The rings
    share adapters, trunks and switches, so together they may take longer than one alone. Each host
    carries `bytes_per_host` of gradients for its group.
    """

    def __init__(self, groups: Groups, bytes_per_host: float) -> None:
        self._groups = groups
        count = len(groups)
        self._rounds = 2 * (count - 1)
        # SimGrid counts whole bytes, and loses messages without any.
        self._edge_bytes = max(1, round(self._rounds * (bytes_per_host / count)))
        self._flows: list[simgrid.Comm] = []
        self._stopped = False

    def start(
        self,
        members: Collection[int],
        on_end: Callable[[], None],
        off_s: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Start some members, by their positions; call `on_end` once each host has finished.

        There is no deadline. If a member is not started, or goes down, the end never comes. `off_s`
        is when hosts go off, by their names, in simulated seconds.
        """
        simgrid.this_actor.get_host().add_actor(
            "all-reduce", lambda: self._send(set(members), on_end, off_s)
        )

    def stop(self) -> None:
        """End the all-reduce, with all its messages."""
        self._stopped = True
        for flow in self._flows:
            flow.cancel()
        self._flows.clear()

    def _send(
        self, members: set[int], on_end: Callable[[], None], off_s: Mapping[str, float]
    ) -> None:
        """Begin a flow from each started member to its successor, if that is started too.

        All flows stop with the first that breaks off: members wait for each other.
        """
        count = len(self._groups)
        whole = len(members) == count
        flows: dict[tuple[int, int], tuple[simgrid.Comm, float]] = {}
        for position in range(len(self._groups[0])):
            for member in range(count) if count > 1 else ():
                peer = (member + 1) % count
                names = self._groups[member][position], self._groups[peer][position]
                ends = [*map(simgrid.Host.by_name, names)]
                if not ({member, peer} <= members and may_begin(ends, off_s)):
                    whole = False
                    continue
                flow = simgrid.Comm.sendto_async(*ends, self._edge_bytes)
                self._flows.append(flow)
                if self._stopped:
                    self.stop()
                    return
                later_s = (self._rounds - 1) * way_between(*names).latency_s
                flows[position, member] = flow, later_s
        try:
            for flow, _ in flows.values():
                flow.wait()
        except BROKEN_OFF:
            self.stop()
            return
        if not whole:
            return
        simgrid.this_actor.sleep_until(self._ends_s(flows))
        if not self._stopped:
            self._flows.clear()
            on_end()

    def _ends_s(self, flows: Mapping[tuple[int, int], tuple[simgrid.Comm, float]]) -> float:
        """Return when the last member has finished, in seconds.

        After its two flows each member waits for the latencies of the other rounds. No member
        finishes before the others.
        """
        sent = {edge: (float(flow.finish_time), later_s) for edge, (flow, later_s) in flows.items()}
        count = len(self._groups)
        ends_s = [0.0]
        for (position, member), (sent_s, later_s) in sent.items():
            received_s, received_later_s = sent[position, (member - 1) % count]
            ends_s.append(max(sent_s, received_s) + max(later_s, received_later_s))
        return max(ends_s)


def ring_unevenness(groups: Groups, bytes_per_host: float) -> float:
    """Return by how much an all-reduce's time may depend on its members; 0.5 for half.

    A ring of fewer groups has other edges. There are too many sets of groups to measure each, but
    the edges of each set's ring are between pairs. If an all-reduce of any pair takes as long as
    the ring of all would take with two members, in latency and in bandwidth, so do all rings.
    Compared are each group and its successor, each and the first, all pairs if there are few, and
    the ring of all: pairs may be alike although all groups together share a trunk. The groups are
    in the order of the ring.
    """
    count = len(groups)
    if count < 2:
        return 0.0
    rings = [_edges(groups, near, far) for near, far in _pairs(groups)]
    rings.append([edge for near in range(count) for edge in _edges(groups, near, near + 1)])
    times = [
        RingTime(
            max(way_between(*edge).latency_s for edge in ring),
            bytes_per_host * max(busy_s_per_byte(ring).values(), default=0.0),
        )
        for ring in rings
    ]
    # Latency has most effect on the largest ring, bandwidth on the smallest.
    return max(_spread([time_s(members) for time_s in times]) for members in (2, count))


def _pairs(groups: Groups) -> Iterable[tuple[int, int]]:
    count = len(groups)
    if count * count * len(groups[0]) <= _FEW_EDGES:
        return permutations(range(count), 2)
    others = range(1, count)
    successors = {(group, (group + 1) % count) for group in range(count)}
    return sorted(successors | {(0, other) for other in others} | {(other, 0) for other in others})


def _edges(groups: Groups, near: int, far: int) -> list[tuple[str, str]]:
    return list(zip(groups[near], groups[far % len(groups)], strict=True))


def _spread(times_s: Sequence[float]) -> float:
    shortest_s, longest_s = min(times_s), max(times_s)
    if shortest_s == 0.0:
        return inf if longest_s > 0.0 else 0.0
    return longest_s / shortest_s - 1.0
