"""Snapshots in flight while the job goes on: they and the steps slow each other on shared links.

Snapshots go to storage or to host memories. The slowdowns by several snapshots add up, as for flows
that share one link equally.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from math import inf
from typing import Literal

from faultline.simulator.pattern.plan_shares import StepShares

Meets = Literal["passes", "sync", "save", "send"]
"""Traffic that a write may share links with: the passes of a step, its exchange of gradients,
another checkpoint, or state that groups send to each other."""

_ROUNDING = 1e-9
_LEAST_LOSS = 1e-3
"""Least share of the rate of a write that counts as lost: it is observed at intervals."""
_LEAST_SHARE = 1e-3
"""Least rate of a part and of a write, over its rate alone."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a part of a step and a write slow each other when they share bandwidth."""

    slowdown: float = 1.0  # Time of the part while the write goes on, over its time alone.
    pace: float = 1.0  # Rate of the write meanwhile, over its rate alone.

    @classmethod
    def of(cls, met_s: float, longer_s: float, sent_s: float) -> Sharing:
        """Return the mean sharing of a part and a write that met for `met_s` seconds.

        The part then lasted `longer_s` seconds longer than alone, and the write sent what it sends
        alone in `sent_s` seconds. So both lose as much time at these rates as they did.
        """
        if met_s <= 0.0 or (longer_s <= _ROUNDING * met_s and met_s - sent_s < _LEAST_LOSS * met_s):
            return cls()
        slowdown = met_s / max(met_s - longer_s, _LEAST_SHARE * met_s)
        return cls(max(1.0, slowdown), min(1.0, max(_LEAST_SHARE, sent_s / met_s)))


ALONE = Sharing()
ANOTHER_WRITE = Sharing(2.0, 0.5)
"""Two writes of the same hosts share all of their links."""


@dataclass(frozen=True, slots=True)
class WriteBesideSteps:
    """How long a write takes while steps go on."""

    alone_s: float  # Time without other traffic, in seconds.
    # Sharing with the forward and backward passes, and with the exchange of gradients.
    passes: Sharing
    sync: Sharing
    # Sharing with a checkpoint that is written to storage; one of stated time shares no link.
    save: Sharing = ANOTHER_WRITE
    # Sharing with state that groups send to each other.
    send: Sharing = ANOTHER_WRITE
    # Returns the times of a group's write beside a step with other shares; None if these do not
    # matter. It may be slow.
    in_step: Callable[[StepShares, int | None], WriteBesideSteps] | None = field(
        default=None, compare=False, repr=False
    )

    @property
    def shares_links(self) -> bool:
        """Whether it shares a link with any part of a step."""
        return (self.passes, self.sync) != (ALONE, ALONE)

    @property
    def slowdown(self) -> float:
        """Largest factor by which a step takes longer."""
        return max(self.passes.slowdown, self.sync.slowdown)

    def of(self, shares: StepShares, writer: int | None) -> WriteBesideSteps:
        """Return the times of a group's write beside a step with some shares."""
        if self.in_step is None:
            return self
        return replace(self.in_step(shares, writer), in_step=self.in_step)

    def beside(self, meets: Meets | None) -> Sharing:
        """Return how the write and a part slow each other."""
        return ALONE if meets is None else getattr(self, meets)

    def fits_into(self, passes_s: float) -> bool:
        """Whether it shares no link with passes of `passes_s` seconds and ends within them."""
        return self.passes == ALONE and self.alone_s <= passes_s

    def course(self, passes_s: float, sync_s: float) -> tuple[float, float]:
        """Return the seconds that it adds to the steps from its start on, and when it ends."""
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
    """A write in flight; the engine that executes it sets its end."""

    times: WriteBesideSteps  # How long it takes.
    # The group whose hosts send to storage; None if all groups copy to host memories.
    writer: int | None
    # When it is complete, in seconds; infinite before that, and if it was aborted.
    whole_s: float = inf
    is_over: bool = False  # Whether it has stopped sending.

    def beside(self, meets: Meets | None, shares: StepShares | None) -> Sharing:
        """Return how the write and a part of a step with some shares slow each other."""
        times = self.times if shares is None else self.times.of(shares, self.writer)
        return times.beside(meets)

    def end(self, whole_s: float = inf) -> None:
        """Stop sending: the write is complete at `whole_s`, or aborted."""
        self.whole_s, self.is_over = whole_s, True


class WriteClock:
    """Progress of the writes in flight, by the rates at which a write and a part of a step share.

    Attributes
    ----------
    left_s : dict of Write to float
        The writes in flight, with the seconds that each still needs alone.
    """

    def __init__(self) -> None:
        self.left_s: dict[Write, float] = {}
        self._breaks_s: dict[Write, float] = {}

    def begin(self, write: Write, breaks_s: float = inf) -> None:
        """Begin a write that loses one of its hosts at `breaks_s` seconds.

        A write to storage then stops sending. The other groups' copies to host memories go on, but
        their snapshot is incomplete.
        """
        self.left_s[write] = write.times.alone_s
        self._breaks_s[write] = breaks_s

    def prolonged_s(
        self, duration_s: float, start_s: float, meets: Meets, shares: StepShares | None = None
    ) -> float:
        """Return how long a part takes during writes, given its `duration_s` alone; in seconds.

        It is a part of a step with some `shares`, or none of a step.
        """
        left_s, beside_s, done_s = dict(self.left_s), 0.0, 0.0
        while left_s:
            slowdown, paces = _rates(list(left_s), meets, shares)
            lasts_s = self._first_end_s(left_s, paces, start_s + beside_s)
            if lasts_s >= (duration_s - done_s) * slowdown:
                return beside_s + (duration_s - done_s) * slowdown
            self._go_on(left_s, paces, start_s + beside_s, lasts_s)
            beside_s += lasts_s
            done_s += lasts_s / slowdown
        return beside_s + duration_s - done_s

    def advance(
        self,
        start_s: float,
        now_s: float,
        meets: Meets | None,
        shares: StepShares | None = None,
    ) -> None:
        """Advance the writes to `now_s`, through a part that began at `start_s`; in seconds."""
        while self.left_s and start_s < now_s:
            _, paces = _rates(list(self.left_s), meets, shares)
            lasts_s = min(self._first_end_s(self.left_s, paces, start_s), now_s - start_s)
            ended = self._go_on(self.left_s, paces, start_s, lasts_s)
            start_s += lasts_s
            for write, is_whole in ended.items():
                write.end(start_s if is_whole else inf)

    def end(self) -> None:
        """Abort all writes."""
        for write in self.left_s:
            write.end()
        self.left_s.clear()

    def _stops_s(self, write: Write) -> float:
        """Return when a write stops although it is not complete, in seconds."""
        return inf if write.writer is None else self._breaks_s[write]

    def _first_end_s(
        self, left_s: Mapping[Write, float], paces: Sequence[float], now_s: float
    ) -> float:
        """Return the seconds until the first write ends."""
        return min(
            min(write_s / pace, self._stops_s(write) - now_s)
            for (write, write_s), pace in zip(left_s.items(), paces, strict=True)
        )

    def _go_on(
        self, left_s: dict[Write, float], paces: Sequence[float], now_s: float, lasts_s: float
    ) -> dict[Write, bool]:
        """Advance writes; return those that end, and whether each is complete."""
        ended = {}
        for (write, write_s), pace in zip(list(left_s.items()), paces, strict=True):
            if min(write_s / pace, self._stops_s(write) - now_s) <= lasts_s:
                ended[write] = write_s / pace <= self._breaks_s[write] - now_s
                del left_s[write]
            else:
                left_s[write] = write_s - lasts_s * pace
        return ended


def _rates(
    writes: Sequence[Write], meets: Meets | None, shares: StepShares | None
) -> tuple[float, list[float]]:
    """Return a part's time during writes over its time alone, and the writes' paces.

    A write to host memories and one to storage slow each other by the `save` of the first.
    """
    sharings = [write.beside(meets, shares) for write in writes]
    if len(sharings) == 1:
        return sharings[0].slowdown, [sharings[0].pace]
    inverse = [1.0 / sharing.pace for sharing in sharings]
    for copying, copy in enumerate(writes):
        for saving, save in enumerate(writes):
            if copy.writer is None and save.writer is not None:
                inverse[copying] += 1.0 / copy.times.save.pace - 1.0
                inverse[saving] += copy.times.save.slowdown - 1.0
    slowdown = 1.0 + sum(sharing.slowdown - 1.0 for sharing in sharings)
    return slowdown, [1.0 / each for each in inverse]
