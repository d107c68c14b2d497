"""Sources of a job's failures: independent groups, or a sequence of failures.

A sequence (`FailureSequence`) is a recorded trace, or a mix of causes that is drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from faultline.simulator.failures.clocks import ClockRule, EventClocks, FailureClocks, RenewalClocks
from faultline.simulator.failures.distributions import Distribution
from faultline.simulator.failures.failure import Failure
from faultline.simulator.failures.renewal_rate import GroupFailureRate, constant_rate, renewal_rate
from faultline.simulator.failures.victims import ComponentChoice, Victims


class FailureModel(ABC):
    """A source of a job's failures."""

    @property
    @abstractmethod
    def mtbf_s(self) -> float:
        """Mean time between two failures of the whole system, in seconds.

        A failure that stops several groups counts once.
        """

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
    # The component of a group that breaks; None if groups fail as a whole.
    components: ComponentChoice | None = None

    @property
    def mtbf_s(self) -> float:
        return self.distribution.mean_s / self.groups

    def group_failure_rate(self) -> GroupFailureRate:
        return renewal_rate(self.distribution)

    def survival(self, time_s: float) -> float:
        return self.distribution.survival(time_s)

    def clocks(self, seed: int, rule: ClockRule) -> RenewalClocks:
        victims = Victims(self.components, seed) if self.components else None
        return RenewalClocks(self.distribution, self.groups, seed, rule, victims)

    def failures_until(self, time_s: float, seed: int) -> list[Failure]:
        """Return the failures up to `time_s`, in seconds, each noticed when it happens."""
        clocks = self.clocks(seed, "renewal")
        failures = []
        for group in range(self.groups):
            while clocks.next_failure_s[group] <= time_s:
                failures.append(clocks.due(group))
                clocks.take_at_occurrence(group)
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

    def group_failure_rate(self) -> GroupFailureRate:
        """Return the mean failures of a group per second, the same at all times.

        A failure that stops several groups counts once.
        """
        return constant_rate(1.0 / (self.mtbf_s * self.groups_of_job))

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
