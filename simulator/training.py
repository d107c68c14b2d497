"""The training loop: one generator, played by any engine.

It knows steps, checkpoints and the scheme's verdicts. It knows neither a clock nor a random number
nor SimGrid: it yields phases and is sent back what became of them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import chain
from math import ceil, inf

from faultline.simulator.failures.failure import Failure
from faultline.simulator.phases import (
    Inquiry,
    Outcome,
    Phase,
    QuietSteps,
    Saves,
    Snapshots,
)
from faultline.simulator.progress import Batches
from faultline.simulator.step_phases import StepCosts, StepPhases, patch_compute
from faultline.simulator.timeline import EventKind
from faultline.simulator.training_conditions import Interruptible
from faultline.strategies.base import Continue, WipeOut

TrainingLoop = Generator[Phase, Outcome, None]


class Training(Interruptible):
    """A job under a scheme: steps, and what comes between them.

    What it is made of stands in `TrainingState`; how it saves, comes back, and meets conditions in
    the classes between.
    """

    def loop(self) -> TrainingLoop:
        """Return the generator of phases; it ends when the job is done or out of time."""
        work, progress, seconds = self.work, self.progress, self._seconds
        strategy, hits, enough = self.strategy, self._hits, self._enough
        holds_last_step = self._memory.holds_last_step
        meets_conditions, plays_steps = work.disturbances is not None, work.plays_steps
        while progress.trained < enough and self._goes_on():
            if hits.next_repair_s <= progress.now_s:
                yield from self._hand_back()
            if self._plan is not strategy.plan():
                self._contract.replanned()
                self._follow_plan()
            if meets_conditions and (yield from self._meet_conditions()):
                self._follow_plan()
                continue
            play = self._play
            quiet = self._unobserved_steps(play)
            if quiet is not None:
                outcome = yield quiet
                if outcome.steps and (yield from self._end_quiet_steps(play, quiet, outcome)):
                    continue
            self._disturbed = False
            outcome, costs = (yield play.compute), play.costs
            batches, reduced = costs.batches, (yield play.all_reduce)
            missing, ended_s, disturbed_s = reduced.missing, outcome.now_s, outcome.disturbed_s
            if missing and holds_last_step:
                self._before_failure = self._state(progress.now_s)
            if missing and plays_steps:
                # What a copy costs a step that breaks cannot be told from the wait for a dead rank.
                ended_s, disturbed_s = self._end_of_broken(costs, reduced.now_s), 0.0
            seconds["checkpoint"] += disturbed_s
            self._computed(costs, 1, ended_s - progress.now_s - disturbed_s)
            if missing:
                progress.now_s = ended_s
                if not (yield from self._repair(reduced)):
                    yield from self._come_back()
                    continue
                # Who has been dropped adds nothing to it.
                batches = self._play.costs.batches
                self._trains_less(costs, batches)
            else:
                seconds["checkpoint"] += reduced.disturbed_s
                reduced_s = reduced.now_s - outcome.now_s - reduced.disturbed_s
                self._reduced(reduced_s, costs.reduced_share)
                progress.now_s = reduced.now_s
            if self._commit(play, batches):
                yield from self._save_what_is_due(play.down)

    def _goes_on(self) -> bool:
        """Return whether the job neither gives up nor is out of time."""
        gives_up = self._restarts_since_save >= self._most_restarts
        return self.progress.now_s < self._limit_s and not gives_up

    def _come_back(self) -> Generator[Phase, Outcome, None]:
        """Restart after a lost step, unless the job has given up."""
        if self._goes_on():
            yield from self._restart()

    def _trains_less(self, costs: StepCosts, batches: Batches) -> None:
        """Book a step that trains less than was computed for it."""
        if batches is not costs.batches:
            less_s = costs.useful_s * (1.0 - batches.trained / costs.batches.trained)
            self._seconds["compute"] -= less_s
            self._seconds["degraded"] += less_s

    def _end_of_broken(self, costs: StepCosts, noticed_s: float) -> float:
        """Return when the passes of a step end that breaks and whose failure is noticed then.

        Ranks that wait for a dead one end nowhere: the rest is until that is noticed. If the
        slowest rank is the dead one, the others end sooner than planned, and less is degraded.
        """
        nominal_end_s = self.progress.now_s + costs.nominal_s
        ended_s = min(nominal_end_s, noticed_s)
        spared_s = min(nominal_end_s - ended_s, costs.degraded_s)
        self._seconds["degraded"] -= spared_s
        self._seconds["waiting"] += spared_s
        return ended_s

    def _commit(self, play: StepPhases, batches: Batches) -> bool:
        """Count a step that is done; return whether anything may be due after it."""
        progress = self.progress
        progress.completed_steps += 1
        if progress.completed_steps <= self._loaded.steps:
            # It was saved already, and is done once more: it counts as it did.
            progress.ledger.take_back(self._loaded.booked)
            batches = self._loaded.last
        progress.train(1, batches)
        if self._record:
            self._log(EventKind.STEP, stacks=play.compute.stacks)
        is_below = progress.completed_steps < self._due_step and progress.now_s < self._due_s
        return not is_below or self._done()

    def _end_quiet_steps(
        self, play: StepPhases, quiet: QuietSteps, outcome: Outcome
    ) -> Generator[Phase, Outcome, bool]:
        """Book steps in a row in which nothing happened; False where a failure may come next."""
        if outcome.saves:
            self._did_quietly(
                play, outcome.steps, outcome.now_s, outcome.all_reduce_s, outcome.save_s
            )
            self._saved_now(outcome.saves)
            return True
        is_cut_short = outcome.steps < quiet.at_most and outcome.now_s < quiet.until_s
        steps, all_reduce_s = outcome.steps, outcome.all_reduce_s
        if quiet.snapshots and outcome.ends_s:
            steps -= self._take_on_the_way(play, quiet.snapshots, outcome, last=is_cut_short)
            all_reduce_s *= steps / outcome.steps
        if steps:
            self._did_quietly(play, steps, outcome.now_s, all_reduce_s)
        if is_cut_short:
            return False
        yield from self._save_what_is_due(play.down)
        return True

    def _unobserved_steps(self, play: StepPhases) -> QuietSteps | None:
        """Return the next steps that the job can do without a look at each; None without any.

        It looks at the end of each step that is recorded, and of one that was saved already.
        """
        progress, memory = self.progress, self._memory
        now_s, done, down = progress.now_s, progress.completed_steps, play.down
        self._due_step, every = 0, 0
        if self._put_off or self._record or done < self._loaded.steps or not play.compute.members:
            return None
        due_step, until_s = self._policy.not_due_before(
            done, now_s - self._unsaved_since_s, now_s, down
        )
        if memory.shelves:
            waits = (down and self._readmits) or self._conditions.storage_back_s > now_s
            every = 0 if waits else memory.snapshots_every
        for shelf in () if every else memory.shelves:
            shelf_step, shelf_s = shelf.not_due_before(done, now_s, down)
            due_step, until_s = min(due_step, shelf_step), min(until_s, shelf_s)
        for mirror in play.mirrors:
            due_step = min(due_step, done - done % mirror.every_steps + mirror.every_steps)
        if down and memory.holds_last_step and self._readmits:
            # After each step groups may come back.
            until_s = min(until_s, self._spares.next_ready_s)
        if not memory.shelves:
            self._due_step, self._due_s = due_step, until_s
        if self._disturbed:
            return None
        until_s = min(
            until_s, self._limit_s, self._hits.next_repair_s, self._conditions.next_change_s
        )
        # Shares of a batch add up but for rounding.
        steps_left = ceil((self._enough - progress.trained) / play.costs.batches.trained)
        at_most = min(due_step - done, steps_left)
        if self._responds:
            until_s = min(until_s, self._response.quiet_until_s(now_s))
            at_most = min(at_most, self._response.quiet_steps())
        if at_most < 1 or until_s <= now_s:
            return None
        saves = self._saves_every and self._saves_on_the_way(play, int(at_most), steps_left)
        snapshots = Snapshots(every - done % every, every) if every else None
        return QuietSteps(
            play.compute, play.all_reduce, int(at_most), until_s, saves or None, snapshots
        )

    def _saves_on_the_way(self, play: StepPhases, first: int, steps_left: int) -> Saves | None:
        """Return the checkpoints between the next steps, where these are all that is to be done."""
        every = self._saves_every
        if first + every >= steps_left or not self.strategy.checkpoint_waits:
            return None
        if play.mirrors or (self._readmits and play.down):
            return None
        if self._conditions.storage_back_s > self.progress.now_s:
            return None
        if self._responds and self._response.quiet_steps() < inf:
            return None
        return Saves(play.compute.members[0], every, steps_left)

    def _save_what_is_due(self, down: int) -> Generator[Phase, Outcome, None]:
        """Send mirrors, take snapshots and write a checkpoint after a step, as far as due."""
        progress, done = self.progress, self._done()
        if self.strategy.plan().mirrors:
            yield from self._send_mirrors()
        # Where survivors are asked for the last step, all that has been done is as good as saved.
        saved = self._memory.holds_last_step
        if self._memory.shelves:
            saved |= yield from self._take_snapshots(down)
        unsaved_s = progress.now_s - self._unsaved_since_s
        due = self._policy.due(progress.completed_steps, unsaved_s, progress.now_s, down)
        if done or ((due or self._put_off) and self._can_save(due, None)):
            written = yield from self._save()
            saved |= written
            if done and not written:
                # Nobody was left to write the last checkpoint.
                self._before_failure = self._state(progress.now_s)
                yield from self._restart()
        if saved and not done and self._readmits:
            yield from self._readmit()

    def _repair(self, outcome: Outcome) -> Generator[Phase, Outcome, bool]:
        """Bring a step with missing members to its end; False if it is lost.

        A recovery that takes longer than the time between failures never gets there: the job gives
        up as it does after as many restarts.
        """
        progress, strategy, optimizer, repairs = self.progress, self.strategy, self._optimizer, 0
        self._missed(outcome)
        while self._goes_on():
            if repairs == self._most_restarts:
                self._restarts_since_save = repairs
                break
            repairs += 1
            missing, struck = outcome.missing, outcome.struck
            if self._inquires or optimizer.asks_when:
                struck = (yield Inquiry(missing)).struck
            # Nobody asks for a plan between the hits and the verdict on them.
            replaced = self._take_in(missing, struck) if self._inquires else set()
            verdict = self._contract.verdict(missing)
            progress.states_refused = strategy.states_refused
            # Where there is nothing to recover from, what failed was of no use any more.
            if (
                optimizer.is_shared
                and isinstance(verdict, Continue)
                and verdict.recovery is not None
                and optimizer.lose(self._plan.members, missing, struck)
            ):
                verdict = WipeOut(missing)
            if isinstance(verdict, WipeOut):
                self._processes_failed = self._in_place and not self._lacking_until_s
                return False
            dropped, patch, _, carried_on, recovery = verdict
            # Whoever stays though missing is missed again.
            self._disturbed = len(dropped) + len(carried_on) < len(missing)
            if self._plan is not strategy.plan():
                self._follow_plan()
            play = self._play
            found_s = yield from self._recover(recovery, dropped, carried_on)
            if self._readmits:
                sooner = len(replaced.intersection(dropped))
                self._spares.bring(sooner, found_s, self.work.standby_s)
                self._spares.bring(len(dropped) - sooner, found_s)
            optimizer.recovered(progress.now_s)
            if patch:
                yield from self._patch(verdict)
            elif self.rules.fixed_step == "commits":
                return True
            outcome = yield play.repeated
            if not outcome.missing:
                self._seconds["checkpoint"] += outcome.disturbed_s
                reduced_s = outcome.now_s - progress.now_s - outcome.disturbed_s
                self._reduced(reduced_s, play.costs.reduced_share)
                progress.now_s = outcome.now_s
                return True
            self._missed(outcome)
        return False

    def _take_in(self, missing: Sequence[int], struck: Sequence[Failure]) -> set[int]:
        """Take in what has struck groups; return those in whose places others are at once."""
        lost = self._machines_lost(struck)
        replaced = self._replaced_at_once(missing, struck, lost)
        self._lacking_until_s += chain.from_iterable(lost.values())
        if self._hits.counts:
            self._hits.strike(missing, struck, self.progress.now_s, replaced)
        return replaced

    def _missed(self, outcome: Outcome) -> None:
        """Book how long it took until it showed who is missing."""
        self._spend("detection", outcome)
        if self._record:
            self._log(EventKind.MISSING, groups=outcome.missing)

    def _patch(self, verdict: Continue) -> Generator[Phase, Outcome, None]:
        plan, play = self._plan, self._play
        self.progress.reorderings += 1
        self.progress.moved_types += verdict.moved_types
        self.progress.stack_computations += max(verdict.patch.values()) * plan.stack_size
        if self._record:
            self._log(
                EventKind.REORDERED,
                groups=tuple(sorted(verdict.patch)),
                stacks=plan.stacks,
                moved_types=verdict.moved_types,
            )
        outcome = yield patch_compute(
            plan, verdict.patch, self.work, play.compute.without, play.slow
        )
        self._spend("patch_compute", outcome)
