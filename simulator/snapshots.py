"""What a restart can go back to: saved states, and the tiers that keep them in the background."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from math import inf

from faultline.simulator.background import Write
from faultline.simulator.badput import Mark
from faultline.simulator.failures.failure import Failure, JobLayout
from faultline.simulator.progress import Batches
from faultline.strategies.protection.base import Durable, Recovery, Tier


@dataclass(frozen=True, slots=True)
class Saved:
    """A state that was saved.

    Attributes
    ----------
    steps : int
        Steps completed by then.
    batches : Batches
        Full batches trained by then.
    last : Batches
        What the last of the steps trained.
    at_s : float
        When it was taken, in seconds of simulated time; failures before that do it no harm.
    booked : Mark
        What a restart to this state leaves in the ledger.
    """

    steps: int
    batches: Batches
    last: Batches
    at_s: float
    booked: Mark


class Losses:
    """The nodes whose memory was lost, and when last.

    Parameters
    ----------
    layout : JobLayout
        Which nodes a failure takes.
    """

    def __init__(self, layout: JobLayout) -> None:
        self._layout = layout
        self._lost_s: dict[range, float] = {}

    def add(self, failures: Iterable[Failure]) -> None:
        """Note failures."""
        for failure in failures:
            nodes = self._layout.hosts_losing_memory(failure)
            if nodes:
                self._lost_s[nodes] = max(failure.time_s, self._lost_s.get(nodes, -inf))

    def since(self, time_s: float) -> set[int]:
        """Return the nodes lost at that time, in seconds, or later."""
        lost = (nodes for nodes, lost_s in self._lost_s.items() if lost_s >= time_s)
        return set(chain.from_iterable(lost))

    def forget(self) -> None:
        """Lost nodes are replaced, and hold what they have to."""
        self._lost_s.clear()


class Shelf:
    """A tier and what is on it: the last whole snapshot, and the one that is being taken."""

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        self.whole: Saved | None = None
        self._coming: Saved | None = None
        self._last_s = 0.0
        self._write: Write | None = None

    @property
    def is_on_storage(self) -> bool:
        """Whether no node that is lost takes anything of it."""
        return isinstance(self.tier.keeper, Durable)

    def due(self, steps: int, now_s: float, down: int) -> bool:
        """Whether to take a snapshot at the end of a step: one at a time."""
        policy = self.tier.policy
        if policy is None or self._is_writing:
            return False
        if self._coming is not None:
            self.settle(now_s)
            if self._coming is not None:
                return False
        return policy.due(steps, now_s - self._last_s, now_s, down)

    def not_due_before(self, steps: int, now_s: float, down: int) -> tuple[float, float]:
        """Return the steps and the time, in seconds, below both of which none is due."""
        assert self.tier.policy is not None
        if self._is_writing:
            return inf, now_s
        unsaved_s = now_s - self._last_s
        due = self.tier.policy.not_due_before(steps, unsaved_s, now_s, down)
        whole_s = self._whole_s(self._coming) if self._coming is not None else 0.0
        # Before the last one is whole none is due, however many steps are done.
        return due if due[1] >= whole_s else (inf, whole_s)

    @property
    def every_steps(self) -> int:
        """Steps between two snapshots, where these cost the job no time; else 0."""
        policy = self.tier.policy
        return 0 if policy is None or self.tier.stall_s else policy.every_steps

    def taken_of(self, ends_s: Mapping[int, float]) -> list[int]:
        """Return after which steps snapshots are taken: when one is due, and the last is whole.

        Parameters
        ----------
        ends_s : mapping of int to float
            The ends of steps in a row, in seconds and in order, by the steps completed then.
        """
        every, lag_s, taken = self.every_steps, self.tier.lag_s, []
        whole_s = -inf if self._coming is None else self._whole_s(self._coming)
        for steps, at_s in ends_s.items():
            if whole_s <= at_s and steps % every == 0:
                taken.append(steps)
                whole_s = at_s + lag_s
        return taken

    def put(self, saved: Saved, write: Write | None = None) -> None:
        """Take a snapshot; it is whole a lag later, or when the write ends that takes it away."""
        self._coming, self._last_s, self._write = saved, saved.at_s, write
        self.settle(saved.at_s)

    @property
    def _is_writing(self) -> bool:
        return self._write is not None and not self._write.is_over

    def _whole_s(self, coming: Saved) -> float:
        """Return when what is coming is whole, in seconds."""
        arrived_s = coming.at_s if self._write is None else self._write.whole_s
        return arrived_s + self.tier.lag_s

    def settle(self, now_s: float) -> None:
        """What has become whole by now, in seconds, replaces what was."""
        if self._coming is not None and self._whole_s(self._coming) <= now_s:
            self.whole, self._coming = self._coming, None

    def strike(self, time_s: float) -> None:
        """A failure at `time_s`, in seconds, spoils what is not whole by then."""
        self.settle(time_s)
        self._coming = None

    def recovery(self, losses: Losses) -> Recovery | None:
        """Return how the whole snapshot can be loaded; None if there is none, or it is lost."""
        if self.whole is None:
            return None
        return self.tier.keeper.recovery(losses.since(self.whole.at_s))

    def clear(self) -> None:
        """Nothing is left."""
        self.whole = self._coming = None

    def guard_from(self, since_s: float, now_s: float) -> None:
        """Nodes lost before `since_s` have been replaced: the snapshot is as safe as a new one."""
        self._last_s = now_s
        if self.whole is not None:
            self.whole = replace(self.whole, at_s=since_s)
