"""The training loop: one generator, run by any engine.

It knows steps, checkpoints and the scheme's verdicts, but no random number and no SimGrid: it
yields phases and is sent their outcomes. Of the failure clocks, it only looks at failures that no
step has shown.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from math import ceil

from faultline.simulator.accounting.progress import Batches
from faultline.simulator.accounting.timeline import Event, EventKind
from faultline.simulator.failures.clocks import FailureClocks
from faultline.simulator.failures.failure import Failure
from faultline.simulator.job.job import Job
from faultline.simulator.job.phases import Outcome, Phase, QuietSteps, Snapshots
from faultline.simulator.loop.interruptions import Interruptions
from faultline.simulator.loop.machines import Machines
from faultline.simulator.loop.restarter import Restarter
from faultline.simulator.loop.saver import Saver
from faultline.simulator.loop.state import TrainingState
from faultline.simulator.loop.step_phases import StepCosts, StepPhases, patch_compute
from faultline.strategies.interface.scheme import Continue, Strategy, WipeOut

TrainingLoop = Generator[Phase, Outcome, None]


class Training:
    """A job under a scheme: steps, and what comes between them.

    Each `Event` is passed to `record`. Events of steps are passed only if `records_steps`, because
    runs without them are faster. After every checkpoint `on_checkpoint` is called with the
    completed steps and the simulated time, for progress displays.

    Attributes
    ----------
    state : TrainingState
        The state that all parts read and change.
    saver, machines, restarter, interruptions : Saver, Machines, Restarter, Interruptions
        The parts; each has one task between steps.
    """

    def __init__(
        self,
        job: Job,
        strategy: Strategy,
        record: Callable[[Event], None] | None = None,
        on_checkpoint: Callable[[int, float], None] | None = None,
        *,
        records_steps: bool = True,
    ) -> None:
        self.state = TrainingState(job, strategy, record, records_steps=records_steps)
        self.saver = Saver(self.state, job.timer, on_checkpoint)
        self.machines = Machines(self.state)
        self.restarter = Restarter(self.state, self.saver, self.machines)
        self.interruptions = Interruptions(self.state, self.saver, self.machines, self.restarter)
        self.work, self.strategy, self.progress = job.work, strategy, self.state.progress
        self._timer = job.timer
        self._is_disturbed = job.disturbances.begin is not None
        self._most_restarts = job.work.give_up_after_restarts

    def loop(self, clocks: FailureClocks) -> TrainingLoop:
        """Return the generator of phases; it ends when the job is done or out of time."""
        self.machines.clocks = self.saver.clocks = clocks
        state, strategy, hits = self.state, self.strategy, self.state.hits
        progress, seconds = self.progress, state.seconds
        holds_last_step = state.memory.holds_last_step
        meets_conditions = self._is_disturbed
        simulates_steps = self.work.simulates_steps
        while not state.is_done() and state.goes_on():
            if hits.next_repair_s <= progress.now_s:
                yield from self.restarter.hand_back()
            if state.plan is not strategy.plan():
                state.contract.replanned()
                state.follow_plan()
            if meets_conditions and (yield from self.interruptions.react()):
                state.follow_plan()
                continue
            step = state.step
            quiet = self._quiet_steps(step)
            if quiet is not None:
                outcome = yield quiet
                if outcome.steps and (yield from self._end_quiet_steps(step, quiet, outcome)):
                    continue
            state.disturbed = False
            outcome, costs = (yield step.compute), step.costs
            batches, all_reduced = costs.batches, (yield step.all_reduce)
            missing, ended_s, disturbed_s = all_reduced.missing, outcome.now_s, outcome.disturbed_s
            if missing and holds_last_step:
                state.before_failure = state.to_save(progress.now_s)
            if missing and simulates_steps:
                # In a broken step the delay by a copy and the wait for a failed rank overlap.
                ended_s, disturbed_s = ended_s - disturbed_s, 0.0
            seconds["checkpoint"] += disturbed_s
            state.book_compute(costs, 1, ended_s - progress.now_s - disturbed_s)
            progress.now_s = ended_s
            if missing:
                if not (yield from self._repair(all_reduced)):
                    continue
                # A group that has been dropped adds nothing to the step.
                batches = state.step.costs.batches
                self._book_untrained(costs, batches)
            else:
                self._book_all_reduce(all_reduced, costs)
            if self._commit(step, batches):
                yield from self._end_step(step.down)
        progress.checkpoints -= state.memory.checkpoint.lost

    def _book_all_reduce(self, outcome: Outcome, costs: StepCosts) -> None:
        """Book the successful all-reduce of a step."""
        duration_s = outcome.now_s - self.progress.now_s - outcome.disturbed_s
        self.state.seconds["checkpoint"] += outcome.disturbed_s
        self.state.book_all_reduce(duration_s, costs.reduced_share)
        self.progress.now_s = outcome.now_s

    def _book_untrained(self, costs: StepCosts, batches: Batches) -> None:
        """Book as degraded the compute of a step that trains fewer batches than planned."""
        if batches is not costs.batches:
            untrained_s = costs.useful_s * (1.0 - batches.trained / costs.batches.trained)
            self.state.seconds["compute"] -= untrained_s
            self.state.seconds["degraded"] += untrained_s

    def _commit(self, step: StepPhases, batches: Batches) -> bool:
        """Count a step that is done; return whether anything may be due after it."""
        state, progress = self.state, self.progress
        progress.completed_steps += 1
        if progress.completed_steps <= state.loaded.steps:
            # A step that was saved before counts the same batches when it is repeated.
            progress.take_back(state.loaded.booked)
            batches = state.loaded.last
        progress.train(1, batches)
        if state.records_steps:
            state.log(EventKind.STEP, stacks=step.compute.stacks)
        is_due = progress.completed_steps >= state.due_step or progress.now_s >= state.due_s
        return is_due or state.is_done()

    def _end_step(self, down: int) -> Generator[Phase, Outcome, None]:
        """After a step, save the state if that is due, and let groups rejoin.

        The state is also saved after the last step.
        """
        state = self.state
        is_saved = yield from self.saver.save_if_due(down)
        if not state.is_done():
            if is_saved and state.readmits:
                yield from self.restarter.readmit()
        elif not (yield from self.saver.save()):
            # No group was left to write the last checkpoint.
            state.before_failure = state.to_save(self.progress.now_s)
            yield from self.restarter.restart()

    def _end_quiet_steps(
        self, step: StepPhases, quiet: QuietSteps, outcome: Outcome
    ) -> Generator[Phase, Outcome, bool]:
        """Book consecutive quiet steps; return False if a failure may come next."""
        state = self.state
        is_cut_short = outcome.steps < quiet.at_most and outcome.now_s < quiet.until_s
        steps, all_reduce_s = outcome.steps, outcome.all_reduce_s
        if quiet.snapshots and len(outcome.ends_s):
            steps -= self.saver.book_snapshots(quiet.snapshots, outcome, last=is_cut_short)
            all_reduce_s *= steps / outcome.steps
        if steps:
            state.book_quiet_steps(steps, outcome.now_s, all_reduce_s)
        if is_cut_short:
            return False
        yield from self._end_step(step.down)
        return True

    def _quiet_steps(self, step: StepPhases) -> QuietSteps | None:
        """Return the next steps after which nothing has to be checked; None without any.

        Recorded steps, and steps that were saved before, are checked one by one.
        """
        state, progress, memory = self.state, self.progress, self.state.memory
        now_s, done, down = progress.now_s, progress.completed_steps, step.down
        state.due_step, every = 0, 0
        if self.saver.has_postponed or state.records_steps:
            return None
        if done < state.loaded.steps or not step.compute.members:
            return None
        due_step, until_s = state.policy.not_due_before(
            done, now_s - state.unsaved_since_s, now_s, down
        )
        if memory.slots:
            is_checked = (down and state.readmits) or state.conditions.storage_back_s > now_s
            every = 0 if is_checked else memory.snapshots_every
        for slot in () if every else memory.slots:
            slot_step, slot_s = slot.not_due_before(done, now_s, down)
            due_step, until_s = min(due_step, slot_step), min(until_s, slot_s)
        for mirror in step.mirrors:
            due_step = min(due_step, done - done % mirror.every_steps + mirror.every_steps)
        if down and memory.holds_last_step and state.readmits:
            # After each step groups may come back.
            until_s = min(until_s, self.machines.next_return_s)
        if not memory.slots:
            state.due_step, state.due_s = due_step, until_s
        if state.disturbed:
            return None
        until_s = min(
            until_s, state.limit_s, state.hits.next_repair_s, state.conditions.next_change_s
        )
        # Shares of a batch add up to whole batches except for rounding.
        steps_left = ceil(state.batches_left() / step.costs.batches.trained)
        at_most = min(due_step - done, steps_left)
        if state.response.is_active:
            until_s = min(until_s, state.response.quiet_until_s(now_s))
            at_most = min(at_most, state.response.quiet_steps())
        if at_most < 1 or until_s <= now_s:
            return None
        snapshots = Snapshots(every - done % every, every) if every else None
        return QuietSteps(step.compute, step.all_reduce, int(at_most), until_s, snapshots)

    def _repair(self, outcome: Outcome) -> Generator[Phase, Outcome, bool]:
        """Complete a step with missing members, or restart; return whether it is complete.

        If recoveries take longer than the time between failures, they never end. So the job gives
        up after the same number of recoveries in a row as of restarts.
        """
        state, progress, machines, repairs = self.state, self.progress, self.machines, 0
        strategy, optimizer = self.strategy, state.optimizer
        identifies = machines.identifies_failures
        self._book_detection(outcome)
        while self.state.goes_on():
            if repairs == self._most_restarts:
                state.restarts_since_save = repairs
                break
            repairs += 1
            missing = outcome.missing
            # The plan is not read between the hits and the verdict on them.
            replaced = self._count_lost(missing) if identifies else set()
            verdict = state.contract.verdict(tuple(missing))
            progress.states_refused = strategy.states_refused
            # A verdict without a recovery means that the failed component was not in use.
            if (
                optimizer.is_shared
                and isinstance(verdict, Continue)
                and verdict.recovery is not None
                and optimizer.lose(state.plan.members, missing)
            ):
                verdict = WipeOut(tuple(missing))
            if isinstance(verdict, WipeOut):
                machines.step_is_lost()
                break
            dropped, patch, _, carried_on, recovery = verdict
            # A group that stays a member although it is missing will be missing again.
            state.disturbed = len(dropped) + len(carried_on) < len(missing)
            if state.plan is not strategy.plan():
                state.follow_plan()
            step = state.step
            diagnosed_s = yield from self.restarter.recover(recovery, dropped, carried_on, missing)
            if state.readmits:
                machines.drop(dropped, replaced, diagnosed_s)
            optimizer.recovered(progress.now_s)
            if patch:
                yield from self._patch(verdict)
            elif state.rules.fixed_step == "commits":
                return True
            outcome = yield step.repeated
            if not outcome.missing:
                self._book_all_reduce(outcome, step.costs)
                return True
            self._book_detection(outcome)
        if self.state.goes_on():
            yield from self.restarter.restart()
        return False

    def _count_lost(self, missing: Mapping[int, Failure]) -> set[int]:
        """Count machines lost to failures; return the groups that are replaced at once."""
        hits, replaced = self.state.hits, self.machines.count_lost(missing)
        if hits.tracks_components:
            hits.strike(missing, self.progress.now_s, replaced)
        return replaced

    def _book_detection(self, outcome: Outcome) -> None:
        """Book the time until the missing groups are detected."""
        self.state.spend("detection", outcome)
        if self.state.record:
            self.state.log(EventKind.MISSING, groups=tuple(outcome.missing))

    def _patch(self, verdict: Continue) -> Generator[Phase, Outcome, None]:
        """Compute the lost work again, according to the verdict."""
        state, plan, step = self.state, self.state.plan, self.state.step
        self.progress.reorderings += 1
        self.progress.moved_types += verdict.moved_types
        self.progress.stack_computations += max(verdict.patch.values()) * plan.stack_size
        if state.record:
            state.log(
                EventKind.REORDERED,
                groups=tuple(sorted(verdict.patch)),
                stacks=plan.stacks,
                moved_types=verdict.moved_types,
            )
        parts_down, slow = step.compute.parts_down, step.slow
        state.spend(
            "patch_compute",
            (yield patch_compute(plan, verdict.patch, self._timer, parts_down, slow)),
        )
