"""The actions of a recovery, without times and sizes.

A scheme states which communicators are rebuilt, whether processes start, and which state moves
between groups, in recoveries and between steps. The scenario and the platform determine the time of
each action (`simulator.job.recovery_times`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

RecoveryKind = Literal[
    "shrink",
    "take-over",
    "hand-back",
    "re-form",
    "local-rendezvous",
    "migrate",
    "rejoin",
    "restart",
]
"""Kinds of recovery; a scenario may state the time of each by this name."""


class Move(NamedTuple):
    """State that some GPUs of a group fetch from another group that has a copy.

    Attributes
    ----------
    group : int
        The receiving group.
    receiver : int
        Its receiving stage.
    of : int
        The stage whose state it is: the same stage of another group sends it.
    stages : int
        Stages of a group; its GPUs are assigned to them in order.
    share : float
        The fraction of that stage's state.
    """

    group: int
    receiver: int
    of: int
    stages: int
    share: float = 1.0


class SentMove(NamedTuple):
    """A move, and the group that sends it; None if only the storage has the state."""

    move: Move
    sender: int | None


class Mirror(NamedTuple):
    """State that members send to each other every `every_steps` steps, all at once.

    All members wait until it has arrived.

    Attributes
    ----------
    moves : tuple of SentMove
        The moves, each from another member.
    every_steps : int
        They happen at the end of each step whose number is a multiple of this.
    """

    moves: tuple[SentMove, ...]
    every_steps: int = 1


@dataclass(frozen=True, slots=True)
class Communicators:
    """Communicators that are rebuilt, one after the other.

    Attributes
    ----------
    count : int
        Their number.
    share : float
        Share of the job's GPUs that each connects.
    """

    count: int = 1
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """The actions before the job continues; all its groups wait meanwhile.

    Attributes
    ----------
    kind : str
        Its name.
    communicators : tuple of Communicators
        Communicators that are rebuilt.
    starts_processes : bool
        Whether processes start and warm up.
    replaces_hardware : bool
        Whether broken hardware is replaced.
    moves : tuple of Move
        State that moves, all at once.
    is_expected : bool
        Whether it needs no detection, because repaired hardware announces itself.
    lacks_standbys : bool
        Whether there are too few standbys, so that other hardware has to be found first.
    """

    kind: RecoveryKind
    communicators: tuple[Communicators, ...] = (Communicators(),)
    starts_processes: bool = False
    replaces_hardware: bool = False
    moves: tuple[Move, ...] = ()
    is_expected: bool = False
    lacks_standbys: bool = False

    def without_standbys(self) -> Recovery:
        """Return the recovery without a ready standby: processes start on other hardware."""
        return replace(self, starts_processes=True, lacks_standbys=True)

    def along_with(self, other: Recovery | None) -> Recovery:
        """Return this recovery with the moves of another at the same moment."""
        return self if other is None else replace(self, moves=self.moves + other.moves)


SHRINK = Recovery("shrink")
"""Groups leave, and the others rebuild the communicator without them."""

RESTART = Recovery("restart", starts_processes=True, replaces_hardware=True)
"""The whole job starts again; new hardware replaces what is broken."""

RESTART_AS_IS = Recovery("restart", starts_processes=True)
"""The job starts again on the hardware that is left."""


def rejoining(groups: Sequence[int]) -> Recovery:
    """Return the recovery of returning groups: each fetches all state from another group."""
    moves = tuple(Move(group, 0, 0, 1) for group in groups)
    return Recovery("rejoin", moves=moves, is_expected=True)
