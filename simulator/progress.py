"""The progress of a run: counts, and simulated time by cause."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from faultline.simulator.badput import CAUSES, OF_STEPS
from faultline.strategies.base import StepPlan

Mark = tuple[float, ...]
"""The booked times of the causes that a restart may take back, at some moment."""

_of_steps = itemgetter(*OF_STEPS)


class Batches(NamedTuple):
    """Full batches: their progress towards a loss, and their samples.

    Both are the same unless approximate gradients are charged.
    """

    trained: float = 0.0
    samples: float = 0.0

    @classmethod
    def of(cls, plan: StepPlan, approximation_loss: float) -> Batches:
        """Return the batches of a step, if an approximate gradient trains less by a share."""
        samples = plan.batch_share
        if not plan.approximate:
            return _WHOLE if samples == 1.0 else cls(samples, samples)
        return cls(samples * (1.0 - approximation_loss * plan.approximate_share), samples)

    def plus(self, steps: int, each: Batches) -> Batches:
        """Return these and those of some steps; as many fewer where that is negative."""
        return Batches(self.trained + steps * each.trained, self.samples + steps * each.samples)


_WHOLE = Batches(1.0, 1.0)


@dataclass(slots=True)
class Progress:
    """Counts and times of a run, kept up to date while it goes on."""

    completed_steps: int = 0  # Steps done and not taken back by a restart.
    # Full batches trained and not taken back, as of `Batches`; as many as steps unless batches
    # shrink.
    trained: float = 0.0
    samples: float = 0.0
    simulated_steps: int = 0  # All-reduced steps, those that were lost and repeated included.
    # Shard types a group computed, patch compute included, summed over simulated steps.
    stack_computations: int = 0
    # Failures of groups, and those among them that struck a group which was down already.
    failures: int = 0
    failures_while_down: int = 0
    # Failures of groups by cause; empty if causes are unknown.
    failures_by_cause: dict[str, int] = field(default_factory=dict)
    # Failures by cause that stopped no group, or none at first; empty if there are no such causes.
    disturbances: dict[str, int] = field(default_factory=dict)
    # Mitigations of stragglers, by number; empty without any.
    remedies: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    # Restarts after which every node had its state in its memory, and those after which what lost
    # nodes had held was found at their peers.
    restarts_from_memory: int = 0
    restarts_from_peers: int = 0
    # Machines that failed on standby, as far as the job has checked them.
    standby_failures: int = 0
    # Times that the scheme left out a way to go on as it does not fit into the memory of GPUs.
    states_refused: int = 0
    rejoined: int = 0  # Groups that came back at a checkpoint or snapshot, spares included.
    reorderings: int = 0
    moved_types: int = 0
    checkpoints: int = 0
    snapshots: int = 0  # Snapshots taken in the background, in memory and on storage.
    # Energy that schemes had GPUs draw beyond rated power, in seconds of all GPUs' rated power.
    raised_power_s: float = 0.0
    now_s: float = 0.0  # Simulated time, in seconds.
    # Simulated time by cause (`simulator.badput`), in seconds; the sum is `now_s`. Steps that are
    # not saved yet are booked as if they were kept.
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))

    @property
    def completed_batches(self) -> float:
        """Full batches trained and not taken back, by their progress towards a loss."""
        return self.trained

    @property
    def completed(self) -> Batches:
        """`trained` and `samples`."""
        return Batches(self.trained, self.samples)

    def train(self, steps: int, each: Batches) -> None:
        """Count the batches that some steps have trained."""
        trained, samples = each
        self.trained += steps * trained
        self.samples += steps * samples

    def mark(self) -> Mark:
        """Return a mark for `take_back`, which then keeps everything done so far."""
        marked: Mark = _of_steps(self.seconds)
        return marked

    def take_back(self, mark: Mark) -> None:
        """Book all steps since a mark, and the current one, as repeated."""
        for cause, kept_s in zip(OF_STEPS, mark, strict=True):
            self.seconds["repeated"] += self.seconds[cause] - kept_s
            self.seconds[cause] = kept_s

    @property
    def downtime_s(self) -> float:
        """Time in which nothing was trained, saved or reduced: restarts and reconfigurations."""
        return self.seconds["restart"] + self.seconds["load"] + self.seconds["reconfigure"]
