"""How training saves: checkpoints, snapshots, and storage that is away for a while."""

from __future__ import annotations

from collections.abc import Generator
from itertools import count

from faultline.simulator.background import Write
from faultline.simulator.phases import (
    Background,
    Outcome,
    Phase,
    Save,
    Send,
    Snapshots,
    Stall,
)
from faultline.simulator.snapshots import Shelf
from faultline.simulator.step_phases import StepPhases
from faultline.simulator.timeline import EventKind
from faultline.simulator.training_state import TrainingState


class Saving(TrainingState):
    """A job that can be saved."""

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

    def _send_mirrors(self) -> Generator[Phase, Outcome, None]:
        """Send the mirrors of state that are due at the end of a step."""
        for mirror in self.strategy.plan().mirrors:
            if self.progress.completed_steps % mirror.every_steps == 0:
                self._spend("checkpoint", (yield Send(mirror.moves)))
                if self._record:
                    groups = tuple(sorted({sent.move.group for sent in mirror.moves}))
                    self._log(EventKind.MIRRORED, groups=groups)

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

    def _take_on_the_way(
        self, play: StepPhases, asked: Snapshots, outcome: Outcome, *, last: bool
    ) -> int:
        """Take snapshots that were due on the way through quiet steps, and book these so far.

        Of those on a shelf a failure can find the last two. What is due after the last step of all
        is taken here if the job does not look at that. Returns the steps that were booked.
        """
        progress = self.progress
        begun, each_s = progress.completed_steps, outcome.all_reduce_s / outcome.steps
        numbers = count(begun + asked.first, asked.every)
        ends_s = dict(zip(numbers, outcome.ends_s, strict=False))
        if not last:
            ends_s.pop(begun + outcome.steps, None)
        kept: dict[int, list[Shelf]] = {}
        for shelf in self._memory.shelves:
            taken = shelf.taken_of(ends_s)
            progress.snapshots += len(taken)
            for done in taken[-2:]:
                kept.setdefault(done, []).append(shelf)
        for done in sorted(kept):
            steps = done - progress.completed_steps
            self._did_quietly(play, steps, ends_s[done], steps * each_s)
            state, self._restarts_since_save = self._state(ends_s[done]), 0
            for shelf in kept[done]:
                shelf.settle(state.at_s)
                shelf.put(state)
        return progress.completed_steps - begun
