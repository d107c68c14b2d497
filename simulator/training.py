"""The training loop: one generator, played by any engine.

It knows steps, checkpoints and the scheme's verdicts. It knows neither a clock nor a random number
nor SimGrid: it yields phases and is sent back what became of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from math import ceil, inf

from faultline.simulator.background import Write
from faultline.simulator.conditions import UNDISTURBED, Conditions, Slowdown
from faultline.simulator.contract import Contract
from faultline.simulator.failures.failure import Failure
from faultline.simulator.hit_list import HitList
from faultline.simulator.job import Rules, Work
from faultline.simulator.memory import Memory
from faultline.simulator.phases import (
    AllReduce,
    Background,
    Inquiry,
    Load,
    Outcome,
    Phase,
    QuietSteps,
    Reconfigure,
    Rejoin,
    Restart,
    Save,
    Saves,
    Stall,
)
from faultline.simulator.progress import Batches, Progress
from faultline.simulator.response import Response
from faultline.simulator.snapshots import Saved, Shelf
from faultline.simulator.spare_pool import SparePool
from faultline.simulator.step_phases import StepPhases, patch_compute
from faultline.simulator.timeline import Event, EventKind
from faultline.strategies.base import Continue, Strategy, WipeOut
from faultline.strategies.recovery import Recovery, rejoining
from faultline.strategies.slow_parts import Remedy

_ROUNDING = 1e-9

TrainingLoop = Generator[Phase, Outcome, None]


class Training:
    """A job under a scheme.

    Parameters
    ----------
    work : Work
        What is to be trained.
    rules : Rules
        The scenario's choices.
    strategy : Strategy
        The scheme.
    record : callable, optional
        Called with every `Event`; leave it out to run faster.
    on_checkpoint : callable, optional
        Called with the completed steps and the simulated time after every checkpoint; for progress
        displays.
    """

    def __init__(
        self,
        work: Work,
        rules: Rules,
        strategy: Strategy,
        record: Callable[[Event], None] | None = None,
        on_checkpoint: Callable[[int, float], None] | None = None,
    ) -> None:
        self.work = work
        self.rules = rules
        self.strategy = strategy
        self._contract = Contract(strategy, work.groups)
        self.progress = Progress()
        self._record = record
        self._on_checkpoint = on_checkpoint
        self._plan = strategy.plan()
        self._saved = self._state(0.0)
        self._saved_before = self._loaded = self._saved
        self._before_failure = self._saved
        self._unsaved_since_s = 0.0
        self._spares = SparePool(work.spare_groups, work.repair_s)
        lives = work.standby_lives
        self._standbys = SparePool(work.standbys, work.replenish_s, lives() if lives else None)
        self._failed_since_restart = 0
        self._processes_failed = False
        self._memory = Memory(work)
        self._hits = HitList(strategy, work)
        self._conditions = Conditions(work.disturbances)
        self.progress.disturbances = self._conditions.counts
        self._response = Response(work, self._conditions)
        self.progress.remedies = self._response.taken
        self._clean: dict[Failure, Saved] = {}
        self._put_off: set[Shelf | None] = set()
        self._restarted_s = -inf
        self._asks = bool(work.tiers) or self._hits.outlive_restarts
        self._restarts_since_save = 0
        self._disturbed = False
        self._limit_s = inf if work.time_limit_s is None else work.time_limit_s

    def loop(self) -> TrainingLoop:
        """Return the generator of phases; it ends when the job is done or out of time."""
        work, progress = self.work, self.progress
        hits = self._hits
        holds_last_step = self._memory.holds_last_step
        play = self._phases()
        while (
            not self._done()
            and progress.now_s < self._limit_s
            and self._restarts_since_save < work.give_up_after_restarts
        ):
            if hits.next_repair_s <= progress.now_s:
                yield from self._hand_back()
            if self._plan is not self.strategy.plan():
                self._plan = self._contract.replanned()
                play = self._phases()
            if (yield from self._meet_conditions()):
                play = self._phases()
                continue
            if not self._disturbed and (yield from self._play_quiet_steps(play)):
                continue
            self._disturbed = False
            outcome, batches = (yield play.compute), play.batches
            reduced = yield play.all_reduce
            if reduced.missing and holds_last_step:
                self._before_failure = self._state(progress.now_s)
            progress.seconds["checkpoint"] += outcome.disturbed_s
            self._computed(play, 1, outcome.now_s - progress.now_s - outcome.disturbed_s)
            if reduced.missing:
                progress.now_s = outcome.now_s
                if not (yield from self._repair(reduced)):
                    yield from self._restart()
                    continue
                # Who has been dropped adds nothing to it.
                batches = self._batches()
                less_s = play.useful_s * (1.0 - batches.trained / play.batches.trained)
                progress.seconds["compute"] -= less_s
                progress.seconds["degraded"] += less_s
            else:
                progress.seconds["checkpoint"] += reduced.disturbed_s
                reduced_s = reduced.now_s - outcome.now_s - reduced.disturbed_s
                self._reduced(reduced_s, play.all_reduce.slow)
                progress.now_s = reduced.now_s
            progress.completed_steps += 1
            if progress.completed_steps <= self._loaded.steps:
                # It was saved already, and is done once more: it counts as it did.
                progress.ledger.take_back(self._loaded.booked)
                progress.completed = progress.completed.plus(1, self._loaded.last)
            else:
                progress.completed = progress.completed.plus(1, batches)
            if self._record:
                self._log(EventKind.STEP, stacks=self._plan.stacks)
            yield from self._save_what_is_due(play.down)

    def _phases(self) -> StepPhases:
        """Return the phases of the next steps."""
        slow = self._response.slowdown(self._plan)
        play = StepPhases(self._plan, self.work, self._conditions.without, slow)
        self._response.follow(self._plan, play.nominal_s / slow.slowest, slow)
        return play

    def _respond(self, remedy: Remedy) -> Generator[Phase, Outcome, None]:
        """Do something about what is slow."""
        leaving = self._response.take(remedy, self.progress.now_s)
        if remedy.name == "restart":
            self._failed_since_restart += leaving
            yield from self._save()
            yield from self._restart()
            return
        stall = Stall(self.strategy.plan().members, remedy.price_s)
        self._spend("reconfigure", (yield stall))
        if self._record:
            self._log(EventKind.RECOVERED, recovery=remedy.name)

    def _meet_conditions(self) -> Generator[Phase, Outcome, bool]:
        """Do what is asked for by what has begun or ended since the last look, or is found slow.

        Returns whether there was anything.
        """
        conditions, progress = self._conditions, self.progress
        if conditions.next_change_s > progress.now_s:
            remedy = self._response.due(progress.now_s)
            if remedy is not None:
                yield from self._respond(remedy)
            return remedy is not None
        conditions.advance(progress.now_s)
        begun, ended = conditions.happened()
        for failure in begun:
            members = self.strategy.plan().members
            if not any(group in failure.groups for group in members):
                continue
            if failure.kind == "flap":
                fails = failure.lasts_s >= self.work.reactions.retry_s
                outcome = yield Stall(members, failure.lasts_s)
                self._spend("detection" if fails else "degraded", outcome)
            elif failure.kind == "hang":
                yield from self._hang(failure.lasts_s)
            elif failure.kind == "corrupt" and self.strategy.compares:
                yield from self._lose_a_step()
            elif failure.kind == "corrupt":
                known = (self._saved, self._saved_before)
                self._clean[failure] = self._memory.newest_on_storage(known, failure.time_s)
        for failure in ended:
            yield from self._end(failure)
        return True

    def _end(self, failure: Failure) -> Generator[Phase, Outcome, None]:
        """Do what the end of something asks for: corruption is found, maintenance begins."""
        if failure.kind == "corrupt" and failure in self._clean:
            yield from self._restart(self._clean[failure])
        elif failure.kind == "planned" and self.work.reactions.planned == "migrate":
            stall = Stall(self.strategy.plan().members, self.work.reactions.migrate_s)
            self._spend("reconfigure", (yield stall))
        elif failure.kind == "planned" and failure.time_s > self._restarted_s:
            # Who has notice saves what there is.
            if failure.lasts_s > 0.0:
                yield from self._save()
            yield from self._restart()

    def _hang(self, timeout_s: float) -> Generator[Phase, Outcome, None]:
        """The collective of the next step hangs until it is given up; then do as the rules say."""
        yield from self._lose_a_step()
        self._spend("detection", (yield Stall(self.strategy.plan().members, timeout_s)))
        if self.work.reactions.hang == "restart":
            yield from self._restart()

    def _lose_a_step(self) -> Generator[Phase, Outcome, None]:
        """Compute what is thrown away."""
        if self._plan is not self.strategy.plan():
            self._plan = self._contract.replanned()
        self._spend("repeated", (yield self._phases().compute))

    def _can_save(self, due: bool, what: Shelf | None) -> bool:
        """Whether a snapshot, or else a checkpoint, is taken now: without storage, steps go on.

        What is due then is put off until storage is there.
        """
        if not due and what not in self._put_off:
            return False
        self._put_off.discard(what)
        if self._storage_is_away():
            self._put_off.add(what)
            return False
        return True

    def _storage_is_away(self) -> bool:
        self._conditions.advance(self.progress.now_s)
        return self._conditions.storage_back_s > self.progress.now_s

    def _await_storage(self, cause: str) -> Generator[Phase, Outcome, None]:
        """Wait until storage is there."""
        while self._storage_is_away():
            wait_s = self._conditions.storage_back_s - self.progress.now_s
            self._spend(cause, (yield Stall(self.strategy.plan().members, wait_s)))

    def _play_quiet_steps(self, play: StepPhases) -> Generator[Phase, Outcome, bool]:
        """Play the steps in a row in which nothing happens; False where a failure may come next."""
        progress, quiet = self.progress, self._unobserved_steps(play)
        if quiet is None:
            return False
        outcome = yield quiet
        if not outcome.steps:
            return False
        compute_s = outcome.now_s - progress.now_s - outcome.all_reduce_s - outcome.save_s
        self._computed(play, outcome.steps, compute_s)
        self._reduced(outcome.all_reduce_s, play.all_reduce.slow)
        progress.now_s = outcome.now_s
        progress.completed_steps += outcome.steps
        progress.completed = progress.completed.plus(outcome.steps, play.batches)
        if outcome.saves:
            progress.seconds["checkpoint"] += outcome.save_s
            self._saved_now(outcome.saves)
            return True
        yield from self._save_what_is_due(play.down)
        return outcome.steps == quiet.at_most or outcome.now_s >= quiet.until_s

    def _unobserved_steps(self, play: StepPhases) -> QuietSteps | None:
        """Return the next steps that the job can do without a look at each; None without any.

        It looks at the end of each step that is recorded, and of one that was saved already.
        """
        progress, memory = self.progress, self._memory
        now_s, done, down = progress.now_s, progress.completed_steps, play.down
        if self._record or done < self._loaded.steps or not play.compute.members:
            return None
        if self._put_off:
            return None
        due_step, until_s = self.work.checkpoint_policy.not_due_before(
            done, now_s - self._unsaved_since_s, now_s, down
        )
        for shelf in memory.shelves:
            shelf_step, shelf_s = shelf.not_due_before(done, now_s, down)
            due_step, until_s = min(due_step, shelf_step), min(until_s, shelf_s)
        if down and memory.holds_last_step and self.rules.rejoin == "at-checkpoint":
            # After each step groups may come back.
            until_s = min(until_s, self._spares.next_ready_s)
        until_s = min(until_s, self._limit_s, self._hits.next_repair_s)
        until_s = min(until_s, self._conditions.next_change_s, self._response.quiet_until_s(now_s))
        batches_left = self.work.steps - _ROUNDING - progress.completed_batches
        steps_left = ceil(batches_left / play.batches.trained)
        at_most = min(due_step - done, steps_left, self._response.quiet_steps())
        if at_most < 1 or until_s <= now_s:
            return None
        saves = self._saves_on_the_way(play, int(at_most), steps_left)
        return QuietSteps(play.compute, play.all_reduce, int(at_most), until_s, saves)

    def _saves_on_the_way(self, play: StepPhases, first: int, steps_left: int) -> Saves | None:
        """Return the checkpoints between the next steps, where these are all that is to be done."""
        every = self.work.checkpoint_policy.every_steps
        rejoins = play.down and self.rules.rejoin == "at-checkpoint"
        if first + (every or inf) >= steps_left or rejoins or not self.strategy.checkpoint_waits:
            return None
        if self._memory.shelves or self._memory.holds_last_step:
            return None
        if self._conditions.storage_back_s > self.progress.now_s:
            return None
        if self._response.quiet_steps() < inf:
            return None
        return Saves(play.compute.members[0], every, steps_left)

    def _save_what_is_due(self, down: int) -> Generator[Phase, Outcome, None]:
        """Take snapshots and write a checkpoint at the end of a step, as far as they are due."""
        progress, done = self.progress, self._done()
        # Where survivors are asked for the last step, all that has been done is as good as saved.
        saved = self._memory.holds_last_step
        if self._memory.shelves:
            saved |= yield from self._take_snapshots(down)
        unsaved_s = progress.now_s - self._unsaved_since_s
        due = self.work.checkpoint_policy.due(
            progress.completed_steps, unsaved_s, progress.now_s, down
        )
        if done or self._can_save(due, None):
            written = yield from self._save()
            saved |= written
            if done and not written:
                # Nobody was left to write the last checkpoint.
                self._before_failure = self._state(progress.now_s)
                yield from self._restart()
        if saved and not done and self.rules.rejoin == "at-checkpoint":
            yield from self._readmit()

    def _done(self) -> bool:
        # Shares of a batch add up to whole ones but for rounding.
        return self.progress.completed_batches >= self.work.steps - _ROUNDING

    def _state(self, now_s: float) -> Saved:
        """Return what there is to save at this moment."""
        progress = self.progress
        return Saved(
            progress.completed_steps,
            progress.completed,
            self._batches(),
            now_s,
            progress.ledger.mark(),
        )

    def _batches(self) -> Batches:
        """Return what a step trains of those who are left in it."""
        return Batches.of(self.strategy.plan(), self.work.approximation_loss)

    def _computed(self, play: StepPhases, steps: int, duration_s: float) -> None:
        """Book the compute of steps, whatever comes of them."""
        progress, seconds = self.progress, self.progress.seconds
        seconds["compute"] += steps * play.useful_s
        seconds["redundancy"] += steps * play.redundancy_s
        seconds["degraded"] += steps * play.degraded_s
        seconds["waiting"] += duration_s - steps * play.nominal_s
        progress.raised_power_s += steps * play.raised_power_s
        progress.played_steps += steps
        self._response.met(steps)
        progress.stack_computations += steps * play.types

    def _reduced(self, duration_s: float, slow: Slowdown = UNDISTURBED) -> None:
        """Book a good all-reduce: useful as far as it is of a full batch, and nothing is slow."""
        share = self._batches().trained / slow.collective
        self.progress.seconds["all_reduce"] += duration_s * share
        if share < 1.0:
            self.progress.seconds["degraded"] += duration_s * (1.0 - share)

    def _repair(self, outcome: Outcome) -> Generator[Phase, Outcome, bool]:
        """Bring a step with missing members to its end; False if it is lost."""
        progress = self.progress
        while True:
            self._spend("detection", outcome)
            if self._record:
                self._log(EventKind.MISSING, groups=outcome.missing)
            broken, standbys, told = len(outcome.missing), 0, outcome
            in_place = self.rules.transient == "in-place"
            if self._hits.counts or in_place:
                told = yield Inquiry(outcome.missing)
            if in_place:
                broken = sum(failure.kind != "software" for failure in told.struck)
            if self._hits.counts or self.rules.rejoin == "at-checkpoint":
                standbys = self._send_standbys(broken)
                self._standbys.bring(standbys, progress.now_s)
            if self._hits.counts:
                self._hits.strike(outcome.missing, told.struck, progress.now_s, standbys)
            verdict = self._contract.verdict(outcome.missing)
            progress.states_refused = self.strategy.states_refused
            self._failed_since_restart += broken - standbys
            if isinstance(verdict, WipeOut):
                self._processes_failed = in_place and not self._failed_since_restart
                return False
            # Whoever stays though missing is missed again.
            self._disturbed = len(verdict.dropped) + len(verdict.carried_on) < len(outcome.missing)
            plan = self.strategy.plan()
            replaced = min(standbys, len(verdict.dropped))
            self._spares.bring(replaced, progress.now_s, self.work.standby_s)
            self._spares.bring(len(verdict.dropped) - replaced, progress.now_s)
            yield from self._recover(verdict.recovery, verdict.dropped, verdict.carried_on)
            if verdict.patch:
                yield from self._patch(verdict)
            elif self.rules.fixed_step == "commits":
                return True
            without, slow = self._conditions.without, self._response.slowdown(plan)
            outcome = yield AllReduce(plan.members, without, slow, plan.pipelines)
            if not outcome.missing:
                progress.seconds["checkpoint"] += outcome.disturbed_s
                self._reduced(outcome.now_s - progress.now_s - outcome.disturbed_s, slow)
                progress.now_s = outcome.now_s
                return True

    def _recover(
        self,
        recovery: Recovery | None,
        dropped: tuple[int, ...] = (),
        carried_on: tuple[int, ...] = (),
    ) -> Generator[Phase, Outcome, None]:
        """Let all wait for what a failure, or a repair, needs short of a restart."""
        if recovery and recovery.replaces_hardware:
            suffice = self._standbys_suffice() and self.work.standbys > 0
            recovery = recovery if suffice else recovery.without_standbys()
        members = self.strategy.plan().members
        outcome = yield Reconfigure(members, dropped, carried_on, recovery, self._asks)
        self._spend("reconfigure", outcome)
        if self._record and recovery is not None:
            self._log(EventKind.RECOVERED, groups=(*dropped, *carried_on), recovery=recovery.kind)
        self._memory.strike(outcome.struck)
        self._hits.hear(outcome.struck, self.progress.now_s)

    def _patch(self, verdict: Continue) -> Generator[Phase, Outcome, None]:
        plan = self.strategy.plan()
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
        without, slow = self._conditions.without, self._response.slowdown(plan)
        outcome = yield patch_compute(plan, verdict.patch, self.work, without, slow)
        self._spend("patch_compute", outcome)

    def _save(self) -> Generator[Phase, Outcome, bool]:
        """Write a checkpoint; False if no writer got through."""
        progress = self.progress
        members = self.strategy.plan().members
        last = self._done()
        yield from self._await_storage("checkpoint")
        waits = self.strategy.checkpoint_waits or last
        saved = False
        for writer in members:
            outcome = yield Save(members, writer, waits)
            self._spend("checkpoint", outcome)
            if not outcome.missing:
                # Who writes while the others go on is late for the next step.
                saved, self._disturbed = True, not waits
                self._saved_now()
                if self._record:
                    self._log(EventKind.CHECKPOINT, groups=(writer,))
                break
            if self._record:
                self._log(EventKind.CHECKPOINT_SKIPPED, groups=(writer,))
            if self.rules.failed_writer == "skips" and not last:
                break
        if self._on_checkpoint and not saved:
            self._on_checkpoint(progress.completed_steps, progress.now_s)
        return saved

    def _saved_now(self, checkpoints: int = 1) -> None:
        """The last of some checkpoints has been written at this moment."""
        progress = self.progress
        progress.checkpoints += checkpoints
        self._saved_before, self._saved = self._saved, self._state(progress.now_s)
        self._unsaved_since_s = progress.now_s
        self._restarts_since_save = 0
        if self._on_checkpoint:
            self._on_checkpoint(progress.completed_steps, progress.now_s)

    def _readmit(self) -> Generator[Phase, Outcome, None]:
        """Take back those groups for which there is hardware again."""
        if not self._spares.has_ready(self.progress.now_s):
            return
        members = set(self.strategy.plan().members)
        down = [group for group in range(self.work.groups) if group not in members]
        returning = self._spares.collect(down, self.progress.now_s)
        if not returning:
            return
        recovery = rejoining(returning)
        members.update(returning)
        self._spend("load", (yield Rejoin(returning, tuple(sorted(members)), recovery)))
        self._unsaved_since_s = self.progress.now_s
        self.strategy.on_return(returning)
        self._contract.returned(returning)
        self.progress.rejoined += len(returning)
        if self._record:
            stacks = self.strategy.plan().stacks
            self._log(EventKind.REJOINED, groups=returning, stacks=stacks)

    def _take_snapshots(self, down: int) -> Generator[Phase, Outcome, bool]:
        """Take the snapshots that are due; whether there was one."""
        progress, taken = self.progress, False
        for shelf in self._memory.shelves:
            due = shelf.due(progress.completed_steps, progress.now_s, down)
            if self._can_save(due, shelf) if shelf.is_on_storage else due:
                if shelf.tier.stall_s > 0.0:
                    stall = Stall(self.strategy.plan().members, shelf.tier.stall_s)
                    self._spend("checkpoint", (yield stall))
                times, write = self.work.writes.get(shelf.tier.name), None
                if times is not None:
                    writer = self.strategy.plan().members[0] if shelf.is_on_storage else None
                    write = Write(times, writer)
                shelf.put(self._state(progress.now_s), write)
                if write is not None:
                    yield Background(write)
                progress.snapshots += 1
                self._restarts_since_save = 0
                taken = True
        return taken

    def _hand_back(self) -> Generator[Phase, Outcome, None]:
        """Let repaired components work again."""
        recovery = self._hits.repair(self.progress.now_s)
        if recovery is not None:
            yield from self._recover(recovery)

    def _restart(self, clean: Saved | None = None) -> Generator[Phase, Outcome, None]:
        """Bring the job back, to a state that is not corrupt if one is given."""
        progress, strategy = self.progress, self.strategy
        progress.restarts += 1
        self._restarts_since_save += 1
        if self._record:
            self._log(EventKind.WIPE_OUT)
        yield from self._begin_anew()
        self._contract.restarted()
        progress.states_refused = strategy.states_refused
        members = strategy.plan().members
        absent: tuple[int, ...] = ()
        if len(members) < self.work.groups:
            absent = tuple(sorted(set(range(self.work.groups)).difference(members)))
        begun_s = progress.now_s
        lacks_standbys, needed = False, strategy.restart_recovery()
        # For the first time since something was saved.
        in_place = self._processes_failed and self._restarts_since_save == 1
        self._processes_failed = False
        if in_place:
            needed = replace(needed, replaces_hardware=False)
        else:
            lacks_standbys = not self._standbys_suffice()
        outcome = yield Restart(self.work.groups, absent, self._asks, lacks_standbys, needed)
        self._spend("restart", outcome)
        self._hits.note(outcome.struck)
        if self._record:
            for time_s, group in outcome.failures:
                self._log(EventKind.FAILURE_IN_RESTART, time_s=time_s, groups=(group,))
            self._log(EventKind.RESTARTED)
        self._spares.restart()
        found, where, duration_s = self._memory.recover(
            self._before_failure, self._saved, outcome.struck
        )
        if clean is not None:
            self._memory.forget()
            found, where, duration_s = clean, "storage", None
            self._saved_before = self._saved = clean
        # Corruption that a state is older than has not touched it.
        self._clean = {
            failure: kept for failure, kept in self._clean.items() if found.batches > kept.batches
        }
        self._restarted_s = progress.now_s
        self._put_off.clear()
        progress.restarts_from_memory += where == "local"
        progress.restarts_from_peers += where == "peers"
        progress.ledger.take_back(found.booked)
        self._loaded = found
        redone = self.rules.resume == "redo" and found is self._saved and found.steps > 0
        progress.completed_steps = found.steps - 1 if redone else found.steps
        progress.completed = found.batches.plus(-1 if redone else 0, found.last)
        yield from self._load(duration_s)
        # The restart has told all that had failed when it began. What fails from then on, and is
        # not told yet, is lost after it.
        self._memory.guard(begun_s, progress.now_s)
        self._unsaved_since_s = progress.now_s
        if self._record:
            self._log(EventKind.LOADED)

    def _load(self, duration_s: float | None) -> Generator[Phase, Outcome, None]:
        """Load from memory in so many seconds, and migrate; or from storage, all that is needed."""
        if duration_s is None:
            yield from self._await_storage("load")
        members, migration = self.strategy.plan().members, self.strategy.migration()
        self._spend("load", (yield Load(members, duration_s)))
        if migration is not None and duration_s is not None:
            self._spend("load", (yield Reconfigure(members, recovery=migration)))

    def _standbys_suffice(self) -> bool:
        """Send standbys to the places of what still lacks one; whether there are as many."""
        failed, self._failed_since_restart = self._failed_since_restart, 0
        if not self.work.standbys:
            return not failed
        sent = self._send_standbys(failed)
        self._standbys.bring(failed, self.progress.now_s)
        return sent == failed

    def _send_standbys(self, failed: int) -> int:
        """Send standbys to the places of what has failed; return how many there are."""
        if not self.work.standbys:
            return 0
        sent = len(self._standbys.collect(range(failed), self.progress.now_s))
        self.progress.standby_failures = self._standbys.failures
        return sent

    def _begin_anew(self) -> Generator[Phase, Outcome, None]:
        """Let the scheme start with what is not broken."""
        self.strategy.restart()
        self._hits.after_restart(self.progress.now_s)
        yield from self._wait_for_hardware()

    def _wait_for_hardware(self) -> Generator[Phase, Outcome, None]:
        """Wait for repairs where there is nothing to work with."""
        if self.strategy.plan().members:
            return
        wait_s = self._hits.enough_repaired_s() - self.progress.now_s
        if wait_s > 0.0:
            self._spend("restart", (yield Stall((), wait_s)))
        self.strategy.restart()
        self._hits.after_restart(self.progress.now_s)

    def _spend(self, cause: str, outcome: Outcome) -> None:
        self.progress.seconds[cause] += outcome.now_s - self.progress.now_s
        self.progress.now_s = outcome.now_s

    def _log(
        self,
        kind: EventKind,
        *,
        time_s: float | None = None,
        groups: tuple[int, ...] = (),
        stacks: int = 0,
        moved_types: int = 0,
        recovery: str = "",
    ) -> None:
        assert self._record is not None
        now_s = self.progress.now_s if time_s is None else time_s
        done = self.progress.completed_steps
        self._record(Event(now_s, kind, done, groups, stacks, moved_types, recovery))
