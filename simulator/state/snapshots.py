"""States that a restart can go back to: checkpoints, and the tiers that keep snapshots."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from math import inf
from typing import NamedTuple

import numpy as np
from faultline.simulator.accounting.progress import Batches, Mark
from faultline.simulator.failures.failure import Failure, JobLayout
from faultline.simulator.job.background import Write
from faultline.strategies.protection.base import Durable, Recovery, Tier
from numpy.typing import NDArray


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


class _Copy(NamedTuple):
    """A state that is saved in a place."""

    saved: Saved
    write: Write | None = None  # Its flows, if these are simulated.
    after_s: float = 0.0  # Seconds from its start, or from the end of its flows, to its end.
    owners: Collection[int] | None = None  # Groups that hold parts of it; None for all.

    @property
    def whole_s(self) -> float:
        """When its last byte has arrived from each owner, in seconds; infinite if never."""
        arrived_s = self.saved.at_s if self.write is None else self.write.whole_s
        return arrived_s + self.after_s

    def is_lost(self, time_s: float, groups: Collection[int] | None) -> bool:
        """Return whether it was incomplete when some groups, or all, failed."""
        if self.whole_s <= time_s:
            return False
        if self.owners is None or groups is None:
            return True
        return not set(groups).isdisjoint(self.owners)


class SavedStates:
    """The last complete state in one place, the one before it, and the one on its way there.

    A state is complete when its last byte has arrived from each owner. The failure of an owner
    before that moment loses it, and the state before it remains. Failures are reported after they
    have happened, so a state that seemed to be complete may be lost, too.

    Attributes
    ----------
    lost : int
        How many states were lost before they were complete.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._whole: _Copy | None = None
        self._before: _Copy | None = None
        self._coming: _Copy | None = None

    @property
    def whole(self) -> Saved | None:
        """The last complete state."""
        return None if self._whole is None else self._whole.saved

    @property
    def before(self) -> Saved | None:
        """The complete state before it."""
        return None if self._before is None else self._before.saved

    def begin(
        self,
        saved: Saved,
        after_s: float = 0.0,
        write: Write | None = None,
        owners: Collection[int] | None = None,
    ) -> None:
        """Begin to save a state: see `_Copy`."""
        self.settle(saved.at_s)
        self._coming = _Copy(saved, write, after_s, owners)
        self.settle(saved.at_s)

    def settle(self, now_s: float) -> None:
        """Replace the last complete state if the next one is complete by now, in seconds."""
        if self._coming is not None and self._coming.whole_s <= now_s:
            self._before, self._whole, self._coming = self._whole, self._coming, None

    def strike(self, time_s: float, groups: Collection[int] | None = None) -> None:
        """Discard what was incomplete when some groups, or all, failed at `time_s` seconds."""
        if self._coming is None and (self._whole is None or self._whole.whole_s <= time_s):
            return  # As at most failures.
        self.settle(time_s)
        if self._coming is not None and self._coming.is_lost(time_s, groups):
            self._coming = None
            self.lost += 1
        if self._whole is not None and self._whole.is_lost(time_s, groups):
            self._whole, self._before = self._before, None
            self.lost += 1

    def reset(self, saved: Saved | None) -> None:
        """Let a complete state, or none, be the only one."""
        self._whole = None if saved is None else _Copy(saved)
        self._before = self._coming = None


class SnapshotSlot(SavedStates):
    """A tier with its snapshots."""

    def __init__(self, tier: Tier) -> None:
        super().__init__()
        self.tier = tier
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
        whole_s = 0.0 if self._coming is None else self._coming.whole_s
        # Until the last snapshot is complete none is due, whatever the number of steps.
        return due if due[1] >= whole_s else (inf, whole_s)

    @property
    def every_steps(self) -> int:
        """Steps between two snapshots if these cost the job no time; else 0."""
        policy = self.tier.policy
        return 0 if policy is None or self.tier.stall_s else policy.every_steps

    def places_with_snapshot(
        self, steps: NDArray[np.int64], ends_s: NDArray[np.float64]
    ) -> NDArray[np.intp]:
        """Return the places at which a snapshot is due and the previous one is complete.

        `steps` are numbers of completed steps, and `ends_s` the times at which they were completed,
        in seconds; both ascend.
        """
        places = np.flatnonzero(steps % self.every_steps == 0)
        due_s = ends_s[places]
        whole_s = -inf if self._coming is None else self._coming.whole_s
        lag_s, first = self.tier.lag_s, int(due_s.searchsorted(whole_s))
        if (due_s[:-1] + lag_s <= due_s[1:]).all():
            # Each snapshot is complete before the next is due.
            return places[first:]
        taken = []
        while first < len(places):
            taken.append(int(places[first]))
            first = int(due_s.searchsorted(due_s[first] + lag_s))
        return np.array(taken, np.intp)

    def put(self, saved: Saved, write: Write | None = None) -> None:
        """Take a snapshot, from the start of its stall on.

        It is complete the tier's stall and lag later, or the lag after its write ends. A memory
        keeps two: the new one overwrites the one before the last.
        """
        tier = self.tier
        self._last_s, self._write = saved.at_s + tier.stall_s, write
        self.begin(saved, tier.stall_s + tier.lag_s, write)
        if self._coming is not None and not self.is_on_storage:
            self._before = None

    @property
    def _is_writing(self) -> bool:
        return self._write is not None and not self._write.is_over

    def recovery(self, losses: Losses) -> Recovery | None:
        """Return how the complete snapshot can be loaded; None if it is missing or lost."""
        if self.whole is None:
            return None
        return self.tier.keeper.recovery(losses.since(self.whole.at_s))

    def renew(self, since_s: float, now_s: float) -> None:
        """Treat the snapshot as new: nodes lost before `since_s` have been replaced."""
        self._last_s = now_s
        if self.whole is not None:
            self._whole = _Copy(self.whole._replace(at_s=since_s))
