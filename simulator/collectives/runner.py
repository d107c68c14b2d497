"""Simulates a schedule as messages between the rank actors that take part in it.

All bytes of an edge in the rounds of a stage are sent as one message, and the latencies of the
other rounds are added. If the edges of a stage are equal, this takes the same time. Tests compare
it with simulations of every message of the algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence

import simgrid
from faultline.simulator.collectives.schedule import Message, Schedule, ScheduleStage, Share

_SAME_TIME = 1e-12
"""Relative difference of two times that differ by rounding only."""


class Collective:
    """One collective, shared by the actors of all its members.

    Parameters
    ----------
    schedule : Schedule
        The algorithm.
    hosts : sequence of str
        Host of each member, by its position.
    tag : str
        Prefix of the mailboxes' names; collectives that run at the same time need different tags.
    """

    def __init__(self, schedule: Schedule, hosts: Sequence[str], tag: str) -> None:
        self.schedule = schedule
        self.hosts = hosts
        self._tag = tag
        self._gatherings: dict[tuple[int, str], _Gathering] = {}
        self.messages = 0
        """Messages sent so far."""

    def take_part(self, position: int) -> None:
        """Execute the member at `position`; blocks the calling actor."""
        for number, stage in enumerate(self.schedule.stages(position)):
            if stage.circle is None:
                for sends, receives in stage.rounds():
                    self._exchange(position, sends, receives)
            else:
                key = number, stage.circle.name
                if key not in self._gatherings:
                    self._gatherings[key] = _Gathering(stage.circle.members)
                self._flow(position, stage, self._gatherings[key])

    def _flow(self, position: int, stage: ScheduleStage, gathering: _Gathering) -> None:
        self._exchange(position, stage.sends, stage.receives)
        latency_s = 0.0
        if stage.latency_steps:
            latency_s = max(
                *(self._latency_s(position, share.peer) for share in stage.sends),
                *(self._latency_s(share.peer, position) for share in stage.receives),
            )
        gathering.wait(stage.latency_steps * latency_s)

    def _latency_s(self, sender: int, receiver: int) -> float:
        near, far = (simgrid.Host.by_name(self.hosts[end]) for end in (sender, receiver))
        _, latency_s = near.route_to(far)
        return float(latency_s)

    def _exchange(
        self,
        position: int,
        sends: Sequence[Message | Share],
        receives: Sequence[Message | Share],
    ) -> None:
        """Send and receive at once, and wait for all of it."""
        self.messages += len(sends)
        # SimGrid counts whole bytes, and loses messages of 0 bytes.
        pending = [
            self._mailbox(position, sent.peer).put_async(
                None, max(1, round(sent.pieces * self.schedule.piece_bytes))
            )
            for sent in sends
        ]
        pending += [self._mailbox(received.peer, position).get_async() for received in receives]
        for communication in pending:
            communication.wait()

    def _mailbox(self, sender: int, receiver: int) -> simgrid.Mailbox:
        return simgrid.Mailbox.by_name(f"{self._tag}:{sender}>{receiver}")


class _Gathering:
    """Members of a circle whose flows have ended.

    In the algorithm each round of a member waits for its peers' previous round, so no member of the
    circle finishes before all others can. Flows do not wait, so this class adds the wait. If all
    flows end together, no member has to wait.
    """

    def __init__(self, members: int) -> None:
        self._missing = members
        self._waiting = 0
        self._ready_s = 0.0
        self._last = simgrid.Semaphore(0)

    def wait(self, pause_s: float) -> None:
        """Register, pause, and wait for all others."""
        until_s = simgrid.Engine.clock + pause_s
        self._ready_s = max(self._ready_s, until_s)
        self._missing -= 1
        if self._missing == 0:
            for _ in range(self._waiting):
                self._last.release()
        _sleep_until(until_s)
        if self._missing:
            self._waiting += 1
            self._last.acquire()
        _sleep_until(self._ready_s)


def _sleep_until(time_s: float) -> None:
    if time_s > simgrid.Engine.clock + _SAME_TIME * time_s:
        simgrid.this_actor.sleep_until(time_s)
