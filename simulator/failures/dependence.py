"""Dependent failures: bursts, nodes that fail more often, and repairs that miss the fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from faultline.simulator.failures.failure import OF_ONE_GPU, Failure, JobLayout
from faultline.simulator.random_streams import Purpose, stream
from numpy.typing import NDArray

ON_ONE_NODE = OF_ONE_GPU | {"host"}
"""Levels whose components are part of one node."""

_RECURS_AFTER_S = 660.0
"""Mean of the exponential time from a repair that missed the fault to the next failure: an
automatic restart every 11 minutes (Lablup, 504 B200)."""
_RECURS_AT_MOST = 6
"""Consecutive repairs that miss a fault, before all around it is replaced: 73 tries in 12 chains
(Lablup, 504 B200)."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """How failures that stop components depend on each other."""

    # Mean length of a burst, the first failure included; at least 1. The length is geometric, and
    # the component of each failure is drawn independently.
    correlated_excess: float = 1.0
    # Mean of the exponential time from the first failure of a burst to each other one, in seconds.
    excess_within_s: float = 600.0
    # Shape of the gamma-distributed factor, of mean 1, on each node's rate; None if all are
    # alike.
    lemon_shape: float | None = None
    # Failures of a node after which it is permanently replaced by one of the mean rate.
    evicted_after: int | None = None
    # Probability that a repair misses the fault, which then recurs.
    recurrence: float = 0.0

    def node_factors(self, nodes: int, seed: int) -> NDArray[np.float64] | None:
        """Return the factor on each node's rate; None if all are alike."""
        if self.lemon_shape is None:
            return None
        shape = self.lemon_shape
        return stream(seed, Purpose.LEMONS).gamma(shape, 1.0 / shape, nodes)


class DependentFailures:
    """Adds the dependence to failures of a run that were drawn independently.

    Parameters
    ----------
    dependence : Dependence
        How they depend on each other.
    layout : JobLayout
        Which GPUs share which components.
    factors : array of float, or None
        Factor on each node's rate with which the failures were drawn.
    seed : int
        Seed of the run.
    """

    def __init__(
        self,
        dependence: Dependence,
        layout: JobLayout,
        factors: NDArray[np.float64] | None,
        seed: int,
    ) -> None:
        self._dependence = dependence
        self._layout = layout
        self._factors = factors
        self._bursts = stream(seed, Purpose.BURSTS)
        self._repairs = stream(seed, Purpose.RECURRENCES)
        self._replacements = stream(seed, Purpose.LEMONS, 1)
        self._failed: dict[int, int] = {}
        self._replaced: set[int] = set()

    def followers(self, failures: Iterable[Failure]) -> list[Failure]:
        """Return the further failures of the bursts that some failures start, in no order."""
        dependence, layout, found = self._dependence, self._layout, []
        if dependence.correlated_excess <= 1.0:
            return []
        for failure in failures:
            for _ in range(self._bursts.geometric(1.0 / dependence.correlated_excess) - 1):
                after_s = float(self._bursts.exponential(dependence.excess_within_s))
                gpu = int(self._bursts.integers(layout.gpus))
                number = gpu // (layout.gpus_per_component(failure.level) or 1)
                groups = layout.groups_of(failure.level, number)
                found.append(
                    failure._replace(time_s=failure.time_s + after_s, number=number, groups=groups)
                )
        return found

    def as_they_come(self, failures: Sequence[Failure]) -> list[Failure]:
        """Return the failures that happen, in the order of time, with their recurrences."""
        dependence = self._dependence
        happening = failures
        if self._factors is not None and dependence.evicted_after is not None:
            happening = [one for one in failures if self._happens(one, dependence.evicted_after)]
        if dependence.recurrence <= 0.0:
            return list(happening)
        return [self._recurring(failure) for failure in happening]

    def _happens(self, failure: Failure, most: int) -> bool:
        """Thin the failures of a node that has been replaced by one of the mean rate."""
        if failure.level not in ON_ONE_NODE:
            return True
        assert self._factors is not None
        layout = self._layout
        node = layout.gpus_of(failure.level, failure.number)[0] // layout.gpus_per_host
        if node in self._replaced and self._replacements.random() * self._factors[node] > 1.0:
            return False
        self._failed[node] = self._failed.get(node, 0) + 1
        if self._failed[node] >= most:
            self._replaced.add(node)
        return True

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
