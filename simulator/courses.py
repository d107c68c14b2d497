"""Courses: parts of training, one after the other, while state is copied beside them.

SimGrid simulates a course from the beginning of its first copy. Replay follows it: each part and
each copy ends when it ends there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from faultline.simulator.conditions import UNDISTURBED, Slowdown
from faultline.strategies.recovery import SentMove
from faultline.strategies.step_shares import Pipeline


class Copy(NamedTuple):
    """A copy begins: the checkpoint of a group, or all snapshots to host memory (None).

    Groups that are `off` send and receive nothing.
    """

    writer: int | None
    off: tuple[int, ...]


class Alone(NamedTuple):
    """Something that shares no link with any copy, and takes so many seconds."""

    duration_s: float


class Fails(NamedTuple):
    """The hosts of a group go off, so many seconds after the course's beginning."""

    group: int
    at_s: float


class Returns(NamedTuple):
    """The hosts of some groups are on again."""

    groups: tuple[int, ...]


class Passes(NamedTuple):
    """All members do their forward and backward passes, and last at least so many seconds.

    Those that lose a host go as far as they come. With a `patch` only some groups compute, so many
    stacks each. Each computation takes `factor` times as long as usual.
    """

    members: tuple[int, ...]
    stacks: int
    stack_size: int
    pipelines: tuple[Pipeline, ...]
    least_s: float
    without: tuple[str, ...] = ()
    slow: Slowdown = UNDISTURBED
    patch: tuple[tuple[int, int], ...] | None = None
    factor: float = 1.0


class Exchange(NamedTuple):
    """All members exchange their gradients; where that is `repeated`, those that hide too.

    It lasts at least so many seconds. Where a member fails, its rings stop, and all end after
    `broken_s` seconds.
    """

    members: tuple[int, ...]
    pipelines: tuple[Pipeline, ...]
    without: tuple[str, ...] = ()
    slow: Slowdown = UNDISTURBED
    repeated: bool = False
    least_s: float = 0.0
    broken_s: float | None = None


class Written(NamedTuple):
    """All wait for a checkpoint that a group writes to storage; with its time, where stated."""

    writer: int
    stated_s: float


class Sent(NamedTuple):
    """All wait for state that groups send to each other; for `alone_s` at least if that breaks."""

    moves: tuple[SentMove, ...]
    alone_s: float


Part = Copy | Alone | Fails | Returns | Passes | Exchange | Written | Sent


@dataclass(frozen=True, slots=True)
class Course:
    """When the parts of a course end, in seconds from its beginning.

    Attributes
    ----------
    ends_s : sequence of float
        The end of each part.
    over_s : sequence of float
        When nothing of each copy is sent any more, in the order in which they began. Nothing goes
        on beside those that last longer than the last part.
    arrived : sequence of bool
        Whether all of each copy has arrived by then.
    """

    ends_s: Sequence[float]
    over_s: Sequence[float]
    arrived: Sequence[bool]


class Courses(Protocol):
    """Knows the courses of a job."""

    @property
    def play_failures(self) -> bool:
        """Whether groups may fail in them."""

    @property
    def most_parts(self) -> int:
        """Parts of a course at most; later ones meet a copy at the rates of one step."""

    def of(self, parts: tuple[Part, ...]) -> Course:
        """Return a course that begins with some parts."""
