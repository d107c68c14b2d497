"""DP-DROP, NTP and NTP-PW: nonuniform tensor parallelism (Arfeen et al. 2025, arXiv 2504.06095).

The groups of the job are its data-parallel replicas, each a pipeline of scale-up domains. The job
restarts at each failure with the remaining hardware. Broken hardware is not replaced. It is
repaired, and returns with the next restart.

DP-DROP drops a replica with broken GPUs. NTP runs it at a lower tensor-parallel degree, with a
smaller local batch, so that it keeps up with whole replicas. NTP-PW gives its GPUs more power, and
reduces the batch only if that is not enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.plan import NOTHING_LEFT
from faultline.strategies.interface.recovery import Move, Recovery, RecoveryKind
from faultline.strategies.interface.scheme import (
    Hit,
    Need,
    StepPlan,
    Strategy,
    StrategyOptions,
    Verdict,
    WipeOut,
)
from faultline.strategies.interface.step_shares import reduced_pipeline
from faultline.strategies.schemes.ntp.job_plan import (
    Damage,
    HitReplica,
    Place,
    domains_in_places,
    packed_replicas,
)
from faultline.strategies.schemes.ntp.replica_plan import (
    ReplicaPlan,
    ReplicaRules,
    Scheme,
    performance,
    pipeline_time,
    reduced_degree,
    replica_plans,
    resharding_bytes,
)
from pydantic import Field

NTP_PAPER = "NTP (Arfeen et al. 2025, arXiv 2504.06095)"


class NtpOptions(StrategyOptions):
    """Named choices of all schemes that restart with the remaining hardware."""

    table: ClassVar[str] = "ntp"

    pod_groups: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Consecutive groups, those of a pod, among which domains with broken GPUs are "
        "packed into the fewest replicas; 1: domains stay in their replica; unset: all groups.",
        json_schema_extra={
            "source": f"{NTP_PAPER}: the resource manager packs the whole job",
            "unit": "1",
        },
    )
    resharding_slowdown: float = Field(
        0.04,
        ge=0,
        le=10,
        description="Relative slowdown of the backward pass of whole replicas while they reshard "
        "gradients for reduced ones.",
        json_schema_extra={
            "source": f"{NTP_PAPER}: at most 4 %",
            "unit": "1",
            "only_with": {"strategy.name": ["ntp", "ntp-pw"]},
        },
    )


class RestartingReplicas(Strategy):
    """Replicas that shrink or are dropped until their broken hardware is repaired.

    Packing does not change the training loop's groups: each remains a row of the same GPUs. For
    each dropped replica, a group is absent, in the order of broken domains. Failures of an absent
    group do not reach the job, nor would failures of the equally many domains of the replica.

    Replicas are alike, so a domain that changes its replica brings the state of its stage with it.
    A domain that gets another stage receives that state from another replica (`migration`). If the
    job loads from storage, it loads what it needs like all others.
    """

    scheme: ClassVar[Scheme]
    Options: ClassVar[type[StrategyOptions]] = NtpOptions
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("migrate",)
    needs: ClassVar[tuple[Need, ...]] = ("layout",)
    keeps_groups_whole: ClassVar[bool] = False
    restart_replaces: ClassVar[bool] = False

    def __init__(self, groups: int, redundancy: int, options: NtpOptions, shape: JobShape) -> None:
        super().__init__(groups, redundancy, options, shape)
        self._pod_groups = options.pod_groups or groups
        self._resharding_slowdown = options.resharding_slowdown
        self._damage = Damage(self.shape.tensor)
        # The stage whose state a domain has, of domains that ever had another than their own.
        self._stage_held: dict[Place, int] = {}

    def restart(self) -> None:
        super().restart()
        self._damage.clear()

    def on_hit(self, hit: Hit) -> None:
        self._damage.add(hit)
        self._plan = None

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Restart; count states that do not fit into reduced replicas or too few members."""
        if self.scheme is not Scheme.DP_DROP:
            gpus, least = self._damage.domain_gpus, self.shape.least_tensor
            degrees = [reduced_degree(gpus, self._damage.worst(group)) for group in missing]
            self.states_refused += sum(0 < degree < least for degree in degrees)
        dropped = sum(not plan.sequences for plan in self._damaged().values())
        self.states_refused += 0 < self.groups - dropped < self.shape.least_groups
        return WipeOut(tuple(missing))

    def on_return(self, returning: Sequence[int]) -> None:
        """Take back groups with replaced hardware; no other group leaves before a restart."""
        members = {*self.plan().members, *returning}
        self._damage.forget(returning)
        self._plan = self._step_plan()._replace(members=tuple(sorted(members)))

    def migration(self) -> Recovery | None:
        members, stages = set(self.plan().members), self._damage.domains_per_group
        moved, moves = {}, []
        if self._pod_groups > 1:
            moved = domains_in_places(self._replicas(), stages, self._pod_groups)
        for place in sorted({*moved, *self._stage_held}):
            group, stage = place
            domain = moved.get(place, place)
            if group in members and self._stage_held.get(domain, domain[1]) != stage:
                self._stage_held[domain] = stage
                moves.append(Move(group, stage, stage, stages))
        return Recovery("migrate", (), moves=tuple(moves), is_expected=True) if moves else None

    def _replicas(self) -> list[HitReplica]:
        return packed_replicas(self._damage, self._pod_groups)

    def _damaged(self) -> dict[int, ReplicaPlan]:
        """Return the plans of the replicas with broken GPUs, by group."""
        damage = self._damage
        plans = self.plans(damage.domain_gpus, damage.domains_per_group)
        return {replica.group: plans[replica.worst] for replica in self._replicas()}

    def plans(self, domain_gpus: int, stages: int) -> Sequence[ReplicaPlan]:
        """Return the plans of a replica for 0, 1, ... broken GPUs in its worst domain.

        A replica has `stages` domains.
        """
        shape = self.shape
        idle_slots = replace(shape, stages=stages).idle_slots
        return _plans(self.scheme, domain_gpus, idle_slots, shape.sequences, shape.least_tensor)

    def _step_plan(self) -> StepPlan:
        damaged, shape, whole = self._damaged(), self.shape, self._damage.domain_gpus
        working = {group: plan for group, plan in damaged.items() if plan.sequences}
        dropped = damaged.keys() - working.keys()
        members = tuple(group for group in range(self.groups) if group not in dropped)
        if len(members) < shape.least_groups:
            return NOTHING_LEFT
        pace, degree = 1.0, min((plan.degree for plan in working.values()), default=whole)
        if degree < whole:
            # Whole replicas reshard for the most reduced one. The stated slowdown is that of spare
            # ranks, which send all their gradients; core ranks receive less, unless fewer than half
            # of the ranks are left.
            relative_bytes = resharding_bytes(whole, whole, degree).largest
            pace += shape.backward_share * self._resharding_slowdown * relative_bytes
        sequences = (self.groups - len(damaged)) * shape.sequences
        sequences += sum(plan.sequences for plan in working.values())
        share = sequences / (self.groups * shape.sequences)
        power = 1.0 + sum(plan.power - 1.0 for plan in damaged.values()) / self.groups
        pipelines = tuple(
            reduced_pipeline(
                group,
                shape.stages,
                -(-plan.sequences // shape.micro_batch_sequences),
                plan.degree,
                1.0 / performance(plan.power),
            )
            for group, plan in sorted(working.items())
        )
        return StepPlan(members, 1, 1, pace, share, power, pipelines=pipelines)

    def masked_failures(self) -> float:
        """Return 1: each failure forces a restart."""
        return 1.0

    def work_per_step(self) -> float:
        """Return 1: each group computes its one shard type."""
        return 1.0


class Ntp(RestartingReplicas):
    """Replicas with broken GPUs run at a lower tensor-parallel degree with a smaller batch."""

    name: ClassVar[str] = "ntp"
    summary: ClassVar[str] = "NTP: restarts with damaged replicas at lower tensor parallelism"
    scheme: ClassVar[Scheme] = Scheme.NTP


class NtpPw(RestartingReplicas):
    """NTP with more power for the GPUs of damaged replicas."""

    name: ClassVar[str] = "ntp-pw"
    summary: ClassVar[str] = "NTP-PW: NTP with more power for the GPUs of damaged replicas"
    scheme: ClassVar[Scheme] = Scheme.NTP_PW


@lru_cache(maxsize=64)
def _plans(
    scheme: Scheme, domain_gpus: int, idle_slots: float, local_batch: int, least_degree: int
) -> tuple[ReplicaPlan, ...]:
    rules = ReplicaRules(domain_gpus, local_batch, pipeline_time(idle_slots), least_degree)
    return replica_plans(scheme, rules)


class DpDrop(RestartingReplicas):
    """Data parallelism that continues without the replicas that have broken GPUs.

    Their share of the batch is not trained. The sum of the others' gradients is scaled accordingly.
    """

    name: ClassVar[str] = "dp-drop"
    summary: ClassVar[str] = "DP-DROP: restarts without the replicas that have broken GPUs"
    scheme: ClassVar[Scheme] = Scheme.DP_DROP
