"""The all-reduce of a job's groups: a ring for each position in a group, all rings at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import inf

import simgrid
from faultline.simulator.collectives.player import Collective
from faultline.simulator.collectives.ring import RingAllReduce
from faultline.simulator.collectives.schedule import Fidelity


class GroupAllReduce:
    """GPU k of every group reduces its part of the gradients with GPU k of the other groups.

    Each GPU host is played by an actor of its own. The rings meet where hosts share adapters,
    trunks or switches, so what they take together is not what one of them takes alone.

    Parameters
    ----------
    hosts : sequence of sequence of str
        The GPU hosts of each member, equally many of each.
    bytes_per_host : float
        Bytes of gradients that a host carries for its group.
    fidelity : {"flow", "chunk"}
        How exactly the rings are played.
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
        self._playing = len(hosts) * len(self._rings)
        self._actors: list[simgrid.Actor] = []

    @property
    def messages(self) -> int:
        """Messages sent so far."""
        return sum(ring.messages for ring in self._rings)

    def start(self, members: Iterable[int], on_end: Callable[[], None]) -> None:
        """Let members take part, by their positions; call `on_end` once every host is through.

        There is no deadline. Where a member is not started, or goes down, that end never comes.
        """
        for member in members:
            for place, ring in enumerate(self._rings):
                host = simgrid.Host.by_name(ring.hosts[member])
                body = self._body(ring, member, on_end)
                # One may die at this very moment: while others are started, its host goes off.
                with suppress(simgrid.HostFailureException):
                    self._actors.append(host.add_actor(f"all-reduce-{member}-{place}", body))

    def stop(self) -> None:
        """End what is left of it, with all its messages."""
        for actor in self._actors:
            actor.kill()
        self._actors.clear()

    def _body(
        self, ring: Collective, member: int, on_end: Callable[[], None]
    ) -> Callable[[], None]:
        def body() -> None:
            if ring.take_part(member, inf):
                self._playing -= 1
                if self._playing == 0:
                    # An actor holds this object: unless it is let go, its thread is never freed.
                    self._actors.clear()
                    on_end()

        return body
