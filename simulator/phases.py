"""What a training job asks of the world, and what the world answers.

The training loop yields phases and is sent an `Outcome` for each; an engine plays them. A phase
says what is to be done by whom. How long it takes, and who fails meanwhile, is the engine's part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Compute:
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
    """

    members: tuple[int, ...]
    stacks: int
    stack_size: int = 1
    patch: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Members reduce their gradients; fails if one of them is missing."""

    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """The controller decides and the communicator shrinks: `dropped` groups leave it."""

    members: tuple[int, ...]
    dropped: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Save:
    """One member writes a checkpoint; the others wait, or go on where `waits` is false."""

    members: tuple[int, ...]
    writer: int
    waits: bool


@dataclass(frozen=True, slots=True)
class Restart:
    """All groups are brought back up."""

    groups: int


@dataclass(frozen=True, slots=True)
class Load:
    """All groups load the last checkpoint."""

    groups: int


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Groups that were dropped come back and are sent the state, while the members wait."""

    groups: tuple[int, ...]


Phase = Compute | AllReduce | Reconfigure | Save | Restart | Load | Rejoin


@dataclass(slots=True)
class Outcome:
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
    """

    now_s: float
    missing: tuple[int, ...] = ()
    failures: tuple[tuple[float, int], ...] = ()
