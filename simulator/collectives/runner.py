"""Simulates a schedule as messages between the rank actors that take part in it.

Rank actors, each on the host of its GPU, execute both fidelities. One actor that starts all flows
itself would be some five times faster per message, but would not notice that a host fails: an
actor stops with its host, and its peers wait for it until their deadline, as a collective
does in a real job. At fidelity "flow" so few messages are left that their cost does not matter; at
"chunk" 64 ranks in a ring run their 8,064 messages in about a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import simgrid
from faultline.simulator.collectives.schedule import Circle, Fidelity, Hop, Round, Schedule, Stage

_BROKEN_OFF = (
    simgrid.TimeoutException,
    simgrid.NetworkFailureException,
    simgrid.CancelException,
)
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
        Names the mailboxes; collectives that run at the same time, or after one that failed, need
        tags of their own.
    fidelity : {"flow", "chunk"}
        "chunk" sends every message of the algorithm. "flow" sends all bytes of an edge in all
        rounds of a stage as one message, and adds the latencies of the other rounds: the same time
        where the edges of a stage are equal.
    """

    def __init__(
        self, schedule: Schedule, hosts: Sequence[str], tag: str, fidelity: Fidelity = "flow"
    ) -> None:
        self.schedule = schedule
        self.hosts = hosts
        self._tag = tag
        self._fidelity = fidelity
        self._gatherings: dict[tuple[int, str], _Gathering] = {}
        self.messages = 0
        """Messages sent so far."""

    def take_part(self, position: int, deadline_s: float) -> bool:
        """Execute the member at `position`; blocks the calling actor.

        Returns False at `deadline_s` (simulated seconds) if it has not finished by then. The
        failure of a peer or link, also in the middle of a message, is not noticed before: an NCCL
        kernel waits for its data for ever, and a watchdog ends it. Without a deadline (infinity)
        the members that exchange a message with it notice the failure at once.
        """
        mailboxes: dict[tuple[int, int], simgrid.Mailbox] = {}
        for number, stage in enumerate(self.schedule.stages(position)):
            if stage.circle is not None and self._fidelity == "flow":
                gathering = self._gatherings.setdefault(
                    (number, stage.circle.name), _Gathering(stage.circle)
                )
                if not self._flow(position, stage, gathering, deadline_s):
                    return False
                continue
            for turn in stage.rounds():
                if not self._run_round(position, turn, mailboxes, deadline_s):
                    return False
        return True

    def _flow(self, position: int, stage: Stage, gathering: _Gathering, deadline_s: float) -> bool:
        lanes = sorted({share.lane for share in (*stage.sends, *stage.receives)})
        latency_s = 0.0
        for lane in lanes:
            sends = [share for share in stage.sends if share.lane == lane]
            receives = [share for share in stage.receives if share.lane == lane]
            flows = [
                self._mailbox(position, share.peer).put_async(None, self._whole_bytes(share.pieces))
                for share in sends
            ]
            self.messages += len(flows)
            flows += [self._mailbox(share.peer, position).get_async() for share in receives]
            if not _wait_all(flows, deadline_s):
                return False
            if stage.latency_steps:
                latency_s += max(
                    *(self._hop(position, share.peer).latency_s for share in sends),
                    *(self._hop(share.peer, position).latency_s for share in receives),
                    0.0,
                )
        if stage.fill_s is not None and gathering.fill_s is None:
            gathering.fill_s = stage.fill_s(self._hop)
        pause_s = stage.latency_steps * latency_s + (gathering.fill_s or 0.0)
        return gathering.wait(pause_s, deadline_s)

    def _hop(self, sender: int, receiver: int) -> Hop:
        near, far = (simgrid.Host.by_name(self.hosts[end]) for end in (sender, receiver))
        links, latency_s = near.route_to(far)
        return Hop(latency_s, min((link.bandwidth for link in links), default=inf))

    def _run_round(
        self,
        position: int,
        turn: Round,
        mailboxes: dict[tuple[int, int], simgrid.Mailbox],
        deadline_s: float,
    ) -> bool:
        messages = []
        for message in turn.sends:
            edge = (position, message.peer)
            if edge not in mailboxes:
                mailboxes[edge] = self._mailbox(*edge)
            messages.append(mailboxes[edge].put_async(None, self._whole_bytes(message.pieces)))
        self.messages += len(messages)
        for message in turn.receives:
            edge = (message.peer, position)
            if edge not in mailboxes:
                mailboxes[edge] = self._mailbox(*edge)
            messages.append(mailboxes[edge].get_async())
        return _wait_all(messages, deadline_s)

    def _mailbox(self, sender: int, receiver: int) -> simgrid.Mailbox:
        return simgrid.Mailbox.by_name(f"{self._tag}:{sender}>{receiver}")

    def _whole_bytes(self, pieces: float) -> int:
        # Messages of less than a byte would be lost by rounding; SimGrid counts whole bytes.
        return max(1, round(pieces * self.schedule.piece_bytes))


class _Gathering:
    """Members of a circle whose flows have ended.

    In the algorithm each round of a member waits for its peers' previous round, so no member
    finishes without all of the circle. Flows do not wait, so this class adds the wait. If all flows
    end together, no member has to wait, and it costs nothing.
    """

    def __init__(self, circle: Circle) -> None:
        self.fill_s: float | None = None
        self._missing = circle.members
        self._waiting = 0
        self._ready_s = 0.0
        self._semaphore: simgrid.Semaphore | None = None

    def wait(self, pause_s: float, deadline_s: float) -> bool:
        """Register, pause, and wait for all others; return False if the deadline comes first.

        The last one to register may pause beyond the deadline by no more than rounding.
        """
        now_s = simgrid.Engine.clock
        self._ready_s = max(self._ready_s, now_s + pause_s)
        self._missing -= 1
        if self._missing == 0 and self._semaphore is not None:
            for _ in range(self._waiting):
                self._semaphore.release()
        if not _pause_until(now_s + pause_s, deadline_s):
            return False
        if self._missing and not self._wait_for_the_last(deadline_s):
            return False
        return _pause_until(self._ready_s, deadline_s)

    def _wait_for_the_last(self, deadline_s: float) -> bool:
        if self._semaphore is None:
            self._semaphore = simgrid.Semaphore(0)
        self._waiting += 1
        if deadline_s == inf:
            self._semaphore.acquire()
            return True
        left_s = deadline_s - simgrid.Engine.clock
        # SimGrid takes a time-out of 0 for none at all.
        return left_s > 0.0 and not self._semaphore.acquire_timeout(left_s)


def _pause_until(time_s: float, deadline_s: float) -> bool:
    """Sleep until a time, at most until the deadline; return whether the time is before it."""
    rounding_s = _SAME_TIME * time_s
    in_time = time_s <= deadline_s + rounding_s
    wake_s = time_s if in_time else deadline_s
    if wake_s > simgrid.Engine.clock + rounding_s:
        simgrid.this_actor.sleep_until(wake_s)
    return in_time


def _wait_all(messages: Sequence[simgrid.Comm], deadline_s: float) -> bool:
    """Wait for messages; if one fails, cancel all at the deadline and return False."""
    try:
        for message in messages:
            if deadline_s == inf:
                message.wait()
                continue
            left_s = deadline_s - simgrid.Engine.clock
            if left_s <= 0.0:
                break
            message.wait_for(left_s)
        else:
            return True
    except _BROKEN_OFF:
        # The other messages stay in flight: cancelling them now would notify all peers at once.
        if simgrid.Engine.clock < deadline_s < inf:
            simgrid.this_actor.sleep_until(deadline_s)
    for message in messages:
        message.cancel()
    return False
