"""Plays schedules with real numbers instead of time, to see what everybody holds at the end."""

from __future__ import annotations

from collections import deque

import numpy as np
from faultline.simulator.collectives.schedule import Message, Schedule
from numpy.typing import NDArray

Buffers = NDArray[np.float64]
"""A row a member, a column a piece; NaN is what a member does not have."""


class _Member:
    """One member on its way through its rounds."""

    def __init__(self, schedule: Schedule, position: int) -> None:
        stages = schedule.stages(position)
        self._rounds = (turn for stage in stages for turn in stage.rounds())
        self.to_receive: list[Message] = []
        self.received: list[tuple[Message, NDArray[np.float64]]] = []
        self.to_deliver = 0

    def next_round(self) -> tuple[Message, ...] | None:
        """Begin the next round and return what it sends; None after the last one."""
        turn = next(self._rounds, None)
        if turn is None:
            return None
        self.to_receive = list(turn.receives)
        self.to_deliver = len(turn.sends)
        return turn.sends

    @property
    def done(self) -> bool:
        return not self.to_receive and self.to_deliver == 0


def play(schedule: Schedule, buffers: Buffers) -> None:
    """Play a schedule on buffers: a message arrives once both ends have come to it."""
    members = [_Member(schedule, position) for position in range(schedule.members)]
    mail: dict[tuple[int, int], deque[tuple[Message, NDArray[np.float64]]]] = {}
    going = deque(range(schedule.members))
    idle = 0
    while going:
        position = going.popleft()
        me = members[position]
        moved = _collect(position, me, members, mail)
        if me.done:
            for message, numbers in me.received:
                pieces = slice(message.first_piece, message.first_piece + message.pieces)
                kept = buffers[position, pieces] if message.adds else 0.0
                buffers[position, pieces] = kept + numbers
            me.received.clear()
            sends = me.next_round()
            if sends is None:
                idle = 0
                continue
            moved = True
            for message in sends:
                pieces = slice(message.first_piece, message.first_piece + message.pieces)
                numbers = buffers[position, pieces].copy()
                assert not np.isnan(numbers).any(), "a member sends what it does not have"
                mail.setdefault((position, message.peer), deque()).append((message, numbers))
        going.append(position)
        idle = 0 if moved else idle + 1
        assert idle <= len(going), "everybody waits for somebody"
    assert not any(mail.values()), "there is mail that nobody wants"


def _collect(
    position: int,
    me: _Member,
    members: list[_Member],
    mail: dict[tuple[int, int], deque[tuple[Message, NDArray[np.float64]]]],
) -> bool:
    """Take what has come for this round; return whether there was any."""
    before = len(me.to_receive)
    for expected in list(me.to_receive):
        box = mail.get((expected.peer, position))
        if not box:
            continue
        message, numbers = box.popleft()
        assert message[1:] == expected[1:], "sender and receiver speak of different pieces"
        me.to_receive.remove(expected)
        me.received.append((expected, numbers))
        members[expected.peer].to_deliver -= 1
    return len(me.to_receive) < before
