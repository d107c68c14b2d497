"""How each scheme runs a replica with failed GPUs: degree, power, batch.

A healthy replica synchronises its gradients with one of a lower degree: it reshards from N1 to N2
ranks, all-reduces with the N2 peers, and reshards back (Arfeen et al. 2025). Only its N1 - N2 spare
ranks send, each its whole shard; core ranks keep their shards and receive a part of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


def reduced_degree(domain_gpus: int, failed: int, least_degree: int = 1) -> int:
    """Return the tensor-parallel degree of a domain with failed GPUs; 0 if it is unusable.

    The degree falls in steps, so that few different shardings are needed: 32 GPUs run at TP30 with
    one or two failed GPUs, at TP28 with three or four, and so on; 64 GPUs at TP62. These are the
    published cases. For other sizes a step is a sixteenth of the domain, at least one GPU and at
    most two: 8 and 16 GPUs lose one at a time. Below `least_degree` the model does not fit into the
    memory of the GPUs.
    """
    step = min(2, max(1, domain_gpus // 16))
    degree = domain_gpus - step * -(-failed // step)
    return degree if degree >= max(1, least_degree) else 0


_LINEAR, _QUADRATIC = 0.235, 0.45
MOST_POWER = 1.3
"""Highest power of a GPU, relative to the rated power (TDP)."""


def performance(power: float) -> float:
    """Return the performance at a power from 1 to `MOST_POWER`, both relative to the rated power.

    ``p (1 - 0.235 (p - 1) - 0.45 (p - 1)^2)`` fits two published points (Arfeen et al. 2025):
    performance per watt is 2.8 % lower at 1.1 times the power and 6.5 % lower at 1.2 times.
    """
    excess = power - 1.0
    return power * (1.0 - _LINEAR * excess - _QUADRATIC * excess**2)


MOST_PERFORMANCE = performance(MOST_POWER)


def power_for(target: float) -> float | None:
    """Return the lowest power for a performance; None if no power is enough.

    A performance up to 1 takes the rated power: GPUs are never slowed down.
    """
    if target <= 1.0:
        return 1.0
    if target > MOST_PERFORMANCE:
        return None
    # Imported here, since the command line imports each scheme when it starts.
    from scipy.optimize import brentq

    return float(brentq(lambda power: performance(power) - target, 1.0, MOST_POWER))


IterationTime = Callable[[int, int, float], float]
"""Seconds of a replica's iteration, by its tensor-parallel degree, its sequences, and the pace of
its GPUs over the nominal one."""

_ROUNDING = 1e-9
"""Relative difference below which two iterations take the same time."""


class Scheme(Enum):
    """How a replica with failed GPUs runs, if at all."""

    DP_DROP = "dp-drop"
    NTP = "ntp"
    NTP_PW = "ntp-pw"


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """How a replica runs: tensor-parallel degree of all its stages, and local batch in sequences.

    Both are 0 if it does not run. `power` is that of its GPUs over TDP.
    """

    degree: int
    sequences: int
    power: float = 1.0


DROPPED = ReplicaPlan(degree=0, sequences=0)


def pipeline_time(idle_slots: float) -> IterationTime:
    """Return the iteration time of a 1F1B pipeline, one sequence per micro-batch.

    A micro-batch takes a slot on each stage, and an iteration of n sequences ``n + idle_slots``
    slots. A plain pipeline of p stages has p - 1 idle slots (Narayanan et al. 2021, Megatron-LM,
    arXiv 2104.04473, section 2.2.1). A slot is in proportion to a GPU's share of the work. The unit
    is arbitrary; only ratios count.
    """

    def seconds(degree: int, sequences: int, pace: float) -> float:
        return (sequences + idle_slots) / (degree * pace)

    return seconds


@dataclass(frozen=True, slots=True)
class ReplicaRules:
    """The inputs of a plan.

    `domain_gpus` is the degree of a healthy replica; `local_batch` is its sequences per iteration;
    `least_degree` is as in `reduced_degree`.
    """

    domain_gpus: int
    local_batch: int
    iteration_s: IterationTime
    least_degree: int = 1

    @property
    def healthy_s(self) -> float:
        """Iteration time of a healthy replica."""
        return self.iteration_s(self.domain_gpus, self.local_batch, 1.0)

    def in_time(self, degree: int, sequences: int, pace: float) -> bool:
        """Return whether an iteration takes no longer than a healthy one."""
        return self.iteration_s(degree, sequences, pace) <= self.healthy_s * (1 + _ROUNDING)

    def most_sequences(self, degree: int, pace: float) -> int:
        """Return the largest local batch that is in time, at most the full one; 0 if none is."""
        return next((n for n in range(self.local_batch, 0, -1) if self.in_time(degree, n, pace)), 0)

    def least_pace(self, degree: int, sequences: int) -> float:
        """Return the slowest pace that is in time, from 1 to that at the highest power.

        At least one pace must be in time; a faster one never takes longer.
        """
        if self.in_time(degree, sequences, 1.0):
            return 1.0
        # Imported here, since the command line imports each scheme when it starts.
        from scipy.optimize import brentq

        return float(
            brentq(
                lambda pace: self.iteration_s(degree, sequences, pace) - self.healthy_s,
                1.0,
                MOST_PERFORMANCE * (1 + _ROUNDING),
            )
        )


def replica_plan(scheme: Scheme, failed: int, rules: ReplicaRules) -> ReplicaPlan:
    """Return the plan of a replica with `failed` failed GPUs in its worst domain.

    All stages of the replica run at the degree of that domain. NTP reduces the local batch to the
    largest whole number of sequences whose iteration takes no longer than a healthy one. NTP-PW
    does the same at the highest power, and then lowers the power to the need of that batch. A
    replica without any sequence does not run.
    """
    degree = reduced_degree(rules.domain_gpus, failed, rules.least_degree)
    if failed == 0:
        return ReplicaPlan(rules.domain_gpus, rules.local_batch)
    if scheme is Scheme.DP_DROP or degree == 0:
        return DROPPED
    most_pace = MOST_PERFORMANCE if scheme is Scheme.NTP_PW else 1.0
    sequences = rules.most_sequences(degree, most_pace)
    if sequences == 0:
        return DROPPED
    pace = min(rules.least_pace(degree, sequences), most_pace)
    power = power_for(pace)
    assert power is not None, "the pace is at most that at the highest power"
    return ReplicaPlan(degree, sequences, power)


def replica_plans(scheme: Scheme, rules: ReplicaRules) -> tuple[ReplicaPlan, ...]:
    """Return the plans for 0, 1, ... failed GPUs in a replica's worst domain."""
    return tuple(replica_plan(scheme, failed, rules) for failed in range(rules.domain_gpus + 1))


@dataclass(frozen=True, slots=True)
class ReshardingBytes:
    """Bytes that a rank of a healthy replica moves one way."""

    spare_sends: float  # Sent by each of the N1 - N2 spare ranks, and received on the way back.
    core_receives: float  # Received by each of the N2 core ranks.
    core_syncs: float  # All-reduced by each core rank after that: N1/N2 times its own shard.

    @property
    def largest(self) -> float:
        """The most that any GPU sends or receives."""
        return max(self.spare_sends, self.core_receives)


def resharding_bytes(stage_bytes: float, healthy: int, reduced: int) -> ReshardingBytes:
    """Return the bytes of resharding a stage's gradients from degree N1 to N2."""
    own = stage_bytes / healthy
    spares = healthy - reduced
    return ReshardingBytes(
        spare_sends=own if spares else 0.0,
        core_receives=own * spares / reduced,
        core_syncs=own * healthy / reduced,
    )
