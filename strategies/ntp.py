"""NTP and NTP-PW: nonuniform tensor parallelism (Arfeen et al. 2025, arXiv 2504.06095).

A replica with broken GPUs goes on at a lower tensor-parallel degree. Under NTP its local batch is
cut so that it keeps up with whole replicas; under NTP-PW its GPUs draw more power, and the batch is
cut only as far as that is not enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

from faultline.strategies.base import StrategyOptions, Verdict
from faultline.strategies.nonuniform.degrees import ReductionRule
from faultline.strategies.nonuniform.pipeline_time import pipeline_time
from faultline.strategies.nonuniform.replica_plan import (
    ReplicaPlan,
    ReplicaRules,
    Scheme,
    replica_plans,
)
from faultline.strategies.nonuniform.resharding import resharding_bytes
from faultline.strategies.nonuniform.restarting import NTP_PAPER, ReplicaOptions, RestartingReplicas
from pydantic import Field


class NtpOptions(ReplicaOptions):
    """Named choices of nonuniform tensor parallelism."""

    resharding_slowdown: float = Field(
        0.04,
        ge=0,
        le=10,
        description="By which share the backward pass of whole replicas is longer while they "
        "reshard gradients for reduced ones.",
        json_schema_extra={"source": f"{NTP_PAPER}: at most 4 %", "unit": "1"},
    )


class Ntp(RestartingReplicas):
    """Replicas with broken GPUs at a lower tensor-parallel degree, with a smaller batch."""

    name: ClassVar[str] = "ntp"
    summary: ClassVar[str] = "NTP: restarts with hit replicas at lower tensor parallelism"
    title: ClassVar[str] = "NTP"
    colour: ClassVar[str | None] = "#229999"
    marker: ClassVar[str | None] = "D"
    Options: ClassVar[type[StrategyOptions]] = NtpOptions
    scheme: ClassVar[Scheme] = Scheme.NTP

    def __init__(self, groups: int, redundancy: int, options: NtpOptions) -> None:
        super().__init__(groups, redundancy, options)
        self._options = options

    def plans(self, domain_gpus: int, stages: int) -> Sequence[ReplicaPlan]:
        """Return the scheme's plans for a 1F1B pipeline."""
        shape = self.shape
        return _plans(self.scheme, domain_gpus, stages, shape.sequences, shape.least_tensor)

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Restart; count who is left with too little memory."""
        rule, damage = ReductionRule(self.shape.least_tensor), self._damage
        self.states_refused += sum(
            rule.is_refused(damage.domain_gpus, damage.worst(group)) for group in missing
        )
        return super().on_failures(missing)

    def pace(self, whole_degree: int, reduced_degree: int) -> float:
        """Return the pace of whole replicas, which reshard for the most reduced one.

        The stated slowdown is that of ranks that send all they have, as spare ranks do. Core ranks
        receive less, unless fewer than half are left (`resharding_bytes`).
        """
        most = resharding_bytes(whole_degree, whole_degree, reduced_degree).largest
        return 1.0 + self.shape.backward_share * self._options.resharding_slowdown * most


class NtpPw(Ntp):
    """NTP with more power for the GPUs of hit replicas."""

    name: ClassVar[str] = "ntp-pw"
    summary: ClassVar[str] = "NTP-PW: NTP with more power for the GPUs of hit replicas"
    title: ClassVar[str] = "NTP-PW"
    colour: ClassVar[str | None] = "#448855"
    marker: ClassVar[str | None] = "d"
    scheme: ClassVar[Scheme] = Scheme.NTP_PW


@lru_cache(maxsize=64)
def _plans(
    scheme: Scheme, domain_gpus: int, stages: int, local_batch: int, least_degree: int
) -> tuple[ReplicaPlan, ...]:
    rules = ReplicaRules(
        domain_gpus, local_batch, pipeline_time(stages), ReductionRule(least_degree)
    )
    return replica_plans(scheme, rules)
