"""Each group's failure clock: when it fails next.

A clock's life: it is *set* to the moment of the next failure; the moment comes and the failure is
*due*; somebody (the training job, or the restart) *takes* it, and the clock is set again.
"""

from __future__ import annotations

from typing import Literal

from simulator.failures.distributions import Distribution
from simulator.random_streams import Purpose, stream

ClockRule = Literal["from-detection", "renewal"]

_BLOCK = 8


class FailureClocks:
    """Failure clocks of all groups of a run, all set at time 0.

    Parameters
    ----------
    distribution : Distribution
        Time between two failures of one group.
    groups : int
        Number of groups.
    seed : int
        Seed of the run. The k-th interval of a group depends on the seed and the group only.
    rule : {"from-detection", "renewal"}
        What `take` sets the clock to. "renewal": failures happen at the sums of the intervals,
        whatever the job does, so that all schemes meet the very same failures. "from-detection":
        the next interval begins when the last failure was noticed, as in the published simulator
        of SPARe.

    Attributes
    ----------
    next_failure_s : list of float
        Time of each group's next failure, in seconds of simulated time.
    failures : int
        Failures taken so far.
    failures_while_down : int
        Those among them that struck groups which were down already.
    """

    def __init__(self, distribution: Distribution, groups: int, seed: int, rule: ClockRule) -> None:
        self._distribution = distribution
        self._from_detection = rule == "from-detection"
        self._streams = [stream(seed, Purpose.GROUP_FAILURES, group) for group in range(groups)]
        self._blocks: list[list[float]] = [[] for _ in range(groups)]
        self.next_failure_s = [self._interval(group) for group in range(groups)]
        self.failures = 0
        self.failures_while_down = 0

    def take(self, group: int, noticed_s: float) -> None:
        """Take a due failure, noticed at `noticed_s`, and set the clock to the next one."""
        self.failures += 1
        if self._from_detection:
            self.next_failure_s[group] = noticed_s + self._interval(group)
        else:
            self.next_failure_s[group] += self._interval(group)

    def take_while_down(self, group: int, until_s: float) -> None:
        """Take the failures of a group that is down anyway, up to `until_s`.

        A failure of what is down changes nothing, but the clock runs on.
        """
        while self.next_failure_s[group] <= until_s:
            self.next_failure_s[group] += self._interval(group)
            self.failures += 1
            self.failures_while_down += 1

    def take_at_occurrence(self, group: int) -> float:
        """Take the next failure at the moment it happens; return that moment."""
        self.failures += 1
        happened_s = self.next_failure_s[group]
        self.next_failure_s[group] = happened_s + self._interval(group)
        return happened_s

    def _interval(self, group: int) -> float:
        block = self._blocks[group]
        if not block:
            # Drawn several at a time for speed, and handed out in the order they were drawn.
            block += reversed(self._distribution.sample(self._streams[group], _BLOCK))
        return block.pop()
