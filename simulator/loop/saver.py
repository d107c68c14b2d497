"""How training saves: checkpoints, snapshots and mirrors, also during outages of storage."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

import numpy as np
from faultline.simulator.accounting.timeline import EventKind
from faultline.simulator.failures.clocks import FailureClocks
from faultline.simulator.job.background import Write
from faultline.simulator.job.phases import Background, Outcome, Phase, Save, Send, Snapshots, Stall
from faultline.simulator.job.timer import Timer
from faultline.simulator.loop.state import TrainingState
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.state.snapshots import SnapshotSlot


class Saver:
    """Writes the states that a job may go back to.

    Attributes
    ----------
    clocks : FailureClocks
        When groups fail.
    """

    clocks: FailureClocks

    def __init__(
        self,
        state: TrainingState,
        timer: Timer,
        on_checkpoint: Callable[[int, float], None] | None,
    ) -> None:
        self._state, self._on_checkpoint, self._timer = state, on_checkpoint, timer
        # Slots that were due during an outage of storage; None stands for a checkpoint.
        self._postponed: set[SnapshotSlot | None] = set()

    @property
    def has_postponed(self) -> bool:
        """Whether a save was due during an outage of storage and has not been made."""
        return bool(self._postponed)

    def forget_postponed(self) -> None:
        """Drop postponed saves: the job went back to an earlier state."""
        self._postponed.clear()

    def save_if_due(self, down: int) -> Generator[Phase, Outcome, bool]:
        """Send mirrors, take snapshots and write a checkpoint after a step, if due.

        Returns whether there is a new state that groups may rejoin with.
        """
        state, progress = self._state, self._state.progress
        if state.strategy.plan().mirrors:
            yield from self._send_mirrors()
        # If survivors can supply the last step, all completed work counts as saved.
        saved = state.memory.holds_last_step
        if state.memory.slots:
            saved |= yield from self._take_snapshots(down)
        unsaved_s = progress.now_s - state.unsaved_since_s
        due = state.policy.due(progress.completed_steps, unsaved_s, progress.now_s, down)
        if (due or self._postponed) and not state.is_done() and self._can_save(due, None):
            saved |= yield from self.save()
        return saved

    def _can_save(self, due: bool, slot: SnapshotSlot | None) -> bool:
        """Return whether to fill a slot now, or to write a checkpoint if it is None.

        During an outage of storage, steps go on, and due saves are postponed.
        """
        if not due and slot not in self._postponed:
            return False
        self._postponed.discard(slot)
        if self._storage_is_down():
            self._postponed.add(slot)
            return False
        return True

    def _storage_is_down(self) -> bool:
        conditions, now_s = self._state.conditions, self._state.progress.now_s
        conditions.advance(now_s)
        return conditions.storage_back_s > now_s

    def await_storage(self, cause: str) -> Generator[Phase, Outcome, None]:
        """Wait until storage is available; book the wait under a cause."""
        state = self._state
        while self._storage_is_down():
            wait_s = state.conditions.storage_back_s - state.progress.now_s
            state.spend(cause, (yield Stall(state.members, wait_s)))

    def save(self) -> Generator[Phase, Outcome, bool]:
        """Write a checkpoint; return False if no writer succeeded.

        With a shared optimizer, each member owns a part of it. The failure of another owner than
        the writer is noticed in the next step; after the last step, at the end of the save.
        """
        state, progress = self._state, self._state.progress
        members, last = state.members, state.is_done()
        yield from self.await_storage("checkpoint")
        waits, is_shared = state.strategy.checkpoint_waits or last, state.optimizer.is_shared
        saved = state.to_save(progress.now_s)
        for writer in members:
            outcome = yield Save(members, writer, waits)
            state.spend("checkpoint", outcome)
            owners = members if is_shared else (writer,)
            if not outcome.missing and not (last and self._fails(owners)):
                # If the others do not wait for the writer, it is late for the next step.
                state.disturbed = not waits
                after_s = outcome.now_s - saved.at_s if waits else self._timer.save_s(writer)
                state.memory.checkpoint.begin(saved, after_s, owners=owners)
                self._saved_now()
                if state.record:
                    state.log(EventKind.CHECKPOINT, groups=(writer,))
                return True
            if state.record:
                state.log(EventKind.CHECKPOINT_SKIPPED, groups=(writer,))
            if is_shared or (state.rules.failed_writer == "skips" and not last):
                break
        if self._on_checkpoint:
            self._on_checkpoint(progress.completed_steps, progress.now_s)
        return False

    def _fails(self, groups: Iterable[int]) -> bool:
        """Return whether one of some groups has failed by now."""
        next_failure_s, now_s = self.clocks.next_failure_s, self._state.progress.now_s
        return any(next_failure_s[group] <= now_s for group in groups)

    def _saved_now(self) -> None:
        """Count a checkpoint that has just been written, or is being written."""
        state, progress = self._state, self._state.progress
        progress.checkpoints += 1
        state.unsaved_since_s = progress.now_s
        state.restarts_since_save = 0
        if self._on_checkpoint:
            self._on_checkpoint(progress.completed_steps, progress.now_s)

    def _send_mirrors(self) -> Generator[Phase, Outcome, None]:
        """Send the mirrors of state that are due at the end of a step."""
        state = self._state
        for mirror in state.strategy.plan().mirrors:
            if state.progress.completed_steps % mirror.every_steps == 0:
                state.spend("checkpoint", (yield Send(mirror.moves)))
                if state.record:
                    groups = tuple(sorted({sent.move.group for sent in mirror.moves}))
                    state.log(EventKind.MIRRORED, groups=groups)

    def _take_snapshots(self, down: int) -> Generator[Phase, Outcome, bool]:
        """Take the snapshots that are due; return whether any was."""
        state, progress, taken = self._state, self._state.progress, False
        for slot in state.memory.slots:
            due = slot.due(progress.completed_steps, progress.now_s, down)
            if self._can_save(due, slot) if slot.is_on_storage else due:
                saved = state.to_save(progress.now_s)
                if slot.tier.stall_s > 0.0:
                    stall = Stall(state.members, slot.tier.stall_s)
                    state.spend("checkpoint", (yield stall))
                times, write = state.saving.writes.get(slot.tier.name), None
                if times is not None:
                    writer = state.members[0] if slot.is_on_storage else None
                    step = state.step.compute
                    shares = StepShares(step.members, step.pipelines, step.stack_size)
                    write = Write(times.of(shares, writer), writer)
                slot.put(saved, write)
                if write is not None:
                    yield Background(write)
                progress.snapshots += 1
                state.restarts_since_save = 0
                taken = True
        return taken

    def book_snapshots(self, due: Snapshots, outcome: Outcome, *, last: bool) -> int:
        """Take the snapshots that were due during quiet steps, and book the steps up to the last.

        Only the last two of each slot are stored, because a restart can use no older one. The
        snapshot after the last of all these steps is taken only if `last`: otherwise the check
        after that step takes it. Returns the number of booked steps.
        """
        state, progress = self._state, self._state.progress
        begun, each_s = progress.completed_steps, outcome.all_reduce_s / outcome.steps
        ends_s = outcome.ends_s
        numbers = begun + due.first + due.every * np.arange(len(ends_s))
        if not last:
            is_earlier = numbers < begun + outcome.steps
            numbers, ends_s = numbers[is_earlier], ends_s[is_earlier]
        kept: dict[int, list[SnapshotSlot]] = {}
        for slot in state.memory.slots:
            taken = slot.places_with_snapshot(numbers, ends_s)
            progress.snapshots += len(taken)
            for place in taken[-2:]:
                kept.setdefault(place, []).append(slot)
        for place in sorted(kept):
            steps, end_s = numbers.item(place) - progress.completed_steps, ends_s.item(place)
            state.book_quiet_steps(steps, end_s, steps * each_s)
            snapshot, state.restarts_since_save = state.to_save(end_s), 0
            for slot in kept[place]:
                slot.settle(snapshot.at_s)
                slot.put(snapshot)
        return progress.completed_steps - begun
