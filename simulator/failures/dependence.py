"""Dependent failures: bursts, nodes that fail more often, and repairs that miss the fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from faultline.simulator.failures.failure import OF_ONE_GPU, Failure, JobLayout
from faultline.simulator.failures.random_streams import Purpose, stream
from numpy.typing import NDArray

ON_ONE_NODE = OF_ONE_GPU | {"host"}
"""Levels whose components are part of one node."""

_RECURS_AFTER_S = 660.0
"""Mean of the exponential time from a repair that missed the fault to the next failure: an
automatic restart every 11 minutes (Lablup, 504 B200)."""
_RECURS_AT_MOST = 6
"""Consecutive repairs that miss a fault, before all hardware around it is replaced: 73 tries in 12
chains (Lablup, 504 B200)."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """How failures that stop components depend on each other."""

    # Mean length of a burst, the first failure included; at least 1. The length is geometric, and
    # the component of each failure is drawn independently.
    correlated_excess: float = 1.0
    # Mean of the exponential time from the first failure of a burst to each other one, in seconds.
    excess_within_s: float = 600.0
    # Shape of the gamma-distributed factor, of mean 1, on each node's rate; None if all nodes are
    # alike.
    lemon_shape: float | None = None
    # Probability that a repair misses the fault, which then recurs.
    recurrence: float = 0.0

    def node_factors(self, nodes: int, seed: int) -> NDArray[np.float64] | None:
        """Return the factor on each node's rate; None if all are alike."""
        if self.lemon_shape is None:
            return None
        shape = self.lemon_shape
        return stream(seed, Purpose.LEMONS).gamma(shape, 1.0 / shape, nodes)


class DependentFailures:
    """Adds bursts and recurrences to failures that were drawn independently."""

    def __init__(self, dependence: Dependence, layout: JobLayout, seed: int) -> None:
        self._dependence = dependence
        self._layout = layout
        self._bursts = stream(seed, Purpose.BURSTS)
        self._repairs = stream(seed, Purpose.RECURRENCES)

    def followers(self, failures: Iterable[Failure]) -> list[Failure]:
        """Return the further failures of the bursts that some failures start, in no order."""
        dependence, layout, further = self._dependence, self._layout, []
        if dependence.correlated_excess <= 1.0:
            return []
        for failure in failures:
            for _ in range(self._bursts.geometric(1.0 / dependence.correlated_excess) - 1):
                after_s = float(self._bursts.exponential(dependence.excess_within_s))
                gpu = int(self._bursts.integers(layout.gpus))
                number = gpu // (layout.gpus_per_component(failure.level) or 1)
                groups = layout.groups_of(failure.level, number)
                further.append(
                    failure._replace(time_s=failure.time_s + after_s, number=number, groups=groups)
                )
        return further

    def with_recurrences(self, failures: Sequence[Failure]) -> list[Failure]:
        """Return failures, given in the order of time, with their recurrences."""
        if self._dependence.recurrence <= 0.0:
            return list(failures)
        return [self._recurring(failure) for failure in failures]

    def _recurring(self, failure: Failure) -> Failure:
        dependence, times = self._dependence, 0
        # A preempted machine is not repaired.
        if failure.kind == "preemption":
            return failure
        while times < _RECURS_AT_MOST and self._repairs.random() < dependence.recurrence:
            times += 1
        if not times:
            return failure
        delays_s = self._repairs.exponential(_RECURS_AFTER_S, times).tolist()
        return failure._replace(recurs_s=tuple(delays_s))
