"""The progress of a run: counts, and simulated time by cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter
from typing import NamedTuple

from faultline.simulator.accounting.badput import CAUSES, DOWNTIME, OF_STEPS
from faultline.strategies.interface.scheme import StepPlan

Mark = tuple[float, ...]
"""The times booked so far for the causes that a restart may take back."""

_of_steps = itemgetter(*OF_STEPS)


class Batches(NamedTuple):
    """Full batches: their progress towards a loss, and their samples.

    The two differ only if approximate gradients count for less.
    """

    trained: float = 0.0
    samples: float = 0.0

    @classmethod
    def of(cls, plan: StepPlan, approximation_loss: float) -> Batches:
        """Return the batches of a step; an approximate gradient loses a share of its progress."""
        samples = plan.batch_share
        if not plan.approximate:
            return _WHOLE if samples == 1.0 else cls(samples, samples)
        return cls(samples * (1.0 - approximation_loss * plan.approximate_share), samples)

    def plus(self, steps: int, each: Batches) -> Batches:
        """Return these batches and those of some steps; a negative number takes steps away."""
        return Batches(self.trained + steps * each.trained, self.samples + steps * each.samples)


_WHOLE = Batches(1.0, 1.0)


@dataclass(slots=True)
class Progress:
    """Counts and times of a run, kept up to date while it goes on."""

    completed_steps: int = 0  # Steps done and not taken back by a restart.
    # Full batches trained and not taken back, by progress and by samples (`Batches`): one per step
    # unless batches shrink.
    completed_batches: float = 0.0
    samples: float = 0.0
    simulated_steps: int = 0  # All simulated steps, including lost and repeated ones.
    # Shard types that a group computed, including patch compute, summed over simulated steps.
    stack_computations: int = 0
    # Failures that stopped groups, and the same by cause; empty if causes are unknown.
    events: int = 0
    events_by_cause: dict[str, int] = field(default_factory=dict)
    # Groups that they stopped, each time, and how many of these were down already.
    hits: int = 0
    hits_while_down: int = 0
    # Failures by cause that stopped no group, or none at first; empty if there are no such causes.
    disturbances: dict[str, int] = field(default_factory=dict)
    # How many mitigations of stragglers of each kind were taken; empty without any.
    remedies: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    # Restarts that loaded all state from the nodes' own memory, and restarts that loaded the state
    # of lost nodes from their peers.
    restarts_from_memory: int = 0
    restarts_from_peers: int = 0
    # Machines that failed on standby, up to the job's last check of them.
    standby_failures: int = 0
    # How often the scheme rejected a way to go on because it does not fit into the GPUs' memory.
    states_refused: int = 0
    rejoined: int = 0  # Groups that rejoined at a checkpoint or snapshot, including spares.
    reorderings: int = 0
    moved_types: int = 0
    checkpoints: int = 0  # Without those that were lost before they were complete, at the end.
    snapshots: int = 0  # Snapshots taken in the background, in memory and on storage.
    # Energy that GPUs drew beyond their rated power, in seconds of all GPUs' rated power.
    raised_power_s: float = 0.0
    now_s: float = 0.0  # Simulated time, in seconds.
    # Full batches after which the time is noted, and that time: infinite without or before them.
    noted_batches: float = inf
    noted_s: float = inf
    # Simulated time by cause (`badput`), in seconds; the sum is `now_s`. Steps not saved yet
    # are booked as if they were kept.
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))

    @property
    def completed(self) -> Batches:
        """`completed_batches` and `samples`."""
        return Batches(self.completed_batches, self.samples)

    def train(self, steps: int, each: Batches) -> None:
        """Count the batches that some steps have trained by now."""
        trained, samples = each
        self.completed_batches += steps * trained
        self.samples += steps * samples
        if self.completed_batches >= self.noted_batches:
            self.noted_batches, self.noted_s = inf, self.now_s

    def mark(self) -> Mark:
        """Return a mark for `take_back`: it keeps the times booked until now."""
        marked: Mark = _of_steps(self.seconds)
        return marked

    def take_back(self, mark: Mark) -> None:
        """Book the times of all steps since a mark as repeated."""
        for cause, kept_s in zip(OF_STEPS, mark, strict=True):
            self.seconds["repeated"] += self.seconds[cause] - kept_s
            self.seconds[cause] = kept_s

    def seconds_of(self, causes: Iterable[str]) -> float:
        """Return the simulated time under some causes, in seconds."""
        return sum(self.seconds[cause] for cause in causes)

    @property
    def downtime_s(self) -> float:
        """Time in which nothing was trained, saved or reduced, in seconds."""
        return self.seconds_of(DOWNTIME)
