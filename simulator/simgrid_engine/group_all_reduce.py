"""The all-reduce of a job's groups: a ring for each position in a group, all rings at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

import simgrid
from faultline.simulator.simgrid_engine.links import way_between
from faultline.simulator.simgrid_engine.storage_traffic import BROKEN_OFF, may_begin


def all_reduce(hosts: Sequence[Sequence[str]], bytes_per_host: float) -> None:
    """Let all hosts of some groups take part in an all-reduce; blocks the calling actor."""
    ended = simgrid.Semaphore(0)
    rings = GroupAllReduce(hosts, bytes_per_host)
    rings.start(range(len(hosts)), ended.release)
    ended.acquire()


class GroupAllReduce:
    """GPU k of every group reduces its part of the gradients with GPU k of the other groups.

    One actor begins a steady flow on each edge of the rings. These move the same bytes at the same
    times as the messages of the algorithm, for a fraction of the processor time. The rings share
    adapters, trunks and switches, so together they may take longer than one alone.

    Parameters
    ----------
    hosts : sequence of sequence of str
        The GPU hosts of each member, equally many of each.
    bytes_per_host : float
        Bytes of gradients that a host carries for its group.
    """

    def __init__(self, hosts: Sequence[Sequence[str]], bytes_per_host: float) -> None:
        self._hosts = hosts
        count = len(hosts)
        self._rounds = 2 * (count - 1)
        # SimGrid counts whole bytes, and loses messages without any.
        self._edge_bytes = max(1, round(self._rounds * (bytes_per_host / count)))
        self._begun: list[simgrid.Comm] = []
        self._stopped = False

    def start(
        self,
        members: Collection[int],
        on_end: Callable[[], None],
        off_s: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Let members take part, by their positions; call `on_end` once every host has finished.

        There is no deadline. If a member is not started, or goes down, the end never comes. `off_s`
        is when hosts go off, by their names, in simulated seconds.
        """
        simgrid.this_actor.get_host().add_actor(
            "all-reduce", lambda: self._send(set(members), on_end, off_s)
        )

    def stop(self) -> None:
        """End the all-reduce, with all its messages."""
        self._stopped = True
        for flow in self._begun:
            flow.cancel()
        self._begun.clear()

    def _send(
        self, members: set[int], on_end: Callable[[], None], off_s: Mapping[str, float]
    ) -> None:
        """Begin a flow from each member that takes part to its successor, if both do.

        All flows stop with the first that breaks off: members wait for each other.
        """
        count = len(self._hosts)
        whole = len(members) == count
        flows: dict[tuple[int, int], tuple[simgrid.Comm, float]] = {}
        for place in range(len(self._hosts[0])):
            for member in range(count) if count > 1 else ():
                peer = (member + 1) % count
                names = self._hosts[member][place], self._hosts[peer][place]
                ends = [*map(simgrid.Host.by_name, names)]
                if not ({member, peer} <= members and may_begin(ends, off_s)):
                    whole = False
                    continue
                flow = simgrid.Comm.sendto_async(*ends, self._edge_bytes)
                self._begun.append(flow)
                if self._stopped:
                    self.stop()
                    return
                later_s = (self._rounds - 1) * way_between(*names).latency_s
                flows[place, member] = flow, later_s
        try:
            for flow, _ in flows.values():
                flow.wait()
        except BROKEN_OFF:
            self.stop()
            return
        if not whole:
            return
        ends_s = self._ends_s(flows)
        if ends_s > simgrid.Engine.clock:
            simgrid.this_actor.sleep_until(ends_s)
        if not self._stopped:
            self._begun.clear()
            on_end()

    def _ends_s(self, flows: Mapping[tuple[int, int], tuple[simgrid.Comm, float]]) -> float:
        """Return when the last member has finished, in seconds.

        After its two flows each member pays the latencies of the other rounds; then all meet.
        """
        known = {one: (float(flow.finish_time), rest_s) for one, (flow, rest_s) in flows.items()}
        count = len(self._hosts)
        before = {(place, member): known[place, (member - 1) % count] for place, member in known}
        return max(
            (
                max(sent_s, before[one][0]) + max(rest_s, before[one][1])
                for one, (sent_s, rest_s) in known.items()
            ),
            default=0.0,
        )
