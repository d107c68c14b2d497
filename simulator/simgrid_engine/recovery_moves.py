"""How long the state takes that moves between groups in a recovery: SimGrid plays its flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from faultline.simulator.probe_cache import cached
from faultline.simulator.recovery_times import SentMove
from faultline.simulator.simgrid_engine.group_state import Flow, GroupState
from faultline.simulator.simgrid_engine.process import in_own_process
from faultline.strategies.recovery import Move

# Raise it when the same moves would be played otherwise.
_PLAY_VERSION = 1
_NEAR = 2
"""Stages that one is taken over from are no further away, but for many failures."""


@dataclass(frozen=True, slots=True)
class MovedFor:
    """How long each of some sets of flows takes by itself, in seconds."""

    durations_s: list[float]


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
        if self.is_even:
            moves = _in_order(moves, len(self.state.hosts))
        flows = tuple(self.state.flows(moves))
        if not flows:
            return 0.0
        if flows not in self._known:
            self._measure(moves if len(moves) == 1 else (), flows)
        return self._known[flows]

    def size_bytes(self, moves: Sequence[Move]) -> float:
        """Return what arrives at all receivers together, in bytes."""
        return self.state.size_bytes(moves)

    def _measure(self, alone: Sequence[SentMove], flows: tuple[Flow, ...]) -> None:
        """Measure some flows; of a move alone, those of its like between any two stages as well.

        To start SimGrid takes longer than to play a few flows, and others will be asked for.
        """
        wanted = [flows]
        for move, sender in alone:
            stages = range(move.stages)
            wanted += [
                tuple(self.state.flows([SentMove(move._replace(receiver=to, of=of), sender)]))
                for to, of in product(stages, stages)
                if abs(to - of) <= _NEAR
            ]

        def believable(stored: dict[str, Any]) -> MovedFor:
            known = MovedFor(**stored)
            if len(known.durations_s) != len(wanted) or not min(known.durations_s) >= 0.0:
                raise ValueError("is none of these flows")
            return known

        def measure() -> MovedFor:
            return in_own_process(_time, self.platform, wanted)

        found = cached(self.platform, [_PLAY_VERSION, wanted], measure, believable)
        self._known.update(zip(wanted, found.durations_s, strict=True))


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


def _time(platform: Path, wanted: Sequence[Sequence[Flow]]) -> MovedFor:
    import simgrid
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.loading import actor_on, load_engine, run_to_the_end
    from faultline.simulator.simgrid_engine.storage_traffic import transfer

    engine = load_engine(platform)
    durations_s = []

    def play() -> None:
        for flows in wanted:
            start_s = simgrid.Engine.clock
            transfer(flows)
            durations_s.append(simgrid.Engine.clock - start_s)

    actor_on(CONTROLLER_HOST, "moves", play)
    run_to_the_end(engine)
    return MovedFor(durations_s)
