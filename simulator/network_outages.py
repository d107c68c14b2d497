"""Switches that are down while there is a way around them: steps take longer until the repair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush, merge
from math import inf
from typing import NamedTuple

from faultline.simulator.failures.mix import Cause, stream_index
from faultline.simulator.random_streams import Purpose, stream


class NetworkOutage(NamedTuple):
    """A switch that is down from one moment to another, in seconds of simulated time."""

    begins_s: float
    ends_s: float
    switch: str


NetworkOutages = Callable[[], Iterator[NetworkOutage]]
"""Begins the outages of a run anew, in the order in which they begin, whatever the job does."""


class Detours:
    """Which switches a job does without, as time goes on.

    Parameters
    ----------
    outages : iterator of NetworkOutage
        In the order in which they begin.

    Attributes
    ----------
    without : tuple of str
        The switches that are down, each once.
    next_change_s : float
        When another goes down or one is repaired, in seconds; infinite where nothing will.
    """

    def __init__(self, outages: Iterator[NetworkOutage]) -> None:
        self._outages = outages
        self._next = next(outages, None)
        self._down: list[tuple[float, str]] = []
        self.without: tuple[str, ...] = ()
        self.next_change_s = self._next.begins_s if self._next else inf

    def advance(self, now_s: float) -> bool:
        """Take in what has happened by now; whether other switches are down than before."""
        while self._next and self._next.begins_s <= now_s:
            heappush(self._down, (self._next.ends_s, self._next.switch))
            self._next = next(self._outages, None)
        while self._down and self._down[0][0] <= now_s:
            heappop(self._down)
        self.next_change_s = min(
            self._next.begins_s if self._next else inf, self._down[0][0] if self._down else inf
        )
        before, self.without = self.without, tuple(sorted({switch for _, switch in self._down}))
        return self.without != before


def drawn_outages(
    causes: Sequence[Cause],
    gpus: int,
    switches: Sequence[str],
    repair_s: float,
    seed: int,
) -> Iterator[NetworkOutage]:
    """Yield the outages of switches, all equally likely, by several causes.

    Parameters
    ----------
    causes : sequence of Cause
        Why they fail, with the rates of all of these switches together.
    gpus : int
        GPUs of the job, by which rates are stated.
    switches : sequence of str
        Names of the switches.
    repair_s : float
        Seconds to repair one, where the cause does not say.
    seed : int
        Seed of the run.
    """
    return merge(*(_by_cause(cause, gpus, switches, repair_s, seed) for cause in causes))


def _by_cause(
    cause: Cause, gpus: int, switches: Sequence[str], repair_s: float, seed: int
) -> Iterator[NetworkOutage]:
    # Streams of their own: the failures that do take groups down stay what they are.
    index = stream_index(f"{cause.name}, with a way around")
    times, places, repairs = (
        stream(seed, purpose, index)
        for purpose in (Purpose.CAUSE_TIMES, Purpose.CAUSE_PLACES, Purpose.CAUSE_REPAIRS)
    )
    between, now_s = cause.time_between_failures(gpus), 0.0
    while True:
        now_s += between.sample(times, 1)[0]
        lasts_s = cause.repair.sample(repairs, 1)[0] if cause.repair else repair_s
        yield NetworkOutage(now_s, now_s + lasts_s, switches[int(places.integers(len(switches)))])


def shared_out(causes: Sequence[Cause], fatal: int, around: int) -> tuple[Cause, ...]:
    """Return causes at the rates of the switches that have a way around them.

    Counts of interruptions are of those that have none; each of the others fails as often. Where
    none is fatal, the others are struck in their place.
    """
    ratio = around / fatal if fatal else 1.0
    return tuple(replace(one, rate_per_gpu_s=ratio * one.rate_per_gpu_s) for one in causes)
