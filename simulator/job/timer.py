"""How long the parts of a job take: the loop and the engines ask the timer, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faultline.simulator.job.conditions import (
    NO_DISTURBANCES,
    UNDISTURBED,
    Disturbances,
    Slowdown,
)
from faultline.simulator.job.durations import Durations, StepTimes
from faultline.simulator.job.phases import AllReduce, Compute
from faultline.simulator.job.work import Work
from faultline.simulator.pattern.plan_shares import SOUND_STEP, SlowStep, StepShares
from faultline.strategies.interface.recovery import Recovery, SentMove
from faultline.strategies.interface.scheme import StepPlan


@dataclass(frozen=True, slots=True)
class Timer:
    """Seconds of a job's steps, exchanges, saves, loads and moves.

    They are stated, or SimGrid simulates them on the platform: each distinct request once, which
    the caches in memory and on disk keep.
    """

    work: Work
    durations: Durations
    disturbances: Disturbances = NO_DISTURBANCES

    def stack_s(self, phase: Compute, slow: Slowdown = UNDISTURBED) -> float:
        """Return how long a phase computes per stack, in seconds.

        It is simulated on the platform if steps are. It includes neither the wait of
        `least_stack_s` nor stragglers other than those of `slow`, which only jobs with simulated
        steps have.
        """
        work, patch = self.work, phase.patch
        stated_s = phase.stack_size * work.compute_s * (phase.pace * phase.factor)
        if not (work.simulates_steps and phase.members):
            return stated_s
        rounds = phase.stacks if patch is None else 1
        # Fewer gradients than usual, or none, hide behind the passes and share their links.
        hidden_differ = work.gradients_hide and (
            patch is not None or len(phase.members) < work.groups
        )
        changed = rounds * phase.stack_size > 1 or phase.factor != 1.0 or hidden_differ
        conditions = slow.step._replace(parts_down=phase.parts_down)
        times = self._measured(conditions, changed=changed or bool(phase.pipelines))
        if times is None:
            return stated_s
        shares = StepShares(phase.members, phase.pipelines, phase.stack_size)
        if patch is not None:
            shares = shares.exposed()
            # Weights that are sharded come from all members.
            if not work.shares_weights:
                shares = shares.of(shares.computing(patch))
        stack_s = times.passes_s(shares, conditions, rounds, phase.factor) / rounds
        return stack_s if phase.pipelines else phase.pace * stack_s

    def least_stack_s(self, plan: StepPlan) -> float:
        """Return the seconds per stack with which a step progresses as fast as a sound one.

        A plan with missing parts may use a schedule that is faster than that of a sound pipeline,
        for example one without a barrier between steps. A sound pipeline could use it too. So a
        step lasts at least its share of a sound step. Returns 0 if no part is missing, or if steps
        are not simulated.
        """
        work = self.work
        if not (work.simulates_steps and work.step_times and plan.members):
            return 0.0
        if not plan.pipelines and len(plan.members) == work.groups:
            return 0.0
        everyone = StepShares(tuple(range(work.groups)))
        sound_s = work.compute_s + work.step_times.exchange_s(everyone)
        exchange_s = work.step_times.exchange_s(StepShares(plan.members, plan.pipelines))
        return max(0.0, (plan.batch_share * sound_s - exchange_s) / plan.stacks)

    def slower(self, phase: Compute, factor: float) -> Compute:
        """Return the phase with computations that take `factor` times as long."""
        slower = phase._replace(factor=phase.factor * factor)
        if not (self.work.simulates_steps and phase.has_whole_passes):
            return slower._replace(stack_s=phase.stack_s * factor)
        stack_s = max(self.stack_s(slower), phase.least_stack_s)
        return slower._replace(stack_s=stack_s, slow=self.slowdown_of(slower, phase.slow))

    def slowdown_of(self, phase: Compute, slow: Slowdown) -> Slowdown:
        """Return the slowdown of a phase, given that of an undisturbed step."""
        work = self.work
        # Links that do not slow the passes of an undisturbed step may slow those of another.
        is_slow = slow.compute or slow.step.links
        if not is_slow or self.disturbances.effects is None or not work.simulates_steps:
            return slow
        if phase.factor != 1.0 or phase.stack_size > 1:
            slow = slow.at(phase.factor, self.disturbances.effects, phase.stack_size)
        if not self._is_simulated(slow):
            return slow
        sound_s = max(self.stack_s(phase), phase.least_stack_s)
        return slow.at_most(max(1.0, self.stack_s(phase, slow) / sound_s), phase.members)

    def occupied(self, phase: Compute, patch: Mapping[int, int]) -> Mapping[int, int]:
        """Return how many stacks of a patch the GPUs of each group compute.

        A group is busy for as long as the longest pipeline that lists its nodes.
        """
        if not (self.work.simulates_steps and phase.pipelines):
            return patch
        computing = StepShares(phase.members, phase.pipelines).computing(patch)
        stacks = {group: patch.get(group, 1) for group in computing}
        busy = dict(stacks)
        for one in phase.pipelines:
            for group in {stage.group for stage in one.stages} if one.group in stacks else ():
                busy[group] = max(busy.get(group, 0), stacks[one.group])
        return busy

    def exchange_s(self, phase: Compute | AllReduce) -> float:
        """Return the time of an all-reduce of the members of a phase, in seconds."""
        exact_s = None if self.work.step_times is None else self._exact_exchange_s(phase)
        stated_s = self.durations.all_reduce_s(len(phase.members))
        return (stated_s if exact_s is None else exact_s) * self._stated_slowdown(phase)

    def _exact_exchange_s(self, phase: Compute | AllReduce) -> float | None:
        """Return the seconds of an all-reduce; None if only the number of members decides."""
        work, repeated = self.work, isinstance(phase, AllReduce) and phase.repeated
        hides = work.gradients_hide and not repeated
        stacks, size = (max(phase.stacks, 1), phase.stack_size) if hides else (1, 1)
        changed = repeated or len(phase.members) < work.groups or stacks * size > 1
        # Slow passes hide more gradients.
        is_simulated = hides and self._is_simulated(phase.slow)
        slow = phase.slow.step if is_simulated else SlowStep(phase.slow.step.links)
        conditions = slow._replace(parts_down=phase.parts_down)
        times = self._measured(conditions, changed=changed or bool(phase.pipelines))
        if times is None:
            return None
        shares = StepShares(phase.members, phase.pipelines, size).of_round(stacks - 1, stacks)
        return times.exchange_s(shares.exposed() if repeated else shares, conditions)

    def network_slowdown(self, phase: AllReduce) -> float:
        """Return the factor by which lost or slow parts of the network prolong an all-reduce."""
        conditions = SlowStep(phase.slow.step.links, parts_down=phase.parts_down)
        times = self.work.step_times
        if conditions == SOUND_STEP or times is None:
            return phase.slow.collective
        shares = StepShares(phase.members, phase.pipelines)
        whole_s, slow_s = times.exchange_s(shares), times.exchange_s(shares, conditions)
        # Longer passes may hide more of the gradients.
        return max(1.0, slow_s * self._stated_slowdown(phase) / whole_s) if whole_s else 1.0

    def save_s(self, writer: int) -> float:
        """Return the time in which a group writes a checkpoint to storage, in seconds."""
        durations = self.durations
        return durations.save_s if durations.storage is None else durations.storage.save_s(writer)

    def load_s(self, members: Sequence[int]) -> float:
        """Return the time to load a checkpoint from storage into some groups, in seconds."""
        durations = self.durations
        return durations.load_s if durations.storage is None else durations.storage.load_s(members)

    def sent_s(self, moves: Sequence[SentMove]) -> float:
        """Return the time until everything that members send has arrived, in seconds."""
        assert self.durations.moves is not None
        return self.durations.moves.duration_s(moves)

    def moves(self, recovery: Recovery) -> bool:
        """Return whether moves of state in a recovery are simulated: not if its time is stated."""
        if not recovery.moves or self.durations.moves is None:
            return False
        return self.durations.recovery.whole_s(recovery) is None

    def costs_depend_on_members(self, plan: StepPlan) -> bool:
        """Return whether plans that differ only in their members may take different times."""
        return bool(
            self.work.step_times is not None or plan.approximate or plan.pipelines or plan.mirrors
        )

    def _is_simulated(self, slow: Slowdown) -> bool:
        """Return whether a step is simulated with all of its stragglers."""
        return bool(
            (slow.compute or slow.step.links) and slow.ranks_are_known and self.work.simulates_steps
        )

    def _stated_slowdown(self, phase: Compute | AllReduce) -> float:
        """Return the factor on an all-reduce for stragglers that its time leaves out.

        Slow links are part of its time if messages are simulated.
        """
        links_simulated = phase.slow.step.links and self.work.step_times is not None
        return 1.0 if links_simulated else phase.slow.collective

    def _measured(self, conditions: SlowStep, *, changed: bool) -> StepTimes | None:
        """Return the measured times, unless the usual times apply to a step.

        A simulated step may be `changed`: in its members, its work, or its pace.
        """
        times = self.work.step_times
        if times is None or times.depends_on_members or conditions != SOUND_STEP:
            return times
        return times if changed and self.work.simulates_steps else None
