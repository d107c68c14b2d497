"""States that a restart can go back to: checkpoints, and the tiers that keep snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from math import inf
from typing import NamedTuple

import numpy as np
from faultline.simulator.accounting.progress import Batches, Mark
from faultline.simulator.failures.failure import Failure, JobLayout
from faultline.simulator.job.background import Write
from faultline.strategies.protection.base import Durable, Recovery, Tier


class Saved(NamedTuple):
    """A state that was saved."""

    steps: int  # Steps completed by then.
    batches: Batches  # Full batches trained by then.
    last: Batches  # Batches that the last of the steps trained.
    # When it was taken, in seconds of simulated time. Earlier failures do not affect it.
    at_s: float
    booked: Mark  # The booked times that a restart to this state keeps.


class Losses:
    """The nodes whose memory was lost, and the last time of each loss."""

    def __init__(self, layout: JobLayout) -> None:
        self._layout = layout
        self._lost_s: dict[range, float] = {}

    def add(self, failures: Iterable[Failure]) -> None:
        """Record failures."""
        for failure in failures:
            nodes = self._layout.hosts_losing_memory(failure)
            if nodes:
                self._lost_s[nodes] = max(failure.time_s, self._lost_s.get(nodes, -inf))

    def since(self, time_s: float) -> set[int]:
        """Return the nodes lost at that time, in seconds, or later."""
        lost = (nodes for nodes, lost_s in self._lost_s.items() if lost_s >= time_s)
        return set(chain.from_iterable(lost))

    def forget(self) -> None:
        """Forget all losses: the lost nodes have been replaced and hold their state again."""
        self._lost_s.clear()


class SnapshotSlot:
    """A tier with its snapshots: the last complete one, and the one that is being taken."""

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        self.whole: Saved | None = None
        self._coming: Saved | None = None
        self._last_s = 0.0
        self._write: Write | None = None

    @property
    def is_on_storage(self) -> bool:
        """Whether the snapshot survives the loss of any node."""
        return isinstance(self.tier.keeper, Durable)

    def due(self, steps: int, now_s: float, down: int) -> bool:
        """Whether to take a snapshot at the end of a step; only one is taken at a time."""
        policy = self.tier.policy
        if policy is None or self._is_writing:
            return False
        if self._coming is not None:
            self.settle(now_s)
            if self._coming is not None:
                return False
        return policy.due(steps, now_s - self._last_s, now_s, down)

    def not_due_before(self, steps: int, now_s: float, down: int) -> tuple[float, float]:
        """Return a step and a time, in seconds; before both of them no snapshot is due."""
        assert self.tier.policy is not None
        if self._is_writing:
            return inf, now_s
        unsaved_s = now_s - self._last_s
        due = self.tier.policy.not_due_before(steps, unsaved_s, now_s, down)
        whole_s = self._whole_s(self._coming) if self._coming is not None else 0.0
        # Until the last snapshot is complete none is due, whatever the number of steps.
        return due if due[1] >= whole_s else (inf, whole_s)

    @property
    def every_steps(self) -> int:
        """Steps between two snapshots if these cost the job no time; else 0."""
        policy = self.tier.policy
        return 0 if policy is None or self.tier.stall_s else policy.every_steps

    def steps_with_snapshot(self, ends_s: Mapping[int, float]) -> list[int]:
        """Return the steps after which a snapshot is due and the previous one is complete.

        `ends_s` has the ends of consecutive steps in seconds, by the number of steps completed.
        """
        steps = np.fromiter(ends_s, int, len(ends_s))
        due_s = np.fromiter(ends_s.values(), float, len(ends_s))
        is_due = steps % self.every_steps == 0
        steps, due_s = steps[is_due], due_s[is_due]
        whole_s = -inf if self._coming is None else self._whole_s(self._coming)
        lag_s, place = self.tier.lag_s, int(due_s.searchsorted(whole_s))
        if (due_s[:-1] + lag_s <= due_s[1:]).all():
            # Each snapshot is complete before the next is due.
            return list(map(int, steps[place:]))
        taken = []
        while place < len(steps):
            taken.append(int(steps[place]))
            place = int(due_s.searchsorted(due_s[place] + lag_s))
        return taken

    def put(self, saved: Saved, write: Write | None = None) -> None:
        """Take a snapshot; it is complete the tier's lag after now, or after its write ends."""
        self._coming, self._last_s, self._write = saved, saved.at_s, write
        self.settle(saved.at_s)

    @property
    def _is_writing(self) -> bool:
        return self._write is not None and not self._write.is_over

    def _whole_s(self, coming: Saved) -> float:
        """Return when a snapshot that is being taken is complete, in seconds."""
        arrived_s = coming.at_s if self._write is None else self._write.whole_s
        return arrived_s + self.tier.lag_s

    def settle(self, now_s: float) -> None:
        """Replace the last snapshot if the next one is complete by now, in seconds."""
        if self._coming is not None and self._whole_s(self._coming) <= now_s:
            self.whole, self._coming = self._coming, None

    def strike(self, time_s: float) -> None:
        """Discard the snapshot that is incomplete at a failure at `time_s`, in seconds."""
        self.settle(time_s)
        self._coming = None

    def recovery(self, losses: Losses) -> Recovery | None:
        """Return how the complete snapshot can be loaded; None if it is missing or lost."""
        if self.whole is None:
            return None
        return self.tier.keeper.recovery(losses.since(self.whole.at_s))

    def clear(self) -> None:
        """Discard all snapshots."""
        self.whole = self._coming = None

    def renew(self, since_s: float, now_s: float) -> None:
        """Treat the snapshot as new: nodes lost before `since_s` have been replaced."""
        self._last_s = now_s
        if self.whole is not None:
            self.whole = self.whole._replace(at_s=since_s)
