"""Snapshots on their way while the job goes on: what they and its steps cost each other on links.

Some go to storage, some to the memories of hosts. Where several are under way, each makes what it
meets slower by as much as it does alone, all added up: what flows do that share one link equally.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import inf
from typing import Literal

Part = Literal["passes", "sync", "save", "send"]
"""What a write may meet: the passes of a step, its exchange of gradients, another checkpoint, state
on its way between groups."""

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
    save : Sharing
        Beside a checkpoint that is written to storage; one whose time is stated meets nothing.
    send : Sharing
        Beside state that groups send to each other, which takes the links that checkpoints take.
    """

    alone_s: float
    passes: Sharing
    sync: Sharing
    save: Sharing = ANOTHER_WRITE
    send: Sharing = ANOTHER_WRITE

    @property
    def shares_links(self) -> bool:
        """Whether it meets anything of a step."""
        return (self.passes, self.sync) != (ALONE, ALONE)

    @property
    def slowdown(self) -> float:
        """What a step takes longer at most, as a factor."""
        return max(self.passes.slowdown, self.sync.slowdown)

    def beside(self, part: Part | None) -> Sharing:
        """Return what it and a part cost each other."""
        return ALONE if part is None else getattr(self, part)

    def fits_into(self, passes_s: float) -> bool:
        """Whether it meets nothing, and is over, in passes of so many seconds."""
        return self.passes == ALONE and self.alone_s <= passes_s

    def course(self, passes_s: float, sync_s: float) -> tuple[float, float]:
        """Return what steps take longer that it begins with, and when it is whole; in seconds."""
        left_s, now_s, longer_s = self.alone_s, 0.0, 0.0
        if passes_s + sync_s <= 0.0:
            return 0.0, left_s
        for part_s, sharing in cycle(((passes_s, self.passes), (sync_s, self.sync))):
            beside_s = part_s * sharing.slowdown
            if left_s <= beside_s * sharing.pace:
                whole_s = left_s / sharing.pace
                return longer_s + whole_s * (1.0 - 1.0 / sharing.slowdown), now_s + whole_s
            left_s -= beside_s * sharing.pace
            now_s += beside_s
            longer_s += beside_s - part_s
        raise AssertionError("steps never end")


@dataclass(eq=False, slots=True)
class Write:
    """A write under way; the engine that plays it says when it has ended.

    Attributes
    ----------
    times : WriteBesideSteps
        What it takes.
    writer : int or None
        The group whose hosts send to storage; None where all copy to the memories of hosts.
    whole_s : float
        When all has arrived, in seconds; infinite before that, and where it broke off.
    is_over : bool
        Whether nothing is sent any more.
    """

    times: WriteBesideSteps
    writer: int | None
    whole_s: float = inf
    is_over: bool = False

    def end(self, whole_s: float = inf) -> None:
        """Nothing is sent any more: all has arrived, or never will."""
        self.whole_s, self.is_over = whole_s, True


class WriteClock:
    """How far writes are whose engine knows rates."""

    def __init__(self) -> None:
        self.left_s: dict[Write, float] = {}
        self._breaks_s: dict[Write, float] = {}

    def begin(self, write: Write, breaks_s: float = inf) -> None:
        """Begin a write that breaks off when its writer fails, in seconds."""
        self.left_s[write] = write.times.alone_s
        self._breaks_s[write] = breaks_s

    def prolonged_s(self, duration_s: float, start_s: float, part: Part) -> float:
        """Return what takes so long alone, if it begins now; both in seconds."""
        left_s, beside_s, done_s = dict(self.left_s), 0.0, 0.0
        while left_s:
            slowdown, paces = _rates(list(left_s), part)
            lasts_s = self._one_lasts_s(left_s, paces, start_s + beside_s)
            if lasts_s >= (duration_s - done_s) * slowdown:
                return beside_s + (duration_s - done_s) * slowdown
            self._go_on(left_s, paces, start_s + beside_s, lasts_s)
            beside_s += lasts_s
            done_s += lasts_s / slowdown
        return beside_s + duration_s - done_s

    def advance(self, start_s: float, now_s: float, part: Part | None) -> None:
        """Let the writes go on beside something."""
        while self.left_s and start_s < now_s:
            _, paces = _rates(list(self.left_s), part)
            lasts_s = self._one_lasts_s(self.left_s, paces, start_s)
            whole = self._go_on(self.left_s, paces, start_s, min(lasts_s, now_s - start_s))
            start_s += min(lasts_s, now_s - start_s)
            for write, is_whole in whole.items():
                write.end(start_s if is_whole else inf)

    def end(self) -> None:
        """Break all of them off."""
        for write in self.left_s:
            write.end()
        self.left_s.clear()

    def _one_lasts_s(
        self, left_s: Mapping[Write, float], paces: Sequence[float], now_s: float
    ) -> float:
        """Return the seconds until the first of some writes ends."""
        return min(
            min(one_s / pace, self._breaks_s[write] - now_s)
            for (write, one_s), pace in zip(left_s.items(), paces, strict=True)
        )

    def _go_on(
        self, left_s: dict[Write, float], paces: Sequence[float], now_s: float, lasts_s: float
    ) -> dict[Write, bool]:
        """Let some writes go on; return those that end, and whether all of each has arrived."""
        ended = {}
        for (write, one_s), pace in zip(list(left_s.items()), paces, strict=True):
            breaks_s = self._breaks_s[write] - now_s
            if min(one_s / pace, breaks_s) <= lasts_s:
                ended[write] = one_s / pace <= breaks_s
                del left_s[write]
            else:
                left_s[write] = one_s - lasts_s * pace
        return ended


def _rates(writes: Sequence[Write], part: Part | None) -> tuple[float, list[float]]:
    """Return what a part takes beside some writes over what it takes alone, and the writes' paces.

    Of two writes one goes to storage; the other knows what they cost each other.
    """
    met = [write.times.beside(part) for write in writes]
    if len(met) == 1:
        return met[0].slowdown, [met[0].pace]
    inverse = [1.0 / sharing.pace for sharing in met]
    for here, one in enumerate(writes):
        for there, other in enumerate(writes):
            if one.writer is None and other.writer is not None:
                inverse[here] += 1.0 / one.times.save.pace - 1.0
                inverse[there] += one.times.save.slowdown - 1.0
    slowdown = 1.0 + sum(sharing.slowdown - 1.0 for sharing in met)
    return slowdown, [1.0 / each for each in inverse]
