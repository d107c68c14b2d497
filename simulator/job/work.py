"""The work of a training job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.failures.reactions import Reactions, SlowResponse
from faultline.simulator.job.background import WriteBesideSteps
from faultline.simulator.job.conditions import Disturbances
from faultline.simulator.job.durations import StepTimes
from faultline.simulator.job.phases import Compute
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.strategies.protection.base import Tier
from faultline.strategies.protection.checkpoint_policies import CheckpointPolicy


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a job."""

    groups: int  # Data-parallel groups N.
    steps: int  # Steps to complete.
    compute_s: float  # Seconds to compute one shard type on one group.
    # Standard deviation of the factor on `compute_s`, drawn for each group and shard type from a
    # normal distribution of mean 1. If steps are simulated, computations of all groups take the
    # factor of the slowest one.
    compute_jitter: float
    minimum_factor: float  # The factor is never below this.
    # Decides when a checkpoint is due for which the job waits; one more is written after the last
    # step.
    checkpoint_policy: CheckpointPolicy
    time_limit_s: float | None = None  # Give up after this much simulated time, in seconds.
    # Give up after this many restarts without a new checkpoint between them.
    give_up_after_restarts: int = 1000
    # Groups that stand by to replace failed ones, if these may rejoin at a checkpoint.
    spare_groups: int = 0
    # Seconds of a repair that the failure does not state.
    repair_s: float = 0.0
    # Seconds until a dropped group runs on other machines; infinite if there are none but counted
    # standbys and spare groups.
    replacement_s: float = inf
    # The tiers that keep snapshots taken in the background, the fastest to load first.
    tiers: tuple[Tier, ...] = ()
    layout: JobLayout | None = None  # Which hosts the groups are on; needed if there are tiers.
    standbys: int = 0  # Standby machines, outside of the job, that replace failed ones.
    # Seconds until another machine replaces a used standby; None if the failed machine does, once
    # it is repaired.
    replenish_s: float | None = None
    standby_repair_s: float = 0.0  # Seconds to repair a standby that fails while standing by.
    standby_s: float = 0.0  # Seconds until a standby is in its place.
    # Returns a new sequence of the standbys' lifetimes, in seconds; None if they never fail.
    standby_lives: Callable[[], Iterator[float]] | None = field(default=None, compare=False)
    # The failures that stop no group.
    disturbances: Disturbances | None = field(default=None, compare=False)
    # Measured times of steps; None if none of their messages is simulated.
    step_times: StepTimes | None = field(default=None, compare=False)
    # Reactions to failures that stop no group.
    reactions: Reactions = field(default_factory=Reactions)
    # Share by which an approximate gradient trains less than an exact one.
    approximation_loss: float = 0.0
    simulates_steps: bool = False  # Whether steps are simulated on the platform, rank by rank.
    # How snapshots and concurrent steps slow each other, by the name of the tier; tiers that share
    # no link with steps are left out.
    writes: Mapping[str, WriteBesideSteps] = field(default_factory=dict)
    # Mitigation of stragglers that stay in the job; None without any.
    slow_response: SlowResponse | None = None
    # Further machines that replace failed ones when no standby is left. If none of them is left
    # either, the job waits for repairs. None for an unlimited number.
    free_machines: int | None = None
    gradients_hide: bool = False  # Whether gradients hide behind the passes of simulated steps.

    def occupied(self, phase: Compute, patch: Mapping[int, int]) -> Mapping[int, int]:
        """Return how many stacks of a patch the GPUs of each group compute.

        A group is busy for as long as the longest pipeline that lists its nodes.
        """
        if not (self.simulates_steps and phase.pipelines):
            return patch
        computing = StepShares(phase.members, phase.pipelines).computing(patch)
        stacks = {group: patch.get(group, 1) for group in computing}
        busy = dict(stacks)
        for one in phase.pipelines:
            for group in {stage.group for stage in one.stages} if one.group in stacks else ():
                busy[group] = max(busy.get(group, 0), stacks[one.group])
        return busy

    def finishing_groups(self, phase: Compute, lacking: Collection[int]) -> tuple[int, ...]:
        """Return the groups that finish a phase: no group that computes a stage of theirs is down.

        Idle groups compute nothing.
        """
        shares, lost = StepShares(phase.members, phase.pipelines), frozenset(lacking)
        computing = phase.members if phase.patch is None else shares.computing(phase.patch)
        changed = {one.group: {stage.group for stage in one.stages} for one in phase.pipelines}
        computed_on = {group: changed.get(group, {group}) for group in computing}
        return tuple(
            group for group, groups in computed_on.items() if groups and lost.isdisjoint(groups)
        )
