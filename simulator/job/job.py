"""A training job for the simulator: its work, and the rules by which it fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from faultline.simulator.failures.clocks import ClockRule
from faultline.simulator.failures.failure import (
    Failure,
    JobLayout,
    Transient,
    stops_machine,
)
from faultline.simulator.failures.models import FailureModel
from faultline.simulator.failures.reactions import Reactions, SlowResponse
from faultline.simulator.job.background import WriteBesideSteps
from faultline.simulator.job.conditions import UNDISTURBED, Disturbances, Slowdown
from faultline.simulator.job.courses import Courses
from faultline.simulator.job.durations import AllReduceTime, DetourTimes, MemberTimes, StorageTimes
from faultline.simulator.job.phases import AllReduce, Compute
from faultline.simulator.job.recovery_times import MoveTimes, RecoveryPrices
from faultline.simulator.pattern.step_shares import SOUND_STEP, SlowStep, StepShares
from faultline.strategies.interface.recovery import RESTART, Recovery, SentMove
from faultline.strategies.interface.scheme import StepPlan
from faultline.strategies.interface.step_shares import Pipeline
from faultline.strategies.protection.base import Tier
from faultline.strategies.protection.checkpoint_policies import CheckpointPolicy

Detection = Literal["all-reduce", "watchdog"]
FailureInAllReduce = Literal["next-step", "fails-it"]
FixedStep = Literal["commits", "retries"]
FailureInRestart = Literal["begins-anew", "absorbed"]
FailureWhileWaiting = Literal["surfaces", "absorbed"]
Resume = Literal["redo", "after"]
FailedWriter = Literal["skips", "replaced"]
Rejoin = Literal["at-restart", "at-checkpoint"]


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
    # Times of a step of some groups on a platform that treats them unequally.
    member_times: MemberTimes | None = field(default=None, compare=False)
    # The failures that stop no group.
    disturbances: Disturbances | None = field(default=None, compare=False)
    # Times of a step without parts of the network, or with groups whose work differs from an
    # undisturbed step; None if its messages are not simulated.
    detour_times: DetourTimes | None = field(default=None, compare=False)
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
    # Simulates steps during snapshots, and steps that fail while hidden gradients are in flight.
    courses: Courses | None = field(default=None, compare=False, repr=False)

    @property
    def simulates_failing_steps(self) -> bool:
        """Whether passes in which a group fails are simulated as a course.

        The hidden gradients of the remaining groups share links with the passes.
        """
        # With jitter each course would be different.
        courses = None if self.compute_jitter else self.courses
        return self.gradients_hide and courses is not None and courses.simulate_failures

    def stack_s(self, phase: Compute, slow: Slowdown = UNDISTURBED) -> float:
        """Return how long a phase computes per stack, in seconds.

        It is simulated on the platform if steps are. It includes neither the wait of
        `least_stack_s` nor stragglers other than those of `slow`, which only jobs with simulated
        steps have.
        """
        stated_s = phase.stack_size * self.compute_s * (phase.pace * phase.factor)
        if not self.simulates_steps:
            return stated_s
        patch = phase.patch
        rounds = phase.stacks if patch is None else 1
        types = rounds * phase.stack_size
        # Fewer gradients than usual, or none, hide behind the passes and share their links.
        hidden_differ = self.gradients_hide and (
            patch is not None or len(phase.members) < self.groups
        )
        more = types > 1 or phase.factor != 1.0 or hidden_differ
        times = self._times(phase.parts_down, phase.pipelines, slow.step, more=more)
        if times is None or not phase.members:
            return stated_s
        shares = StepShares(phase.members, phase.pipelines, phase.stack_size)
        if patch is not None:
            shares = shares.exposed().of(shares.computing(patch))
        simulated_s = times.passes_s(shares, rounds, phase.factor) / rounds
        return simulated_s if phase.pipelines else phase.pace * simulated_s

    def least_stack_s(self, plan: StepPlan) -> float:
        """Return the seconds per stack with which a step progresses as fast as a sound one.

        A plan with missing parts may use a schedule that is faster than that of a sound pipeline,
        for example one without a barrier between steps. A sound pipeline could use it too. So a
        step lasts at least its share of a sound step. Returns 0 if no part is missing, or if steps
        are not simulated.
        """
        if not (self.simulates_steps and self.detour_times and plan.members):
            return 0.0
        if not plan.pipelines and len(plan.members) == self.groups:
            return 0.0
        times = self.detour_times((), SOUND_STEP)
        sound_s = self.compute_s + times.sync_s(StepShares(tuple(range(self.groups))))
        sync_s = times.sync_s(StepShares(plan.members, plan.pipelines))
        return max(0.0, (plan.batch_share * sound_s - sync_s) / plan.stacks)

    def slower(self, phase: Compute, factor: float) -> Compute:
        """Return the phase with computations that take `factor` times as long."""
        slower = phase._replace(factor=phase.factor * factor)
        if not (self.simulates_steps and phase.has_whole_passes):
            return slower._replace(stack_s=phase.stack_s * factor)
        stack_s = max(self.stack_s(slower), phase.least_stack_s)
        return slower._replace(stack_s=stack_s, slow=self.slowdown_of(slower, phase.slow))

    def slowdown_of(self, phase: Compute, slow: Slowdown) -> Slowdown:
        """Return the slowdown of a phase."""
        # Links that do not slow the passes of an undisturbed step may slow those of another.
        is_slow = slow.compute or slow.step.links
        if not is_slow or self.disturbances is None or not self.simulates_steps:
            return slow
        if phase.factor != 1.0 or phase.stack_size > 1:
            slow = slow.at(phase.factor, self.disturbances.effects, phase.stack_size)
        if not (phase.pipelines or self.gradients_hide) or not self._is_simulated(slow):
            # Groups share no link, and the time of each is known.
            return slow
        sound_s = max(self.stack_s(phase), phase.least_stack_s)
        return slow.at_most(max(1.0, self.stack_s(phase, slow) / sound_s), phase.members)

    def _is_simulated(self, slow: Slowdown) -> bool:
        """Return whether a step is simulated with all of its stragglers."""
        return bool(
            (slow.compute or slow.step.links)
            and slow.ranks_are_known
            and self.simulates_steps
            and self.detour_times is not None
        )

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

    def finishing_stack_s(self, phase: Compute, lacking: Collection[int]) -> float:
        """Return the seconds per stack of the groups that finish a phase.

        The slowest group may be missing.
        """
        slow = self.member_times is not None or phase.parts_down or phase.pipelines
        if not slow or not self.simulates_steps or not phase.has_whole_passes:
            return phase.stack_s
        finishing = self.finishing_groups(phase, lacking)
        shares = StepShares(phase.members, phase.pipelines).of(finishing)
        rest = phase._replace(members=shares.members, pipelines=shares.pipelines)
        if phase.patch is not None:
            rest = rest._replace(patch=dict.fromkeys(rest.members, 1))
        return self.stack_s(rest)

    def sync_s(self, phase: Compute | AllReduce) -> float | None:
        """Return the seconds of an all-reduce; None if only the number of members decides."""
        repeated = isinstance(phase, AllReduce) and phase.repeated
        hides = self.gradients_hide and not repeated
        stacks, size = (max(phase.stacks, 1), phase.stack_size) if hides else (1, 1)
        more = repeated or len(phase.members) < self.groups or stacks * size > 1
        # Slow passes hide more gradients.
        is_simulated = hides and self._is_simulated(phase.slow)
        slow = phase.slow.step if is_simulated else SlowStep(phase.slow.step.links)
        times = self._times(phase.parts_down, phase.pipelines, slow, more=more)
        shares = StepShares(phase.members, phase.pipelines, size).of_round(stacks - 1, stacks)
        return None if times is None else times.sync_s(shares.exposed() if repeated else shares)

    def detour(self, phase: AllReduce) -> float:
        """Return the factor by which lost or slow parts of the network prolong an all-reduce."""
        lacking = phase.parts_down or phase.slow.step.links
        if not lacking or self.detour_times is None:
            return phase.slow.collective
        shares = StepShares(phase.members, phase.pipelines)
        whole_s = self.detour_times((), SOUND_STEP).sync_s(shares)
        slow_s = self.detour_times(phase.parts_down, SlowStep(phase.slow.step.links)).sync_s(shares)
        # Longer passes may hide more of the gradients.
        return max(1.0, slow_s * self.unsimulated_s_of(phase) / whole_s) if whole_s else 1.0

    def unsimulated_s_of(self, phase: Compute | AllReduce) -> float:
        """Return the factor on an all-reduce for stragglers that its time leaves out.

        Slow links are part of its time if messages are simulated.
        """
        links_simulated = phase.slow.step.links and self.detour_times is not None
        return 1.0 if links_simulated else phase.slow.collective

    def _times(
        self,
        parts_down: Sequence[str],
        pipelines: Sequence[Pipeline],
        slow: SlowStep,
        *,
        more: bool = False,
    ) -> MemberTimes | None:
        changed = self.simulates_steps and (pipelines or more)
        if self.detour_times is not None and (parts_down or slow != SOUND_STEP or changed):
            return self.detour_times(parts_down, slow)
        return self.member_times


@dataclass(frozen=True, slots=True)
class Rules:
    """How failures are noticed and what they cost: the named choices of a scenario."""

    clock: ClockRule  # What determines a group's next failure (`simulator.failures.clocks`).
    # Whether an all-reduce that lacks a member fails after a fraction of its time, or hangs until a
    # watchdog fires.
    detection: Detection
    # Cost of an all-reduce that lacked a member from the start, as a fraction of a good one.
    failed_all_reduce_fraction: float
    # Time-out of the watchdog, from the start of the all-reduce, in seconds. If steps are
    # simulated, the rest of a group waits for a rank that fails in the passes, and the watchdog's
    # time counts from then on.
    watchdog_s: float
    # Whether a failure of a group that has finished its compute breaks this all-reduce, or is
    # noticed only in the next step.
    failure_in_all_reduce: FailureInAllReduce
    # Whether a step that lost nothing by its failures commits at once, or repeats its all-reduce.
    fixed_step: FixedStep
    # Whether a group that fails during its own restart begins it again, while all wait for the
    # slowest; or the failure is repaired within the restart.
    failure_in_restart: FailureInRestart
    # Whether a group that fails after its own restart, while it waits for others, is missing in the
    # first step; or the failure is repaired within the restart.
    failure_while_waiting: FailureWhileWaiting
    # Whether the job, restarted, repeats the last step before the checkpoint, or goes on after it.
    resume: Resume
    # Whether the checkpoint is left out if its writer is down, or the next member writes it.
    failed_writer: FailedWriter
    # When groups that were dropped come back: with a global restart only, or at the first
    # checkpoint or snapshot after their repair.
    rejoin: Rejoin = "at-restart"
    # Whether a restart moves to other machines even if only software has failed.
    transient: Transient = "replaced"

    def stops_machine(self, failure: Failure) -> bool:
        """Return whether a failure stops machines, rather than processes alone."""
        return stops_machine(failure.kind, failure.level, self.transient)


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations of phases that the scenario states or a probe has measured; all in seconds."""

    all_reduce_s: AllReduceTime  # Time of an all-reduce, by the number of its members.
    # Time to write a checkpoint, and to load one into all groups after a restart (0 if that is part
    # of it).
    save_s: float
    load_s: float
    recovery: RecoveryPrices  # Times of recoveries without their moves of state.
    # Measured times of an all-reduce by its members; None if groups are alike.
    rings: MemberTimes | None = field(default=None, compare=False)
    # Measured times of writing and loading, by group; None if not measured.
    storage: StorageTimes | None = field(default=None, compare=False)
    # Times of moves of state between groups; None if none moves.
    moves: MoveTimes | None = field(default=None, compare=False)
    # How a write to storage in the background and concurrent steps slow each other; None if they
    # share no link.
    write_beside: WriteBesideSteps | None = None

    def restart_s(self, recovery: Recovery = RESTART) -> float:
        """Return the time of a restart without loading, in seconds."""
        return self.recovery.duration_s(recovery)


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that an engine needs for a run, except the scheme."""

    work: Work
    rules: Rules
    durations: Durations
    failures: FailureModel
    seed: int

    def all_reduce_s(self, phase: Compute | AllReduce) -> float:
        """Return the time of an all-reduce of the members of a phase, in seconds."""
        work = self.work
        if work.member_times is None and work.detour_times is None:
            return self.durations.all_reduce_s(len(phase.members)) * phase.slow.collective
        exact = work.sync_s(phase)
        whole_s = self.durations.all_reduce_s(len(phase.members)) if exact is None else exact
        return whole_s * work.unsimulated_s_of(phase)

    def moves(self, recovery: Recovery) -> bool:
        """Return whether moves of state in a recovery are simulated: not if its time is stated."""
        if not recovery.moves or self.durations.moves is None:
            return False
        return not self.durations.recovery.states(recovery)

    def sent_s(self, moves: Sequence[SentMove]) -> float:
        """Return the time until everything that members send has arrived, in seconds."""
        assert self.durations.moves is not None
        return self.durations.moves.duration_s(moves)

    def save_s(self, writer: int) -> float:
        """Return the time in which a group writes a checkpoint to storage, in seconds."""
        durations = self.durations
        return durations.save_s if durations.storage is None else durations.storage.save_s(writer)

    def load_s(self, members: Sequence[int]) -> float:
        """Return the time to load a checkpoint from storage into some groups, in seconds."""
        durations = self.durations
        return durations.load_s if durations.storage is None else durations.storage.load_s(members)
