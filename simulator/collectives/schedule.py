"""A collective algorithm: for each member, stages of rounds of messages.

A schedule has no clock and no SimGrid: it lists sender, receiver, pieces and order of messages.
This is enough to check an algorithm with real numbers, to simulate it as messages
(`simulator.collectives.runner`), and to count the bytes on each link.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Message(NamedTuple):
    """Consecutive pieces of the buffer, to or from a peer.

    Attributes
    ----------
    peer : int
        Position of the other end.
    first_piece, pieces : int
        The first piece, and the number of pieces.
    adds : bool
        Whether the receiver adds them to its own pieces, or replaces these.
    """

    peer: int
    first_piece: int
    pieces: int
    adds: bool = False


class Round(NamedTuple):
    """Messages of a member at the same time; the next round waits for all of them."""

    sends: tuple[Message, ...]
    receives: tuple[Message, ...]


class Share(NamedTuple):
    """All pieces that cross one edge of the algorithm in the rounds of a stage.

    Attributes
    ----------
    peer : int
        Position of the other end.
    pieces : float
        Number of pieces.
    """

    peer: int
    pieces: float


class Circle(NamedTuple):
    """Members that finish a stage only together: a name, and their number."""

    name: str
    members: int


class Hop(NamedTuple):
    """An edge of an algorithm on an idle fabric: latency in s, bandwidth in bytes/s."""

    latency_s: float
    bandwidth_bytes_per_s: float

    def seconds(self, size_bytes: float) -> float:
        """Return alpha + size * beta: the time of one message, in seconds."""
        return self.latency_s + size_bytes / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True)
class ScheduleStage:
    """Rounds of one member over the same edges. All members of a schedule have the same stages.

    Attributes
    ----------
    rounds : callable
        Returns the rounds.
    sends, receives : tuple of Share
        The messages of all rounds as one flow per edge.
    latency_steps : int
        Number of latencies in the rounds, less the one of its flow.
    circle : Circle, optional
        Members whose flows must all end before any of them finishes the stage. None for a single
        round: its flow is the message, which waits for no other.
    """

    rounds: Callable[[], Iterable[Round]]
    sends: tuple[Share, ...]
    receives: tuple[Share, ...]
    latency_steps: int = 0
    circle: Circle | None = None


@dataclass(frozen=True, slots=True)
class Schedule(ABC):
    """A collective by one algorithm, for `members` members and a buffer of `size_bytes` bytes.

    As in nccl-tests, this is the larger of a member's two buffers: an all-gather of n members makes
    `size_bytes` out of n parts, and a reduce-scatter leaves 1/n of it.
    """

    members: int
    size_bytes: float

    @property
    @abstractmethod
    def piece_count(self) -> int:
        """Number of equal pieces of the buffer."""

    @property
    def piece_bytes(self) -> float:
        """Bytes of a piece."""
        return self.size_bytes / self.piece_count

    @abstractmethod
    def stages(self, position: int) -> Iterator[ScheduleStage]:
        """Yield the stages of the member at `position`; none if it is alone."""

    @abstractmethod
    def alpha_beta_s(self, hop: Hop) -> float:
        """Return the seconds on an uncontended fabric, all of whose edges are `hop`."""
