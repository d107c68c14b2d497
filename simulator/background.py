"""A snapshot on its way to storage while the job goes on: what they cost each other on links."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Sharing:
    """What a part of a step and a write cost each other, where they share bandwidth.

    Attributes
    ----------
    slowdown : float
        What that part takes while the write goes on, over what it takes alone.
    pace : float
        How fast the write goes meanwhile, over how fast it goes alone.
    """

    slowdown: float = 1.0
    pace: float = 1.0

    @classmethod
    def of(cls, alone_s: float, write_s: float, ended_s: float, written_s: float) -> Sharing:
        """Return what follows from both begun at once: whoever is left goes on alone.

        Parameters
        ----------
        alone_s, write_s : float
            What each takes alone, in seconds.
        ended_s, written_s : float
            When each has ended, in seconds from where both began.
        """
        if alone_s <= 0.0 or write_s <= 0.0:
            return cls()
        if written_s >= ended_s:
            slowdown, pace = ended_s / alone_s, 1.0 - (written_s - write_s) / ended_s
        else:
            slowdown, pace = 1.0 / (1.0 - (ended_s - alone_s) / written_s), write_s / written_s
        if max(slowdown - 1.0, 1.0 - pace) < _ROUNDING:
            return cls()
        return cls(max(1.0, slowdown), min(1.0, pace))


ALONE = Sharing()
ANOTHER_WRITE = Sharing(2.0, 0.5)
"""Two writes of the same hosts share all of their way."""


@dataclass(frozen=True, slots=True)
class WriteBesideSteps:
    """What a write takes that goes on beside steps.

    Attributes
    ----------
    alone_s : float
        With nothing beside it, in seconds.
    passes, sync : Sharing
        Beside the forward and backward passes, and beside the exchange of gradients.
    """

    alone_s: float
    passes: Sharing
    sync: Sharing

    @property
    def shares_links(self) -> bool:
        """Whether it meets anything of a step."""
        return (self.passes, self.sync) != (ALONE, ALONE)

    @property
    def slowdown(self) -> float:
        """What a step takes longer at most, as a factor."""
        return max(self.passes.slowdown, self.sync.slowdown)


@dataclass(eq=False, slots=True)
class Write:
    """A write under way; the engine that plays it says when it has ended.

    Attributes
    ----------
    writer : int
        The group whose hosts send.
    whole_s : float
        When all has arrived, in seconds; infinite before that, and where it broke off.
    is_over : bool
        Whether nothing is sent any more.
    """

    writer: int
    whole_s: float = inf
    is_over: bool = False

    def end(self, whole_s: float = inf) -> None:
        """Nothing is sent any more: all has arrived, or never will."""
        self.whole_s, self.is_over = whole_s, True


class WriteClock:
    """How far a write is whose engine knows rates.

    Parameters
    ----------
    write : Write
        The write.
    times : WriteBesideSteps
        What it takes.
    breaks_s : float
        When its writer fails, in seconds.
    """

    def __init__(self, write: Write, times: WriteBesideSteps, breaks_s: float) -> None:
        self.write, self.times = write, times
        self._left_s, self._breaks_s = times.alone_s, breaks_s

    def prolonged_s(self, duration_s: float, start_s: float, sharing: Sharing) -> float:
        """Return what takes so long alone, if it begins now; both in seconds."""
        beside_s = min(self._left_s / sharing.pace, self._breaks_s - start_s)
        longer_s = duration_s * sharing.slowdown
        if beside_s >= longer_s:
            return longer_s
        return beside_s + duration_s - beside_s / sharing.slowdown

    def advance(self, start_s: float, now_s: float, sharing: Sharing) -> None:
        """Let the write go on beside something."""
        ends_s = start_s + self._left_s / sharing.pace
        if min(ends_s, self._breaks_s) > now_s:
            self._left_s -= (now_s - start_s) * sharing.pace
        else:
            self.write.end(ends_s if ends_s <= self._breaks_s else inf)
