"""The all-reduce of a job's groups: a ring for each position in a group, all rings at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from math import inf
from types import MappingProxyType

import simgrid
from faultline.simulator.collectives.ring import RingAllReduce
from faultline.simulator.collectives.runner import Collective
from faultline.simulator.collectives.schedule import Fidelity
from faultline.simulator.simgrid_engine.storage_traffic import BROKEN_OFF, may_begin


class GroupAllReduce:
    """GPU k of every group reduces its part of the gradients with GPU k of the other groups.

    At fidelity "chunk" an actor on each GPU host sends and receives. One actor begins all steady
    flows: that takes a fraction of the processor time, and moves the same bytes at the same times.
    The rings share adapters, trunks and switches, so together they may take longer than one alone.

    Parameters
    ----------
    hosts : sequence of sequence of str
        The GPU hosts of each member, equally many of each.
    bytes_per_host : float
        Bytes of gradients that a host carries for its group.
    fidelity : {"flow", "chunk"}
        How exactly the rings are simulated.
    """

    def __init__(
        self, hosts: Sequence[Sequence[str]], bytes_per_host: float, fidelity: Fidelity
    ) -> None:
        self._rings = [
            Collective(
                RingAllReduce(len(hosts), bytes_per_host), ring, f"all-reduce-{place}", fidelity
            )
            for place, ring in enumerate(zip(*hosts, strict=True))
        ]
        self._simulating = len(hosts) * len(self._rings)
        self._actors: list[simgrid.Actor] = []
        self._steady = fidelity == "flow" and len(hosts) > 1
        self._begun: list[simgrid.Comm] = []
        self._begins = self._stopped = False
        self._flows = 0

    @property
    def messages(self) -> int:
        """Messages sent so far."""
        return self._flows + sum(ring.messages for ring in self._rings)

    def start(
        self,
        members: Iterable[int],
        on_end: Callable[[], None],
        off_s: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Let members take part, by their positions; call `on_end` once every host has finished.

        There is no deadline. If a member is not started, or goes down, the end never comes.

        Parameters
        ----------
        members : iterable of int
            The members.
        on_end : callable
            Is called at the end.
        off_s : mapping of str to float
            When hosts go off, by their names, in simulated seconds.
        """
        if self._steady:
            taking_part = set(members)
            here = simgrid.this_actor.get_host()
            self._begins = True
            self._actors.append(
                here.add_actor("all-reduce", lambda: self._send(taking_part, on_end, off_s))
            )
            return
        for member in members:
            for place, ring in enumerate(self._rings):
                host = simgrid.Host.by_name(ring.hosts[member])
                body = self._body(ring, member, on_end)
                # A host may go off while actors on others are started.
                with suppress(simgrid.HostFailureException):
                    self._actors.append(host.add_actor(f"all-reduce-{member}-{place}", body))

    def stop(self) -> None:
        """End the all-reduce, with all its messages."""
        self._stopped = True
        self._stop_flows()
        # A flow that the actor is beginning would outlive it, so this actor stops by itself.
        for actor in [] if self._begins else self._actors:
            actor.kill()
        self._actors.clear()

    def _stop_flows(self) -> None:
        for flow in self._begun:
            flow.cancel()
        self._begun.clear()

    def _send(
        self, members: set[int], on_end: Callable[[], None], off_s: Mapping[str, float]
    ) -> None:
        """Begin a flow from each member that takes part to its successor, if both do.

        All flows stop with the first that breaks off: members wait for each other.
        """
        flows: list[tuple[simgrid.Comm, int, int, float]] = []
        whole = True
        for place, ring in enumerate(self._rings):
            for member in range(len(ring.hosts)):
                peer, size_bytes, steps = ring.steady_flow(member)
                names = ring.hosts[member], ring.hosts[peer]
                ends = [*map(simgrid.Host.by_name, names)]
                if not ({member, peer} <= members and may_begin(ends, off_s)):
                    whole = False
                    continue
                flow = simgrid.Comm.sendto_async(*ends, size_bytes)
                self._begun.append(flow)
                if self._stopped:
                    self._stop_flows()
                    return
                flows.append((flow, place, member, steps * _latency_s(*names)))
        self._flows, self._begins = len(flows), False
        try:
            for flow, *_ in flows:
                flow.wait()
        except BROKEN_OFF:
            self._stop_flows()
            return
        if not whole:
            return
        ends_s = self._ends_s(flows)
        if ends_s > simgrid.Engine.clock:
            simgrid.this_actor.sleep_until(ends_s)
        self._begun.clear()
        # This actor holds the object: unless it is let go, its thread is never freed.
        self._actors.clear()
        on_end()

    def _ends_s(self, flows: Sequence[tuple[simgrid.Comm, int, int, float]]) -> float:
        """Return when the last member has finished, in seconds.

        After its two flows each member pays the latencies of the other rounds; then all meet.
        """
        known = {
            (place, member): (float(flow.finish_time), rest) for flow, place, member, rest in flows
        }
        count = len(self._rings[0].hosts)
        before = {(place, member): known[place, (member - 1) % count] for place, member in known}
        return max(
            max(sent_s, before[one][0]) + max(rest_s, before[one][1])
            for one, (sent_s, rest_s) in known.items()
        )

    def _body(
        self, ring: Collective, member: int, on_end: Callable[[], None]
    ) -> Callable[[], None]:
        def body() -> None:
            if ring.take_part(member, inf):
                self._simulating -= 1
                if self._simulating == 0:
                    # An actor holds this object: unless it is let go, its thread is never freed.
                    self._actors.clear()
                    on_end()

        return body


@cache
def _latency_s(near: str, far: str) -> float:
    """Return the latency of a route, in seconds; those of a loaded platform stay as they are."""
    _, latency_s = simgrid.Host.by_name(near).route_to(simgrid.Host.by_name(far))
    return float(latency_s)
