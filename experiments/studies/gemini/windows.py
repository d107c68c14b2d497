"""Windows of time cut out of failures that the simulator draws."""

from __future__ import annotations

import numpy as np
from faultline.experiments.studies.gemini.failure_sets import LossSets
from faultline.simulator.failures.mix import CauseMix

_SECONDS_PER_HOUR = 3600.0


class DrawnLosses:
    """Hosts that lost their memory, by time, over one long course of failures of a mix.

    Parameters
    ----------
    mix : CauseMix
        Where the failures come from. They are memoryless, so that windows cut out of one course
        do not depend on each other.
    hours : int
        How long the course is.
    seed : int
        Seed of the failures.
    """

    def __init__(self, mix: CauseMix, hours: int, seed: int) -> None:
        self._hours = hours
        end_s = hours * _SECONDS_PER_HOUR
        times_s: list[float] = []
        first: list[int] = []
        count: list[int] = []
        for batch in mix.batches(seed):
            for failure in batch:
                hosts = mix.layout.hosts_losing_memory(failure)
                times_s.append(failure.time_s)
                first.append(hosts.start)
                count.append(len(hosts))
            if times_s and times_s[-1] > end_s:
                break
        counts = np.array(count)
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        self._time_s = np.repeat(np.array(times_s), counts)
        self._host = np.repeat(np.array(first), counts) + offsets

    def windows(self, hours: int) -> LossSets:
        """Return the hosts lost in each window of so many hours; a rest at the end is left out."""
        sets = self._hours // hours
        index = (self._time_s // (hours * _SECONDS_PER_HOUR)).astype(np.int64)
        inside = index < sets
        return LossSets.with_repeats(sets, index[inside], self._host[inside])
