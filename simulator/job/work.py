"""The values of a training job: its work, its machines, and how it saves its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.job.background import WriteBesideSteps
from faultline.simulator.job.durations import StepTimes
from faultline.strategies.protection.base import Tier
from faultline.strategies.protection.checkpoint_policies import CheckpointPolicy


@dataclass(frozen=True, slots=True)
class Work:
    """The steps of a job, and when it gives up."""

    groups: int  # Data-parallel groups N.
    steps: int  # Steps to complete.
    compute_s: float  # Seconds to compute one shard type on one group.
    # Standard deviation of the factor on `compute_s`, drawn for each group and shard type from a
    # normal distribution of mean 1. If steps are simulated, computations of all groups take the
    # factor of the slowest one.
    compute_jitter: float = 0.0
    time_limit_s: float | None = None  # Give up after this much simulated time, in seconds.
    # Give up after this many restarts without a new checkpoint between them.
    give_up_after_restarts: int = 1000
    # Share by which an approximate gradient trains less than an exact one.
    approximation_loss: float = 0.0
    # Measured times of steps; None if none of their messages is simulated.
    step_times: StepTimes | None = field(default=None, compare=False)

    @property
    def simulates_steps(self) -> bool:
        """Whether steps are simulated on the platform, rank by rank."""
        return self.step_times is not None and self.step_times.step is not None

    @property
    def gradients_hide(self) -> bool:
        """Whether gradients hide behind the passes of simulated steps."""
        step = None if self.step_times is None else self.step_times.step
        return step is not None and step.pattern.hides

    @property
    def shares_weights(self) -> bool:
        """Whether groups gather weights from each other during the passes of a step."""
        step = None if self.step_times is None else self.step_times.step
        return step is not None and step.pattern.has_units


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machines of a job, and those that replace failed ones."""

    layout: JobLayout  # Which hosts the groups are on.
    repair_s: float = 0.0  # Seconds of a repair that the failure does not state.
    # Groups that stand by to replace failed ones, if these may rejoin at a checkpoint.
    spare_groups: int = 0
    standbys: int = 0  # Standby machines, outside of the job, that replace failed ones.
    standby_s: float = 0.0  # Seconds until a standby is in its place.
    # Seconds until another machine replaces a used standby; None if the failed machine does, once
    # it is repaired.
    replenish_s: float | None = None
    standby_repair_s: float = 0.0  # Seconds to repair a standby that fails while standing by.
    standby_life_s: float = inf  # Mean time until a standby fails while standing by, in seconds.
    # Further machines that replace failed ones when no standby is left. If none of them is left
    # either, the job waits for repairs. None for an unlimited number.
    free_machines: int | None = None
    # Seconds until a dropped group runs on other machines; infinite if there are none but counted
    # standbys and spare groups.
    replacement_s: float = inf


@dataclass(frozen=True, slots=True)
class Saving:
    """When and where a job saves its state."""

    # Decides when a checkpoint is due for which the job waits; one more is written after the last
    # step.
    policy: CheckpointPolicy
    # The tiers that keep snapshots taken in the background, the fastest to load first.
    tiers: tuple[Tier, ...] = ()
    # How snapshots and concurrent steps slow each other, by the name of the tier; tiers that share
    # no link with steps are left out.
    writes: Mapping[str, WriteBesideSteps] = field(default_factory=dict)
