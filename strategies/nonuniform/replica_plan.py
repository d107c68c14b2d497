"""What each scheme does with a replica whose worst domain has lost some GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from faultline.strategies.errors import StrategyError
from faultline.strategies.nonuniform.degrees import ReductionRule
from faultline.strategies.nonuniform.power import PowerCurve

IterationTime = Callable[[int, int, float], float]
"""Seconds of an iteration of a replica: from its tensor-parallel degree, its sequences, and the
pace of its GPUs over their nominal one."""

_ROUNDING = 1e-9
"""Two iterations that differ by less than this share take the same time."""


class Scheme(Enum):
    """What becomes of a replica with failed GPUs."""

    DP_DROP = "dp-drop"
    NTP = "ntp"
    NTP_PW = "ntp-pw"


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """How a replica runs.

    Attributes
    ----------
    degree : int
        Tensor-parallel degree of all its stages; 0 if it does not run.
    sequences : int
        Its local batch; 0 if it does not run.
    power : float
        Power of its GPUs over TDP.
    """

    degree: int
    sequences: int
    power: float = 1.0


DROPPED = ReplicaPlan(degree=0, sequences=0)


def proportional_time(degree: int, sequences: int, pace: float) -> float:
    """Return an iteration time in proportion to a GPU's share of the work: no bubble, no messages.

    The unit is arbitrary; only ratios count.
    """
    return sequences / (degree * pace)


@dataclass(frozen=True, slots=True)
class ReplicaRules:
    """What a plan depends on.

    Attributes
    ----------
    domain_gpus : int
        GPUs of a scale-up domain, which is the degree of a healthy replica.
    local_batch : int
        Sequences of a healthy replica an iteration.
    iteration_s : callable
        How long an iteration takes.
    reduction : ReductionRule
        Degree of a domain with failed GPUs.
    power : PowerCurve
        What more power brings.
    """

    domain_gpus: int
    local_batch: int
    iteration_s: IterationTime = proportional_time
    reduction: ReductionRule = field(default_factory=ReductionRule)
    power: PowerCurve = field(default_factory=PowerCurve)

    def __post_init__(self) -> None:
        if self.domain_gpus < 1 or self.local_batch < 1:
            raise StrategyError(
                "local_batch",
                f"a domain of {self.domain_gpus} GPUs and {self.local_batch} sequences is empty",
                "use whole numbers from 1",
            )

    @property
    def healthy_s(self) -> float:
        """Iteration time of a healthy replica."""
        return self.iteration_s(self.domain_gpus, self.local_batch, 1.0)

    def in_time(self, degree: int, sequences: int, pace: float) -> bool:
        """Return whether an iteration takes no longer than a healthy one."""
        return self.iteration_s(degree, sequences, pace) <= self.healthy_s * (1 + _ROUNDING)

    def most_sequences(self, degree: int, pace: float) -> int:
        """Return the largest local batch, up to the full one, that is in time; 0 if none is."""
        return next((n for n in range(self.local_batch, 0, -1) if self.in_time(degree, n, pace)), 0)

    def least_pace(self, degree: int, sequences: int) -> float:
        """Return the slowest pace, from 1 to that at the highest power, that is in time.

        One pace has to be in time; a faster one never takes longer.
        """
        if self.in_time(degree, sequences, 1.0):
            return 1.0
        # Not at import: every scheme is imported when the command line starts.
        from scipy.optimize import brentq

        return float(
            brentq(
                lambda pace: self.iteration_s(degree, sequences, pace) - self.healthy_s,
                1.0,
                self.power.most_performance * (1 + _ROUNDING),
            )
        )


def replica_plan(scheme: Scheme, failed: int, rules: ReplicaRules) -> ReplicaPlan:
    """Return how a replica runs whose worst domain has `failed` failed GPUs.

    All stages of the replica run at the degree of that domain. NTP cuts the local batch to the
    largest whole number of sequences whose iteration takes no longer than a healthy one. NTP-PW
    does the same at the highest power, and then lowers the power to what that batch needs. A
    replica for which not one sequence is left does not run.

    Raises
    ------
    StrategyError
        There cannot be so many failed GPUs.
    """
    degree = rules.reduction.degree(rules.domain_gpus, failed)
    if failed == 0:
        return ReplicaPlan(rules.domain_gpus, rules.local_batch)
    if scheme is Scheme.DP_DROP or degree == 0:
        return DROPPED
    most_pace = rules.power.most_performance if scheme is Scheme.NTP_PW else 1.0
    sequences = rules.most_sequences(degree, most_pace)
    if sequences == 0:
        return DROPPED
    pace = min(rules.least_pace(degree, sequences), most_pace)
    power = rules.power.power(pace)
    assert power is not None, "the pace is at most that at the highest power"
    return ReplicaPlan(degree, sequences, power)


def replica_plans(scheme: Scheme, rules: ReplicaRules) -> tuple[ReplicaPlan, ...]:
    """Return the plans for 0, 1, ... failed GPUs in a replica's worst domain."""
    return tuple(replica_plan(scheme, failed, rules) for failed in range(rules.domain_gpus + 1))
