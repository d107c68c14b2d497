"""Times to move state in jobs of more groups than the platform has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faultline.simulator.job.recovery_times import MoveTimes
from faultline.strategies.interface.recovery import Move, SentMove


@dataclass(frozen=True, slots=True)
class MovesOfMoreGroups(MoveTimes):
    """Times to move state in a job of more groups than the platform has.

    The fabric has full bisection and groups are alike, so that the first groups represent those
    that send or receive.
    """

    measured: MoveTimes  # On the platform.
    groups: int  # Groups of the platform.

    def busy_s(self, moves: Sequence[SentMove]) -> Mapping[int, float]:
        """Return the time that each group sends or receives, in seconds."""
        groups = [sent.move.group for sent in moves]
        groups += [sent.sender for sent in moves if sent.sender is not None]
        stand_in = {group: place % self.groups for place, group in enumerate(dict.fromkeys(groups))}
        represented = [
            SentMove(
                Move(stand_in[move.group], *move[1:]), None if sender is None else stand_in[sender]
            )
            for move, sender in moves
        ]
        times_s = self.measured.busy_s(represented)
        return {group: times_s[place] for group, place in stand_in.items() if place in times_s}

    def size_bytes(self, moves: Sequence[Move]) -> float:
        """Return the sum of the bytes that all receivers get."""
        return self.measured.size_bytes(moves)
