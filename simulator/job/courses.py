"""Courses: consecutive parts of training during which state is copied.

SimGrid simulates a course from the start of its first copy. Replay takes from it the ends of parts
and copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from faultline.simulator.job.conditions import UNDISTURBED, Slowdown
from faultline.strategies.interface.recovery import SentMove
from faultline.strategies.interface.step_shares import Pipeline


class Copy(NamedTuple):
    """A copy begins: the checkpoint that a group writes, or all snapshots to host memory (None).

    Groups that are `off` send and receive nothing.
    """

    writer: int | None
    off: tuple[int, ...]


class Alone(NamedTuple):
    """A part that shares no link with any copy and takes a stated time, in seconds."""

    duration_s: float


class Fails(NamedTuple):
    """The hosts of a group fail, `at_s` seconds after the course's start."""

    group: int
    at_s: float


class Returns(NamedTuple):
    """The hosts of some groups are turned on again."""

    groups: tuple[int, ...]


class Passes(NamedTuple):
    """All members do their forward and backward passes; these last at least `least_s` seconds.

    A member that loses a host stops where it depends on that host. A `patch` lists the only groups
    that compute, with their stacks. Each computation takes `factor` times as long as usual.
    """

    members: tuple[int, ...]
    stacks: int
    stack_size: int
    pipelines: tuple[Pipeline, ...]
    least_s: float
    parts_down: tuple[str, ...] = ()
    slow: Slowdown = UNDISTURBED
    patch: tuple[tuple[int, int], ...] | None = None
    factor: float = 1.0


class Exchange(NamedTuple):
    """All members exchange their gradients; a `repeated` exchange includes the hidden ones.

    It lasts at least `least_s` seconds. If a member fails, its rings stop, and the exchange ends
    after `broken_s` seconds.
    """

    members: tuple[int, ...]
    pipelines: tuple[Pipeline, ...]
    parts_down: tuple[str, ...] = ()
    slow: Slowdown = UNDISTURBED
    repeated: bool = False
    least_s: float = 0.0
    broken_s: float | None = None


class Written(NamedTuple):
    """All members wait for the checkpoint that a group writes to storage in a stated time."""

    writer: int
    stated_s: float


class Sent(NamedTuple):
    """All members wait for state that groups send; for at least `alone_s` if a transfer breaks."""

    moves: tuple[SentMove, ...]
    alone_s: float


Part = Copy | Alone | Fails | Returns | Passes | Exchange | Written | Sent


@dataclass(frozen=True, slots=True)
class Course:
    """When the parts of a course end, in seconds from its start."""

    ends_s: Sequence[float]  # The end of each part.
    # When each copy stops sending, in the order of their starts. After the last part nothing else
    # shares links with a copy.
    over_s: Sequence[float]
    arrived: Sequence[bool]  # Whether each copy is complete when it stops.


class Courses(Protocol):
    """Simulates the courses of a job."""

    @property
    def simulate_failures(self) -> bool:
        """Whether groups may fail during a course."""

    @property
    def most_parts(self) -> int:
        """Largest number of parts of a course; later parts use the rates of one step."""

    def of(self, parts: tuple[Part, ...]) -> Course:
        """Return the course that consists of some parts."""
