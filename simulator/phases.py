"""What a training job asks of the world, and what the world answers.

The training loop yields phases and is sent an `Outcome` for each; an engine plays them. A phase
says what is to be done by whom. How long it takes, and who fails meanwhile, is the engine's part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from faultline.simulator.background import Write
from faultline.simulator.conditions import UNDISTURBED, Slowdown
from faultline.simulator.failures.failure import Failure
from faultline.strategies.recovery import RESTART, SHRINK, Recovery, SentMove
from faultline.strategies.step_shares import Pipeline


class Compute(NamedTuple):
    """Groups compute shard types, each at its own pace; the phase ends with the last of them.

    Attributes
    ----------
    members : tuple of int
        Groups that will take part in the following all-reduce.
    stacks : int
        Stacks that each member computes, where `patch` is None.
    stack_size : int
        Shard types of a stack, computed in one go at one pace.
    patch : mapping of int to int, or None
        Stacks by group where only some of the members have to compute.
    pace : float
        Factor on all compute times.
    without : tuple of str
        Parts of the network that are down, around which there is a way.
    slow : Slowdown
        What else slows them.
    pipelines : tuple of Pipeline
        Those of members that are not as in an undisturbed step.
    least_pace : float
        The phase waits until this pace where all members have computed; `pace` includes it.
    factor : float
        How many times as long each computation takes of a step that is simulated by its messages;
        `pace` includes it.
    """

    members: tuple[int, ...]
    stacks: int
    stack_size: int = 1
    patch: Mapping[int, int] | None = None
    pace: float = 1.0
    without: tuple[str, ...] = ()
    slow: Slowdown = UNDISTURBED
    pipelines: tuple[Pipeline, ...] = ()
    least_pace: float = 0.0
    factor: float = 1.0


class Saves(NamedTuple):
    """Checkpoints between quiet steps, for which all members wait.

    Attributes
    ----------
    writer : int
        Who writes them.
    every : int
        Steps between two of them.
    before : int
        The last of them is written before so many steps, counted from the first quiet one.
    """

    writer: int
    every: int
    before: int


class Snapshots(NamedTuple):
    """Ends of quiet steps at which snapshots are due that cost the job no time.

    Attributes
    ----------
    first : int
        Quiet steps until the first of them.
    every : int
        Steps between two of them.
    """

    first: int
    every: int


class QuietSteps(NamedTuple):
    """Steps in a row in which nothing happens, as many as there are; may be none.

    The engine ends before the first step into which a failure may fall, and need not find any
    quiet at all: a step that it leaves is played by its phases. Where it plays checkpoints on the
    way, it ends with one.

    Attributes
    ----------
    compute : Compute
        What each of the steps computes.
    all_reduce : AllReduce
        What ends each of them.
    at_most : int
        Steps until the job has something else to do.
    until_s : float
        No step begins at that simulated time or later, in seconds.
    saves : Saves or None
        The checkpoints that come after `at_most` steps, if nothing else does.
    snapshots : Snapshots or None
        Steps whose ends the job wants to know.
    """

    compute: Compute
    all_reduce: AllReduce
    at_most: int
    until_s: float
    saves: Saves | None = None
    snapshots: Snapshots | None = None


class Inquiry(NamedTuple):
    """What has struck each of these groups by now? Takes no time; others are left out."""

    groups: tuple[int, ...]


class AllReduce(NamedTuple):
    """Members reduce their gradients, over what the network has; fails if a member is missing.

    Of one that is `repeated`, no gradients hide behind passes: it exchanges all of them. Else it
    follows as many `stacks`, of `stack_size` shard types each, of which the last hides some.
    """

    members: tuple[int, ...]
    without: tuple[str, ...] = ()
    slow: Slowdown = UNDISTURBED
    pipelines: tuple[Pipeline, ...] = ()
    repeated: bool = False
    stacks: int = 1
    stack_size: int = 1


class Reconfigure(NamedTuple):
    """The job recovers from failures without a restart: `dropped` groups leave it.

    Attributes
    ----------
    members : tuple of int
        Groups that are left in it.
    dropped : tuple of int
        Groups that leave.
    carried_on : tuple of int
        Members that were missing, and are up again with what is left of them.
    recovery : Recovery or None
        What that needs.
    asks : bool
        Whether the job wants to know what has failed.
    """

    members: tuple[int, ...]
    dropped: tuple[int, ...] = ()
    carried_on: tuple[int, ...] = ()
    recovery: Recovery | None = SHRINK
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Save:
    """One member writes a checkpoint; the others wait, or go on where `waits` is false."""

    members: tuple[int, ...]
    writer: int
    waits: bool


@dataclass(frozen=True, slots=True)
class Background:
    """A group begins to write a snapshot to storage; takes no time, the job goes on beside it."""

    write: Write


@dataclass(frozen=True, slots=True)
class Stall:
    """All members wait for a stated time, in seconds: a snapshot is being taken."""

    members: tuple[int, ...]
    duration_s: float


@dataclass(frozen=True, slots=True)
class Send:
    """State moves between members, who all wait for it.

    Where one that sends or receives fails, nobody knows it before all should be there; the next
    all-reduce lacks that one.
    """

    moves: tuple[SentMove, ...]


@dataclass(frozen=True, slots=True)
class Restart:
    """All groups are brought back up, but for those that stay away.

    Attributes
    ----------
    groups : int
        Number of groups.
    absent : tuple of int
        Groups that stay away.
    asks : bool
        Whether the job wants to know what has failed.
    recovery : Recovery
        What that needs.
    """

    groups: int
    absent: tuple[int, ...] = ()
    asks: bool = False
    recovery: Recovery = RESTART


@dataclass(frozen=True, slots=True)
class Load:
    """Members load the state.

    One that goes down meanwhile breaks the load. This shows when it should be over, and those who
    are left load anew.

    Attributes
    ----------
    members : tuple of int
        Groups that load; those that are down by now are left out.
    duration_s : float or None
        Seconds that it takes from memory; None for the last checkpoint on storage.
    """

    members: tuple[int, ...]
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Groups that were dropped come back and are sent the state, while the members wait."""

    groups: tuple[int, ...]
    members: tuple[int, ...]
    recovery: Recovery


Phase = (
    Compute
    | AllReduce
    | QuietSteps
    | Inquiry
    | Reconfigure
    | Save
    | Background
    | Stall
    | Send
    | Restart
    | Load
    | Rejoin
)


class Outcome(NamedTuple):
    """What came of a phase.

    Attributes
    ----------
    now_s : float
        Simulated time at the end of the phase, in seconds.
    missing : tuple of int
        AllReduce: members that turned out to be down, in ascending order. Save: the writer, if it
        was down and nothing was written.
    failures : tuple of (float, int)
        Restart: time and group of the failures that happened during it.
    struck : sequence of Failure
        Inquiry: the failure of each group. Reconfigure, Restart: the failures since the last time
        one of them, in no order, where the job asks. Those of groups that were down already are
        left out.
    phases : tuple of (str, float)
        Reconfigure, Rejoin, Restart: name and seconds of the recovery's phases that have a price.
    steps : int
        QuietSteps: how many were played.
    all_reduce_s, save_s : float
        QuietSteps: the seconds of all their all-reduces, and of their checkpoints.
    saves : int
        QuietSteps: how many checkpoints were written, the last of them at the end.
    ends_s : sequence of float
        QuietSteps: the ends of those that `Snapshots` names, in seconds of simulated time.
    disturbed_s : float
        Compute, AllReduce: what a write beside it made it take longer, in seconds.
    """

    now_s: float
    missing: tuple[int, ...] = ()
    failures: tuple[tuple[float, int], ...] = ()
    struck: Sequence[Failure] = ()
    phases: tuple[tuple[str, float], ...] = ()
    steps: int = 0
    all_reduce_s: float = 0.0
    saves: int = 0
    save_s: float = 0.0
    ends_s: Sequence[float] = ()
    disturbed_s: float = 0.0
