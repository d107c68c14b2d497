"""What a job keeps in the background, and what of it a restart finds again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import gcd

from faultline.simulator.failures.failure import Failure, JobLayout
from faultline.simulator.job import Work
from faultline.simulator.shared_optimizer import SharedOptimizer
from faultline.simulator.snapshots import Losses, Saved, Shelf
from faultline.strategies.protection.base import Recovery

_NO_LAYOUT = JobLayout(1, 1, 1, 1, 1)


class Memory:
    """All tiers of a job.

    Parameters
    ----------
    work : Work
        The job with its tiers.
    optimizer : SharedOptimizer
        What survivors have of the optimizer's state.
    """

    def __init__(self, work: Work, optimizer: SharedOptimizer) -> None:
        shelves = [Shelf(tier) for tier in work.tiers]
        self.shelves = [shelf for shelf in shelves if shelf.tier.policy is not None]
        """Those that are filled beforehand."""
        costs_nothing = work.writes.keys().isdisjoint(shelf.tier.name for shelf in self.shelves)
        steps = [one.every_steps for one in self.shelves]
        self.snapshots_every = gcd(*steps) if costs_nothing and all(steps) else 0
        """Steps between the moments when some are due, if none costs the job any time; else 0."""
        self._survivors = [shelf for shelf in shelves if shelf.tier.policy is None]
        self.holds_last_step = bool(self._survivors)
        """Whether survivors of a failure are asked for the state of the last step."""
        self._layout = work.layout or _NO_LAYOUT
        self._losses = Losses(self._layout)
        self._since_s = 0.0
        self._optimizer = optimizer

    def strike(self, struck: Iterable[Failure]) -> None:
        """Failures have struck: what was not whole by then is spoiled, what is lost is noted."""
        if not (self.shelves or self._survivors):
            return
        failures = list(struck)
        self._losses.add(failures)
        if self.holds_last_step:
            for failure in failures:
                self._optimizer.strike(self._layout.groups_losing_memory(failure))
        if failures:
            first_s = min(failure.time_s for failure in failures)
            for shelf in self.shelves:
                shelf.strike(first_s)

    def recover(
        self, last: Saved, on_storage: Saved, struck: Iterable[Failure]
    ) -> tuple[Saved, Recovery, float | None]:
        """Find the latest state that is left after a restart.

        Parameters
        ----------
        last : Saved
            The state of the last step, which the survivors of the failure still held; not looked
            at unless `holds_last_step`.
        on_storage : Saved
            The last checkpoint that the job waited for.
        struck : iterable of Failure
            Failures that have not been told yet.

        Returns
        -------
        Saved, Recovery, float or None
            The state, where it is, and the seconds to load it; None for the time that storage
            takes.
        """
        self.strike(struck)
        where: Recovery = "storage"
        found, duration_s = on_storage, None
        for shelf in self._survivors:
            is_whole = self._optimizer.is_whole
            shelf.whole = replace(last, at_s=self._since_s) if is_whole else None
        for shelf in (*self._survivors, *self.shelves):
            way = shelf.recovery(self._losses)
            if way is None:
                shelf.clear()
            elif shelf.whole is not None and shelf.whole.batches > found.batches:
                found, where, duration_s = shelf.whole, way, shelf.tier.load.of(way)
        return found, where, duration_s

    def newest_on_storage(self, checkpoints: Sequence[Saved], before_s: float) -> Saved:
        """Return the newest of some checkpoints and the snapshots on storage, taken by some time.

        The last of the checkpoints, if all are younger. Snapshots in memory are left out, as the
        next ones overwrite them.
        """
        kept = [shelf.whole for shelf in self.shelves if shelf.is_on_storage]
        known = [*checkpoints, *(one for one in kept if one)]
        old = [one for one in known if one.at_s <= before_s]
        return max(old, key=lambda one: one.batches, default=checkpoints[-1])

    def forget(self) -> None:
        """What is kept is worth nothing."""
        for shelf in (*self._survivors, *self.shelves):
            shelf.clear()

    def guard(self, members: Sequence[int], since_s: float, now_s: float) -> None:
        """The job goes on, with all nodes replaced that it knows to be lost.

        Parameters
        ----------
        members : sequence of int
            Groups that go on, in ascending order.
        since_s : float
            Failures after this time have not been told yet, in seconds.
        now_s : float
            When the job goes on, in seconds.
        """
        self._losses.forget()
        self._optimizer.load(members)
        self._since_s = since_s
        for shelf in self.shelves:
            shelf.guard_from(since_s, now_s)
