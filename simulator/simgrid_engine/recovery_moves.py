"""How long the state takes that moves between groups in a recovery: SimGrid plays its flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.simulator.probe_cache import cached
from faultline.simulator.recovery_times import SentMove
from faultline.simulator.simgrid_engine.group_state import Flow, GroupState
from faultline.simulator.simgrid_engine.kept_platform import PlayedTime, played_on
from faultline.strategies.recovery import Move

if TYPE_CHECKING:
    import simgrid

# Raise it when the same moves would be played otherwise.
_PLAY_VERSION = 2


@dataclass(frozen=True, slots=True)
class PlayedMoves:
    """Times of moves on a platform: each distinct one is played once, and remembered.

    On a platform that is as its spec says, groups are alike that have the same place among the
    scale-up domains: moves are told apart by what they move and whom domains join, and played for
    the first groups. On one that was edited, by whom they are for.

    Attributes
    ----------
    platform : Path
        Platform XML.
    state : GroupState
        Where the state lies.
    block : int or None
        After so many groups a domain begins with a group again: 1 where each has whole domains.
        None where the platform was edited.
    """

    platform: Path
    state: GroupState
    block: int | None
    _known: dict[tuple[SentMove, ...], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def duration_s(self, moves: Sequence[SentMove]) -> float:
        """Return the time until the last of some moves has arrived, in seconds."""
        if self.block is not None:
            moves = _in_order(moves, len(self.state.hosts), self.block)
        asked = tuple(moves)
        if asked not in self._known:
            flows = self.state.flows(moves)
            self._known[asked] = self._played(flows).duration_s if flows else 0.0
        return self._known[asked]

    def size_bytes(self, moves: Sequence[Move]) -> float:
        """Return what arrives at all receivers together, in bytes."""
        return self.state.size_bytes(moves)

    def _played(self, flows: Sequence[Flow]) -> PlayedTime:
        asked = [_PLAY_VERSION, flows]
        play = partial(played_on, self.platform, time_flows, flows)
        return cached(self.platform, asked, play, PlayedTime.believable)


def _in_order(moves: Sequence[SentMove], groups: int, block: int) -> list[SentMove]:
    """Return moves with their groups numbered in the order in which they come, block by block.

    No more than there are on the platform: those of the first stand for the others.
    """
    numbers: dict[int, int] = {}

    def numbered(group: int) -> int:
        number, place = divmod(group, block)
        return numbers.setdefault(number, len(numbers)) * block + place

    renamed = []
    for move, sender in moves:
        group = numbered(move.group)
        away = None if sender is None else numbered(sender)
        if max(group, away or 0) < groups:
            renamed.append(SentMove(move._replace(group=group), away))
    return renamed


def time_flows(engine: simgrid.Engine, flows: Sequence[Flow]) -> PlayedTime:
    """Play flows on an engine's platform that is idle otherwise."""
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.loading import actor_on, run_to_the_end
    from faultline.simulator.simgrid_engine.storage_traffic import transfer

    def move() -> None:
        transfer(flows)

    actor_on(CONTROLLER_HOST, "moves", move)
    run_to_the_end(engine)
    return PlayedTime(engine.clock)
