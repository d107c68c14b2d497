"""A mix of causes: each strikes components of its level at its own rate.

All components of a level are alike. So the failures of a cause are drawn for the whole job, and
then the component of each failure. For a memoryless cause this equals one clock per component: the
superposition of Poisson processes is a Poisson process, and each of its points belongs to a
component with the probability of that component's share of the rate. The number of random streams
depends on the number of causes, not of GPUs.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import merge
from math import exp
from operator import attrgetter

import numpy as np
from faultline.simulator.failures.dependence import ON_ONE_NODE, Dependence, DependentFailures
from faultline.simulator.failures.distributions import NEVER_S, Distribution, Exponential, Weibull
from faultline.simulator.failures.failure import STOPPING, Failure, JobLayout, Kind, Level
from faultline.simulator.failures.models import FailureSequence
from faultline.simulator.failures.random_streams import Purpose, stream
from faultline.simulator.failures.reactions import Reactions
from numpy.typing import NDArray

_BLOCK = 64


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of failures."""

    name: str  # Also names the cause's random streams, which depend on no other cause.
    level: Level  # What kind of component it strikes.
    kind: Kind  # The kind of failure.
    rate_per_gpu_s: float  # Failures per second and GPU of the job, in 1/s.
    # Time to repair the component; None if not stated.
    repair: Distribution | None = None
    # Shape of a Weibull distribution of the time between two failures by this cause in the whole
    # job; None for memoryless failures.
    shape: float | None = None
    # Duration of kinds that stop nothing (`Failure.lasts_s`).
    lasts: Distribution | None = None
    factors: tuple[float, float] = (1.0, 1.0)  # Bounds of the draw of `Failure.factor`.
    at_once: float = 1.0  # Mean of the geometric number of components struck together.

    def time_between_failures(self, gpus: int) -> Distribution:
        """Return the distribution of the time between two of its failures in a job of `gpus`."""
        mean_s = 1.0 / (self.rate_per_gpu_s * gpus)
        return Exponential(mean_s) if self.shape is None else Weibull.from_mean(self.shape, mean_s)


@dataclass(frozen=True)
class CauseMix(FailureSequence):
    """Failures of a job by several causes, independent of each other."""

    mixed: tuple[Cause, ...]  # The causes, at least one.
    layout: JobLayout  # Which GPUs share which components.
    # Which failures of kinds that stop nothing at first stop a component later.
    reactions: Reactions = field(default_factory=Reactions)
    # How failures that stop components depend on each other.
    dependence: Dependence = field(default_factory=Dependence)
    # Causes that strike only components without GPUs, such as redundant switches.
    harmless: tuple[Cause, ...] = ()

    def at_mtbf(self, mtbf_s: float) -> CauseMix:
        """Return the mix with all rates scaled, so that bursts begin `mtbf_s` seconds apart."""
        faster = 1.0 / (self.layout.gpus * self._stops_per_gpu_s) / mtbf_s
        mixed, harmless = (
            tuple(replace(one, rate_per_gpu_s=one.rate_per_gpu_s * faster) for one in causes)
            for causes in (self.mixed, self.harmless)
        )
        return replace(self, mixed=mixed, harmless=harmless)

    @property
    def groups_of_job(self) -> int:
        return self.layout.groups

    @property
    def causes(self) -> tuple[str, ...]:
        return tuple(cause.name for cause, _ in self._stopping)

    @property
    def disturbance_causes(self) -> tuple[str, ...]:
        return tuple(cause.name for cause in self.mixed if cause.kind not in STOPPING)

    @property
    def _stopping(self) -> tuple[tuple[Cause, float], ...]:
        """The causes that stop groups, with their rates per GPU, in 1/s."""
        share = self.reactions.stopping_share
        rates = [
            cause.rate_per_gpu_s * share(cause.level, cause.kind, cause.lasts, cause.factors[1])
            for cause in self.mixed
        ]
        return tuple((cause, rate) for cause, rate in zip(self.mixed, rates, strict=True) if rate)

    @property
    def _stops_per_gpu_s(self) -> float:
        """Failures per second and GPU that stop groups, without those that follow in a burst."""
        return sum(rate for _, rate in self._stopping)

    @property
    def mtbf_s(self) -> float:
        rate = self._stops_per_gpu_s * self.dependence.correlated_excess
        return 1.0 / (self.layout.gpus * rate) if rate else NEVER_S

    def hardware_shares(self) -> dict[Level, float]:
        """Return the share of all failures that break hardware, by the level that they strike."""
        total = self._stops_per_gpu_s
        shares: dict[Level, float] = {}
        for cause, rate in self._stopping:
            if cause.kind in ("hardware", "slow", "preemption"):
                shares[cause.level] = shares.get(cause.level, 0.0) + rate / total
        return shares

    def survival(self, time_s: float) -> float:
        """Return the probability that the group hit most often has no failure for `time_s`.

        ``exp(-rate * time)`` of that group, as if all causes were memoryless.
        """
        by_level: dict[Level, float] = {}
        for cause, rate in self._stopping:
            by_level[cause.level] = by_level.get(cause.level, 0.0) + rate * cause.at_once
        worst = max(
            sum(rate * self.layout.share_stopping(level, group) for level, rate in by_level.items())
            for group in range(self.layout.groups)
        )
        excess = self.dependence.correlated_excess
        return exp(-worst * excess * self.layout.gpus * time_s)

    def spared(self) -> frozenset[int]:
        return frozenset()

    def batches(self, seed: int) -> Iterator[list[Failure]]:
        """Yield the failures that stop groups, in batches of about one failure per group.

        They are in the order of time. The sequence does not depend on the size of a batch.
        """
        if not self._stopping:
            return
        factors = self.dependence.node_factors(self.layout.components("host"), seed)
        streams = [_CauseStream(cause, self.layout, seed, factors) for cause, _ in self._stopping]
        dependent = DependentFailures(self.dependence, self.layout, seed)
        until_s, batch_s = 0.0, max(_BLOCK, self.layout.groups) * self.mtbf_s
        pending: list[Failure] = []
        while True:
            until_s += batch_s
            drawn = (failure for each in streams for failure in each.until(until_s))
            stops = [
                stop for failure in drawn if (stop := self.reactions.stop(failure)) is not None
            ]
            # Sorted here, because the draws of bursts follow the order of time.
            stops.sort(key=_time_s)
            pending += stops
            pending += dependent.followers(stops)
            pending.sort(key=_time_s)
            end = bisect_right(pending, until_s, key=_time_s)
            batch, pending = pending[:end], pending[end:]
            yield dependent.with_recurrences(batch)

    def disturbances(self, seed: int) -> Iterator[Failure]:
        factors = self.dependence.node_factors(self.layout.components("host"), seed)
        causes = (cause for cause in self.mixed if cause.kind not in STOPPING)
        streams = [_CauseStream(cause, self.layout, seed, factors) for cause in causes]
        return merge(*(each.conditions(self.reactions) for each in streams), key=_time_s)


_time_s = attrgetter("time_s")


class _CauseStream:
    """The failures of one cause, drawn a block at a time."""

    def __init__(
        self, cause: Cause, layout: JobLayout, seed: int, factors: NDArray[np.float64] | None
    ) -> None:
        self._cause = cause
        self._layout = layout
        self._between = cause.time_between_failures(layout.gpus)
        index = stream_index(cause.name)
        self._times = stream(seed, Purpose.CAUSE_TIMES, index)
        self._places = stream(seed, Purpose.CAUSE_PLACES, index)
        self._repairs = stream(seed, Purpose.CAUSE_REPAIRS, index)
        if cause.lasts:
            self._lengths = stream(seed, Purpose.CAUSE_LENGTHS, index)
        if cause.factors[1] > 1.0:
            self._factors = stream(seed, Purpose.CAUSE_FACTORS, index)
        if cause.at_once > 1.0:
            self._sizes = stream(seed, Purpose.CAUSE_SIZES, index)
        self._summed_factors = None
        self._interval_factor = 1.0
        if factors is not None and cause.level in ON_ONE_NODE:
            self._summed_factors = np.cumsum(factors)
            self._interval_factor = len(factors) / float(self._summed_factors[-1])
        self._last_s = 0.0
        self._drawn = self._failures()
        self._next = next(self._drawn)

    def until(self, time_s: float) -> Iterator[Failure]:
        """Yield the next failures up to `time_s`, in seconds."""
        while self._next.time_s <= time_s:
            yield self._next
            self._next = next(self._drawn)

    def conditions(self, reactions: Reactions) -> Iterator[Failure]:
        """Yield the condition that each failure causes for the job."""
        while True:
            condition = reactions.condition(self._next)
            if condition is not None:
                yield condition
            self._next = next(self._drawn)

    def _failures(self) -> Iterator[Failure]:
        cause, layout = self._cause, self._layout
        while True:
            intervals_s = self._between.sample(self._times, _BLOCK)
            times_s = (self._last_s + self._interval_factor * np.cumsum(intervals_s)).tolist()
            self._last_s = times_s[-1]
            # A GPU is drawn, not a component: a component with fewer GPUs fails less often.
            gpus = self._places.integers(0, layout.gpus, _BLOCK).tolist()
            repairs_s = cause.repair.sample(self._repairs, _BLOCK) if cause.repair else None
            lengths_s = cause.lasts.sample(self._lengths, _BLOCK) if cause.lasts else None
            least, most = cause.factors
            factors = self._factors.uniform(least, most, _BLOCK).tolist() if most > 1.0 else None
            for place, (time_s, gpu) in enumerate(zip(times_s, gpus, strict=True)):
                for number in self._struck_numbers(gpu):
                    yield Failure(
                        time_s,
                        cause.level,
                        number,
                        cause.name,
                        cause.kind,
                        repairs_s[place] if repairs_s else None,
                        layout.groups_of(cause.level, number),
                        lengths_s[place] if lengths_s else 0.0,
                        factors[place] if factors else 1.0,
                    )

    def _struck_numbers(self, gpu: int) -> list[int]:
        """Return the numbers of the components struck at once; the first is that of `gpu`."""
        layout, size = self._layout, self._layout.gpus_per_component(self._cause.level) or 1
        if self._summed_factors is not None:
            # If nodes differ, a node is drawn by its share of the rate.
            place = self._places.random() * self._summed_factors[-1]
            node = int(self._summed_factors.searchsorted(place, side="right"))
            first = node * layout.gpus_per_host
            gpu = min(first + gpu % layout.gpus_per_host, layout.gpus - 1)
        numbers = [gpu // size]
        if self._cause.at_once > 1.0:
            wanted = self._sizes.geometric(1.0 / self._cause.at_once)
            wanted = min(wanted, layout.components(self._cause.level))
            while len(numbers) < wanted:
                number = int(self._sizes.integers(layout.gpus)) // size
                if number not in numbers:
                    numbers.append(number)
        return numbers


def stream_index(name: str) -> int:
    """Return the number of a cause's random streams: 64 bits of a digest of its name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
