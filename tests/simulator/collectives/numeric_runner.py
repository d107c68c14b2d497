"""Runs schedules with real numbers instead of time, to see what everybody holds at the end."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from faultline.simulator.collectives.schedule import Message, Schedule
from numpy.typing import NDArray

Buffers = NDArray[np.float64]
"""A row a member, a column a piece; NaN is what a member does not have."""


@dataclass
class _Letter:
    message: Message
    numbers: NDArray[np.float64]
    taken: bool = False


def simulate(schedule: Schedule, buffers: Buffers) -> None:
    """Run a schedule on buffers: a message arrives once both ends have come to it."""
    mail: defaultdict[tuple[int, int], deque[_Letter]] = defaultdict(deque)

    def pieces(position: int, message: Message) -> NDArray[np.float64]:
        return buffers[position, message.first_piece : message.first_piece + message.pieces]

    def member(position: int) -> Iterator[bool]:
        """Go through the rounds of a member; yield whether anything has moved."""
        for turn in (turn for stage in schedule.stages(position) for turn in stage.rounds()):
            sent = [_Letter(message, pieces(position, message).copy()) for message in turn.sends]
            for letter in sent:
                assert not np.isnan(letter.numbers).any(), "a member sends what it does not have"
                mail[position, letter.message.peer].append(letter)
            yield True
            to_come = list(turn.receives)
            received: list[_Letter] = []
            while to_come or not all(letter.taken for letter in sent):
                before = len(to_come)
                for expected in list(to_come):
                    if box := mail[expected.peer, position]:
                        letter = box.popleft()
                        letter.taken = True
                        said = "sender and receiver speak of different pieces"
                        assert letter.message[1:] == expected[1:], said
                        to_come.remove(expected)
                        received.append(_Letter(expected, letter.numbers))
                yield len(to_come) < before
            for letter in received:
                into = pieces(position, letter.message)
                into[:] = letter.numbers + (into if letter.message.adds else 0.0)

    going = deque(member(position) for position in range(schedule.members))
    idle = 0
    while going:
        one = going.popleft()
        moved = next(one, None)
        if moved is not None:
            going.append(one)
        idle = idle + 1 if moved is False else 0
        assert idle <= len(going), "everybody waits for somebody"
    assert not any(mail.values()), "there is mail that nobody wants"
