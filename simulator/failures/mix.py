"""A mix of causes: each strikes components of its level at its own rate.

All components of a level are alike, so the failures of a cause are drawn for the whole job, and
then the component that each one hits. For a memoryless cause that is the same as a clock on every
component: superposed Poisson processes are one, whose points fall on each with its share of the
rate. It takes as many random streams as there are causes, whatever the number of GPUs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp

import numpy as np
from faultline.simulator.failures.distributions import Distribution, Exponential, Weibull
from faultline.simulator.failures.failure import Failure, JobLayout, Kind, Level
from faultline.simulator.random_streams import Purpose, stream

_BLOCK = 64


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of failures.

    Attributes
    ----------
    name : str
        Its name. It names the cause's random streams, too, which depend on no other cause.
    level : Level
        What kind of component it strikes.
    kind : Kind
        What kind of repair it calls for.
    rate_per_gpu_s : float
        Failures a second and GPU of the job, in 1/s.
    repair : Distribution or None
        Time until the component is as good as new; None where nobody says.
    shape : float or None
        Shape of a Weibull distribution of the time between two failures by this cause in the whole
        job; None for memoryless failures.
    """

    name: str
    level: Level
    kind: Kind
    rate_per_gpu_s: float
    repair: Distribution | None = None
    shape: float | None = None

    def time_between_failures(self, gpus: int) -> Distribution:
        """Return the distribution of the time between two of its failures in a job of `gpus`."""
        mean_s = 1.0 / (self.rate_per_gpu_s * gpus)
        return Exponential(mean_s) if self.shape is None else Weibull.from_mean(self.shape, mean_s)


@dataclass(frozen=True, slots=True)
class CauseMix:
    """Failures of a job by several causes, independent of each other.

    Attributes
    ----------
    mixed : tuple of Cause
        The causes, at least one.
    layout : JobLayout
        Which GPUs share which components.
    """

    mixed: tuple[Cause, ...]
    layout: JobLayout

    @property
    def groups(self) -> int:
        """Number of groups of the job."""
        return self.layout.groups

    @property
    def causes(self) -> tuple[str, ...]:
        """Names of all causes."""
        return tuple(cause.name for cause in self.mixed)

    @property
    def mtbf_s(self) -> float:
        """Mean time between two failures of the whole system, in seconds."""
        return 1.0 / (self.layout.gpus * sum(cause.rate_per_gpu_s for cause in self.mixed))

    def hardware_shares(self) -> dict[Level, float]:
        """Return the share of all failures that break hardware, by the level that they strike."""
        whole = sum(cause.rate_per_gpu_s for cause in self.mixed)
        shares: dict[Level, float] = {}
        for cause in self.mixed:
            if cause.kind == "hardware":
                share = cause.rate_per_gpu_s / whole
                shares[cause.level] = shares.get(cause.level, 0.0) + share
        return shares

    def survival(self, time_s: float) -> float:
        """Return the probability that the group hit most often has no failure for `time_s`.

        ``exp(-rate * time)`` of that group, as if all causes were memoryless.
        """
        by_level: dict[Level, float] = {}
        for cause in self.mixed:
            by_level[cause.level] = by_level.get(cause.level, 0.0) + cause.rate_per_gpu_s
        worst = max(
            sum(rate * self.layout.share_felt(level, group) for level, rate in by_level.items())
            for group in range(self.groups)
        )
        return exp(-worst * self.layout.gpus * time_s)

    def spared(self) -> frozenset[int]:
        """Return the groups that never fail: there are none."""
        return frozenset()

    def batches(self, seed: int) -> Iterator[list[Failure]]:
        """Yield the failures in the order of time, about as many at a time as there are groups.

        The sequence does not depend on how many are taken at a time.
        """
        streams = [_CauseStream(cause, self.layout, seed) for cause in self.mixed]
        until_s, ahead_s = 0.0, max(_BLOCK, self.groups) * self.mtbf_s
        while True:
            until_s += ahead_s
            batch = [failure for one in streams for failure in one.failures_until(until_s)]
            yield sorted(batch, key=lambda failure: failure.time_s)


class _CauseStream:
    """The failures of one cause, drawn a block at a time."""

    def __init__(self, cause: Cause, layout: JobLayout, seed: int) -> None:
        self._cause = cause
        self._layout = layout
        self._between = cause.time_between_failures(layout.gpus)
        index = stream_index(cause.name)
        self._times = stream(seed, Purpose.CAUSE_TIMES, index)
        self._places = stream(seed, Purpose.CAUSE_PLACES, index)
        self._repairs = stream(seed, Purpose.CAUSE_REPAIRS, index)
        self._last_s = 0.0
        self._drawn = self._failures()
        self._next = next(self._drawn)

    def failures_until(self, time_s: float) -> Iterator[Failure]:
        """Yield those up to `time_s`, in seconds, that have not been yielded yet."""
        while self._next.time_s <= time_s:
            yield self._next
            self._next = next(self._drawn)

    def _failures(self) -> Iterator[Failure]:
        cause, layout = self._cause, self._layout
        gpus_per_component = layout.gpus_per_component(cause.level)
        while True:
            intervals_s = self._between.sample(self._times, _BLOCK)
            times_s = (self._last_s + np.cumsum(intervals_s)).tolist()
            self._last_s = times_s[-1]
            # A GPU is drawn, not a component, so that one with fewer GPUs fails less often.
            gpus = self._places.integers(0, layout.gpus, _BLOCK).tolist()
            repairs_s = cause.repair.sample(self._repairs, _BLOCK) if cause.repair else None
            for place, (time_s, gpu) in enumerate(zip(times_s, gpus, strict=True)):
                index = gpu // gpus_per_component
                yield Failure(
                    time_s,
                    cause.level,
                    index,
                    cause.name,
                    cause.kind,
                    repairs_s[place] if repairs_s else None,
                    layout.groups_of(cause.level, index),
                )


def stream_index(name: str) -> int:
    """Return the number of a cause's random streams: 64 bits of a digest of its name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
