"""Sources of a job's failures: independent groups, or a sequence of failures.

A sequence (`FailureSequence`) is a recorded trace, or a mix of causes that is drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf

import numpy as np
from faultline.simulator.failures.clocks import ClockRule, EventClocks, FailureClocks, RenewalClocks
from faultline.simulator.failures.distributions import Distribution, Exponential
from faultline.simulator.failures.failure import Failure
from faultline.simulator.failures.victims import WHOLE_GROUPS, ComponentChoice

_HORIZON_MEANS = 4.0
_POINTS = 400


@dataclass(frozen=True, slots=True)
class GroupFailureRate:
    """Failures of one group per second, by the time since the job began."""

    ends_s: tuple[float, ...]  # Ascending ends of the intervals of time, in seconds.
    rates_per_s: tuple[float, ...]  # Mean rate in each interval, and after the last.

    def __call__(self, now_s: float) -> float:
        """Return the failures per second at a time since the beginning, in seconds."""
        return self.rates_per_s[bisect_right(self.ends_s, now_s)]

    def over(self, span_s: float) -> float:
        """Return the expected failures of one group from the beginning over a span, in seconds."""
        failures, begin_s = 0.0, 0.0
        for end_s, rate_per_s in zip((*self.ends_s, inf), self.rates_per_s, strict=True):
            failures += rate_per_s * (min(end_s, span_s) - begin_s)
            begin_s = min(end_s, span_s)
        return failures

    def holds_until_s(self, now_s: float) -> float:
        """Return when the interval of a time ends, in seconds; infinite for the last."""
        ends_s, interval = self.ends_s, bisect_right(self.ends_s, now_s)
        return ends_s[interval] if interval < len(ends_s) else inf


def constant_rate(rate_per_s: float) -> GroupFailureRate:
    """Return a rate that is the same at all times, in failures per second."""
    return GroupFailureRate((), (rate_per_s,))


def renewal_rate(distribution: Distribution) -> GroupFailureRate:
    """Tabulate the renewal density of a distribution up to four times its mean.

    The failures of a group whose clock runs on through restarts are a renewal process from time 0
    on. With a Weibull shape below 1 it fails more often at first; its rate tends to 1 / mean.

    The renewal equation M(t) = F(t) + int M(t - u) dF(u) is solved by the Riemann-Stieltjes
    midpoint rule (Xie 1989, "On the solution of renewal-type integral equations"); the rate of an
    interval is the growth of M over it.
    """
    step_s = _HORIZON_MEANS * distribution.mean_s / _POINTS
    failed = np.array([1.0 - distribution.survival(step_s * i) for i in range(1, _POINTS + 1)])
    failed_mid = np.array([1.0 - distribution.survival(step_s * (i + 0.5)) for i in range(_POINTS)])
    expected = np.zeros(_POINTS + 1)
    growth = np.zeros(_POINTS)
    for i in range(1, _POINTS + 1):
        earlier = float(growth[: i - 1] @ failed_mid[i - 1 : 0 : -1])
        expected[i] = (failed[i - 1] + earlier - expected[i - 1] * failed_mid[0]) / (
            1.0 - failed_mid[0]
        )
        growth[i - 1] = expected[i] - expected[i - 1]
    rates = (growth / step_s).tolist()
    ends = tuple((step_s * np.arange(1, _POINTS + 1)).tolist())
    return GroupFailureRate(ends, (*rates, 1.0 / distribution.mean_s))


class FailureModel(ABC):
    """A source of a job's failures."""

    @property
    @abstractmethod
    def mtbf_s(self) -> float:
        """Mean time between two failures of the whole system, in seconds.

        A failure that stops several groups counts once.
        """

    @property
    @abstractmethod
    def lifetimes(self) -> Distribution:
        """Time between two failures of one group; closed forms of a sequence ignore its memory."""

    @abstractmethod
    def group_failure_rate(self) -> GroupFailureRate:
        """Return the failures per second of one group, by the time since the job began."""

    @abstractmethod
    def survival(self, time_s: float) -> float:
        """Return the probability that the group hit most often has no failure for `time_s`."""

    @abstractmethod
    def clocks(self, seed: int, rule: ClockRule) -> FailureClocks:
        """Return the failure clocks of all groups, set at time 0."""

    @abstractmethod
    def failures_until(self, time_s: float, seed: int) -> list[Failure]:
        """Return the failures up to `time_s`, in seconds, in the order of time."""


@dataclass(frozen=True)
class IndependentGroups(FailureModel):
    """Groups that fail independently of each other, each by a renewal process."""

    distribution: Distribution  # Time between two failures of one group.
    groups: int  # Number of groups.
    components: ComponentChoice = WHOLE_GROUPS  # The component of a group that breaks.

    @property
    def mtbf_s(self) -> float:
        return self.distribution.mean_s / self.groups

    @property
    def lifetimes(self) -> Distribution:
        return self.distribution

    def group_failure_rate(self) -> GroupFailureRate:
        return renewal_rate(self.distribution)

    def survival(self, time_s: float) -> float:
        return self.distribution.survival(time_s)

    def clocks(self, seed: int, rule: ClockRule) -> RenewalClocks:
        return RenewalClocks(self.distribution, self.groups, seed, rule, self.components)

    def failures_until(self, time_s: float, seed: int) -> list[Failure]:
        """Return the failures up to `time_s`, in seconds, each noticed when it happens."""
        clocks = self.clocks(seed, "renewal")
        failures = []
        for group in range(self.groups):
            while clocks.next_failure_s[group] <= time_s:
                failures.append(clocks.take(group))
        return sorted(failures, key=lambda failure: failure.time_s)


class FailureSequence(FailureModel):
    """Failures in the order of time, each of which may stop several groups at once."""

    @property
    @abstractmethod
    def groups_of_job(self) -> int:
        """Number of groups of the job."""

    @property
    @abstractmethod
    def causes(self) -> tuple[str, ...]:
        """Names of the causes that stop groups."""

    @property
    @abstractmethod
    def disturbance_causes(self) -> tuple[str, ...]:
        """Names of the causes of failures that stop nothing."""

    @abstractmethod
    def spared(self) -> frozenset[int]:
        """Return the groups that never fail, however long the sequence is."""

    @abstractmethod
    def batches(self, seed: int) -> Iterator[Sequence[Failure]]:
        """Yield the failures that stop groups in batches, in the order of time; may end."""

    @abstractmethod
    def disturbances(self, seed: int) -> Iterator[Failure]:
        """Yield the failures that stop nothing, or not at first, in the order of time."""

    @property
    def lifetimes(self) -> Exponential:
        """Time between two failures of a group; a failure that stops several groups counts once."""
        return Exponential(self.mtbf_s * self.groups_of_job)

    def group_failure_rate(self) -> GroupFailureRate:
        """Return the mean failures of a group per second, the same at all times."""
        return constant_rate(1.0 / self.lifetimes.mean_s)

    def clocks(self, seed: int, rule: ClockRule) -> EventClocks:
        """Return the failure clocks of all groups, set at time 0.

        Raises
        ------
        ValueError
            If the rule is "from-detection": a group has no interval of its own to restart.
        """
        if rule != "renewal":
            raise ValueError("the failures of a sequence need the rule 'renewal'")
        return EventClocks(self.batches(seed), self.groups_of_job, self.spared(), self.causes)

    def failures_until(self, time_s: float, seed: int) -> list[Failure]:
        failures = list(
            takewhile(lambda failure: failure.time_s <= time_s, self.disturbances(seed))
        )
        for batch in self.batches(seed):
            failures += (failure for failure in batch if failure.time_s <= time_s)
            if batch and batch[-1].time_s > time_s:
                break
        return sorted(failures, key=lambda failure: failure.time_s)
