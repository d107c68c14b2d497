"""What DP-DROP, NTP and NTP-PW have in common: the job restarts at each failure, with what is left.

The groups of the job are its data-parallel replicas, each a pipeline of scale-up domains. A restart
finds no new hardware: what is broken stays so until it is repaired, and what is repaired comes back
with the next restart.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from faultline.strategies.base import Hit, StepPlan, Strategy, StrategyOptions, Verdict, WipeOut
from faultline.strategies.nonuniform.damage import Damage
from faultline.strategies.nonuniform.job_plan import (
    HitReplica,
    JobPlan,
    Place,
    domains_in_places,
    job_plan,
    packed_replicas,
    unpacked_replicas,
)
from faultline.strategies.nonuniform.power import PowerCurve
from faultline.strategies.nonuniform.replica_plan import ReplicaPlan
from faultline.strategies.recovery import Move, Recovery, RecoveryKind
from faultline.strategies.step_shares import reduced
from faultline.strategies.takeover.restarts import NOTHING_LEFT
from pydantic import Field

NTP_PAPER = "NTP (Arfeen et al. 2025, arXiv 2504.06095)"


class ReplicaOptions(StrategyOptions):
    """Named choices of all schemes that restart with what is left."""

    packing: bool = Field(
        True,
        description="Whether domains with broken GPUs are packed into the fewest replicas.",
        json_schema_extra={"source": f"{NTP_PAPER}: the resource manager does"},
    )
    pod_groups: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Groups in a row among which they are packed, as their domains share a pod; "
        "unset: all.",
        json_schema_extra={"source": "choice: the paper packs the whole job", "unit": "1"},
    )
    spare_domains: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Whole domains that stand by to take the places of the worst ones.",
        json_schema_extra={"source": "choice: none", "unit": "1"},
    )


class RestartingReplicas(Strategy):
    """Replicas that shrink or are dropped until what is broken of them is repaired.

    The loop's groups stay rows of the same GPUs, whoever is packed where. Where replicas are
    dropped, the groups that are hit most stay away in their stead. Their failures do not reach the
    job, as those of the packed domains would not, and these are as many.

    Replicas are alike, so a domain that changes its replica brings the state of its stage with it.
    One that gets another stage is sent that from another replica (`migration`); where all load from
    storage, it loads what it needs as all do.
    """

    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("migrate",)
    tracks_components: ClassVar[bool] = True
    needs_layout: ClassVar[bool] = True
    restart_replaces: ClassVar[bool] = False
    repairs_wait_for_restart: ClassVar[bool] = True

    def __init__(self, groups: int, redundancy: int, options: ReplicaOptions) -> None:
        super().__init__(groups, redundancy, options)
        self._packing, self._spare_domains = options.packing, options.spare_domains
        self._pod_groups = options.pod_groups or groups
        self._damage = Damage(self.shape.tensor)
        self._whole = StepPlan(tuple(range(groups)), 1)
        self._plan: StepPlan | None = self._whole
        # The stage whose state a domain has, where that was ever another than its own.
        self._held: dict[Place, int] = {}

    @abstractmethod
    def plans(self, domain_gpus: int, stages: int) -> Sequence[ReplicaPlan]:
        """Return what a replica does for 0, 1, ... broken GPUs in its worst domain.

        Parameters
        ----------
        domain_gpus : int
            GPUs of a domain.
        stages : int
            Domains of a replica.
        """

    def pace(self, whole_degree: int, reduced_degree: int) -> float:
        """Return how much longer a step computes if a member runs at a reduced degree."""
        return 1.0

    def restart(self) -> None:
        self._damage.clear()
        self._plan = self._whole

    def plan(self) -> StepPlan:
        if self._plan is None:
            self._plan = self._step_plan()
        return self._plan

    def on_hit(self, hit: Hit) -> None:
        self._damage.add(hit)
        self._plan = None

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Restart; count it where so few are left that their share of the state does not fit."""
        self.states_refused += 0 < len(self._job().members) < self.shape.least_groups
        return WipeOut(tuple(missing))

    def on_return(self, returning: Sequence[int]) -> None:
        """Take groups back whose hardware was replaced; nobody else leaves before a restart."""
        members = {*self.plan().members, *returning}
        self._damage.forget(returning)
        self._plan = replace(self._step_plan(), members=tuple(sorted(members)))

    def migration(self) -> Recovery | None:
        members, stages = set(self.plan().members), self._damage.domains_per_group
        moved, moves = {}, []
        if self._packing:
            moved = domains_in_places(self._replicas(), stages, self._pod_groups)
        for place in sorted({*moved, *self._held}):
            group, stage = place
            domain = moved.get(place, place)
            if group in members and self._held.get(domain, domain[1]) != stage:
                self._held[domain] = stage
                moves.append(Move(group, stage, stage, stages))
        return Recovery("migrate", (), moves=tuple(moves), is_expected=True) if moves else None

    def _replicas(self) -> list[HitReplica]:
        if self._packing:
            return packed_replicas(self._damage, self._spare_domains, self._pod_groups)
        return unpacked_replicas(self._damage, self._spare_domains)

    def _job(self) -> JobPlan:
        return job_plan(self.groups, self._replicas(), self._plans())

    def _plans(self) -> Sequence[ReplicaPlan]:
        return self.plans(self._damage.domain_gpus, self._damage.domains_per_group)

    def _step_plan(self) -> StepPlan:
        damage, plans, job = self._damage, self._plans(), self._job()
        if len(job.members) < self.shape.least_groups:
            return NOTHING_LEFT
        pace = 1.0
        if job.reduced_degree is not None:
            pace = self.pace(damage.domain_gpus, job.reduced_degree)
        share = job.sequences / (self.groups * plans[0].sequences)
        shape, power = self.shape, PowerCurve()
        pipelines = tuple(
            reduced(
                group,
                shape.stages,
                -(-plan.sequences // shape.micro_batch_sequences),
                plan.degree,
                1.0 / power.performance(plan.power),
            )
            for group, plan in sorted(job.hit.items())
            if plan != plans[0]
        )
        return StepPlan(job.members, 1, 1, pace, share, job.power, pipelines=pipelines)

    def masked_failures(self) -> float:
        """Return 1: every failure makes the job restart."""
        return 1.0

    def work_per_step(self) -> float:
        """Each group computes its one shard type."""
        return 1.0
