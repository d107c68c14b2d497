"""Snapshots that a job takes in the background, and the states that a restart finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

from faultline.simulator.failures.failure import Failure, JobLayout
from faultline.simulator.job.work import Saving
from faultline.simulator.state.shared_optimizer import SharedOptimizer
from faultline.simulator.state.snapshots import Losses, Saved, SavedStates, SnapshotSlot
from faultline.strategies.protection.base import Recovery


class Memory:
    """All tiers of a job."""

    def __init__(self, saving: Saving, layout: JobLayout, optimizer: SharedOptimizer) -> None:
        slots = [SnapshotSlot(tier) for tier in saving.tiers]
        self.slots = [slot for slot in slots if slot.tier.policy is not None]
        """Tiers that are filled before a failure."""
        costs_nothing = saving.writes.keys().isdisjoint(slot.tier.name for slot in self.slots)
        steps = [slot.every_steps for slot in self.slots]
        self.snapshots_every = gcd(*steps) if costs_nothing and all(steps) else 0
        """Steps between due snapshots if none costs the job any time; else 0."""
        self.checkpoint = SavedStates()
        """The last checkpoints that the job has written to storage."""
        self._survivors = [slot for slot in slots if slot.tier.policy is None]
        self.holds_last_step = bool(self._survivors)
        """Whether a restart uses the state of the last step that survivors hold."""
        self._layout = layout
        self._losses = Losses(self._layout)
        self._since_s = 0.0
        self._optimizer = optimizer

    def strike(self, struck: Iterable[Failure]) -> None:
        """Apply failures: incomplete states become invalid, and lost memories are recorded."""
        failures = list(struck)
        for failure in failures:
            self.checkpoint.strike(failure.time_s, failure.groups)
        if not (self.slots or self._survivors):
            return
        self._losses.add(failures)
        if self.holds_last_step:
            for failure in failures:
                self._optimizer.strike(self._layout.groups_losing_memory(failure))
        if failures:
            first_s = min(failure.time_s for failure in failures)
            for slot in self.slots:
                slot.strike(first_s)

    def stop(self, now_s: float) -> None:
        """Discard what is incomplete when all groups are stopped, in seconds."""
        for states in (self.checkpoint, *self.slots):
            states.strike(now_s)

    def recover(
        self, last: Saved, on_storage: Saved, struck: Iterable[Failure] = ()
    ) -> tuple[Saved, Recovery, float | None]:
        """Find the latest state that has survived until a restart.

        Survivors of the failure hold `last`, the state of the last step; it counts only if
        `holds_last_step`. The last checkpoint that the job waited for is `on_storage`. The failures
        `struck` have not been reported yet. Returns the state, its place, and the seconds to load
        it: None for the time of a load from storage.
        """
        self.strike(struck)
        place: Recovery = "storage"
        latest, duration_s = on_storage, None
        for slot in self._survivors:
            is_whole = self._optimizer.is_whole
            slot.reset(last._replace(at_s=self._since_s) if is_whole else None)
        for slot in (*self._survivors, *self.slots):
            source = slot.recovery(self._losses)
            if source is None:
                slot.reset(None)
            elif slot.whole is not None and slot.whole.batches > latest.batches:
                latest, place, duration_s = slot.whole, source, slot.tier.load.of(source)
        return latest, place, duration_s

    def newest_on_storage(self, before_s: float, now_s: float) -> Saved:
        """Return the newest checkpoint or snapshot on storage that was taken by `before_s`.

        If all are younger, return the oldest checkpoint. Snapshots in memory are left out, because
        the next ones overwrite them.
        """
        kept = [self.checkpoint, *(slot for slot in self.slots if slot.is_on_storage)]
        for states in kept:
            states.settle(now_s)
        states_on_storage = (saved for states in kept for saved in (states.whole, states.before))
        old = [saved for saved in states_on_storage if saved and saved.at_s <= before_s]
        oldest = self.checkpoint.before or self.checkpoint.whole
        assert oldest is not None
        return max(old, key=lambda saved: saved.batches, default=oldest)

    def forget(self) -> None:
        """Discard all snapshots: they are invalid."""
        for slot in (*self._survivors, *self.slots):
            slot.reset(None)

    def replace_lost_nodes(self, members: Sequence[int], since_s: float, now_s: float) -> None:
        """Continue with the groups `members`, after all nodes known to be lost were replaced.

        Failures after `since_s` have not been reported yet; times are in seconds.
        """
        self._losses.forget()
        self._optimizer.load(members)
        self._since_s = since_s
        for slot in self.slots:
            slot.renew(since_s, now_s)
