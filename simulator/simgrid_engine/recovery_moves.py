"""How long the state takes that moves between groups in a recovery: SimGrid plays its flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faultline.simulator.probe_cache import cached
from faultline.simulator.recovery_times import SentMove
from faultline.simulator.simgrid_engine.group_state import Flow, GroupState
from faultline.simulator.simgrid_engine.process import in_own_process
from faultline.strategies.recovery import Move

# Raise it when the same moves would be played otherwise.
_PLAY_VERSION = 1


@dataclass(frozen=True, slots=True)
class MovedFor:
    """How long some flows take, in seconds."""

    duration_s: float


@dataclass(frozen=True, slots=True)
class PlayedMoves:
    """Times of moves on a platform: each distinct one is played once, and remembered.

    On a platform that is as its spec says, groups are alike: moves are told apart by what they
    move, and played for the first groups. On one that was edited, by whom they are for.

    Attributes
    ----------
    platform : Path
        Platform XML.
    state : GroupState
        Where the state lies.
    is_even : bool
        Whether all groups are alike.
    """

    platform: Path
    state: GroupState
    is_even: bool
    _known: dict[tuple[Flow, ...], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def duration_s(self, moves: Sequence[SentMove]) -> float:
        """Return the time until the last of some moves has arrived, in seconds."""
        flows = tuple(self.state.flows(_in_order(moves, len(self.state.hosts)) if self.is_even else moves))
        if flows not in self._known:
            self._known[flows] = self._measured(flows)
        return self._known[flows]

    def size_bytes(self, moves: Sequence[Move]) -> float:
        """Return what arrives at all receivers together, in bytes."""
        return self.state.size_bytes(moves)

    def _measured(self, flows: tuple[Flow, ...]) -> float:
        if not flows:
            return 0.0

        def believable(stored: dict[str, Any]) -> MovedFor:
            if not stored["duration_s"] >= 0.0:
                raise ValueError("has a time that is none")
            return MovedFor(**stored)

        def measure() -> MovedFor:
            return in_own_process(_time, self.platform, flows)

        return cached(self.platform, [_PLAY_VERSION, *flows], measure, believable).duration_s


def _in_order(moves: Sequence[SentMove], groups: int) -> list[SentMove]:
    """Return moves with their groups numbered in the order in which they come.

    No more than there are on the platform: those of the first stand for the others.
    """
    numbers: dict[int, int] = {}
    renamed = []
    for move, sender in moves:
        group = numbers.setdefault(move.group, len(numbers))
        away = None if sender is None else numbers.setdefault(sender, len(numbers))
        if max(group, away or 0) < groups:
            renamed.append(SentMove(move._replace(group=group), away))
    return renamed


def _time(platform: Path, flows: Sequence[Flow]) -> MovedFor:
    import simgrid
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.loading import actor_on, load_engine, run_to_the_end
    from faultline.simulator.simgrid_engine.storage_traffic import transfer

    engine = load_engine(platform)
    actor_on(CONTROLLER_HOST, "moves", lambda: transfer(flows))
    run_to_the_end(engine)
    return MovedFor(simgrid.Engine.clock)
