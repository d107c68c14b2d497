"""What a recovery needs, in words of the job: no seconds, no bytes.

A scheme says which communicators are made anew, whose processes start, and what state moves from
whom to whom, in recoveries and between steps. What each of that takes is the scenario's to say, and
the platform's (`simulator.recovery_times`).
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
"""What a recovery is called, and by what name its time may be stated."""


class Move(NamedTuple):
    """State that some GPUs of a group fetch from another group that has it, too.

    Attributes
    ----------
    group : int
        Whose GPUs receive it.
    receiver : int
        Which of its stages receives.
    of : int
        The stage whose state it is: the same stage of another group sends it.
    stages : int
        Stages of a group; its GPUs are dealt out to them in order.
    share : float
        The part of that stage's state.
    """

    group: int
    receiver: int
    of: int
    stages: int
    share: float = 1.0


class SentMove(NamedTuple):
    """A move, and the group that sends it; None where only the storage has the state."""

    move: Move
    sender: int | None


class Mirror(NamedTuple):
    """State that members send to each other after every so many steps, all at once.

    All members wait until it has arrived.

    Attributes
    ----------
    moves : tuple of SentMove
        What moves to whom, each from another member.
    every_steps : int
        It is sent at the end of each step that completes a multiple of so many.
    """

    moves: tuple[SentMove, ...]
    every_steps: int = 1


@dataclass(frozen=True, slots=True)
class Communicators:
    """Communicators that are made anew, one after the other.

    Attributes
    ----------
    count : int
        How many.
    share : float
        The share of the job's GPUs that each connects.
    """

    count: int = 1
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """What the job needs before it goes on; all its groups wait meanwhile.

    Attributes
    ----------
    kind : str
        What it is called.
    communicators : tuple of Communicators
        Those that are made anew.
    starts_processes : bool
        Whether processes start, and warm up.
    replaces_hardware : bool
        Whether something else takes the place of what is broken.
    moves : tuple of Move
        State that moves, all at once.
    is_expected : bool
        Whether nobody has to detect what happened: what is repaired says so.
    lacks_standbys : bool
        Whether other hardware has to be found first, as there are fewer standbys than needed.
    """

    kind: RecoveryKind
    communicators: tuple[Communicators, ...] = (Communicators(),)
    starts_processes: bool = False
    replaces_hardware: bool = False
    moves: tuple[Move, ...] = ()
    is_expected: bool = False
    lacks_standbys: bool = False

    def without_standbys(self) -> Recovery:
        """Return what is needed where no standby is ready: processes start on what is found."""
        return replace(self, starts_processes=True, lacks_standbys=True)

    def along_with(self, other: Recovery | None) -> Recovery:
        """Return this one with what another at the same moment moves."""
        return self if other is None else replace(self, moves=self.moves + other.moves)


SHRINK = Recovery("shrink")
"""Groups leave, and the communicator of the others is made without them."""

RESTART = Recovery("restart", starts_processes=True, replaces_hardware=True)
"""Everything starts anew, on new hardware in the place of what is broken."""

RESTART_AS_IS = Recovery("restart", starts_processes=True)
"""Everything that is left starts anew."""


def rejoining(groups: Sequence[int]) -> Recovery:
    """Return what groups need that come back: all of their state, each from another group."""
    moves = tuple(Move(group, 0, 0, 1) for group in groups)
    return Recovery("rejoin", moves=moves, is_expected=True)
