"""The parts of an undisturbed step's time."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.simulator.durations import SyncTime


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of an undisturbed step, by the activities of the busiest stage.

    Attributes
    ----------
    compute_s, tensor_s, context_s, pipeline_s, bubble_s : float
        Of the forward and backward passes: computing, sending in tensor-parallel groups, between
        ranks that share sequences, to neighbouring stages, and waiting for these.
    data_parallel_s : float
        Gradients and weights between replicas, as far as they do not hide behind the passes.
    optimizer_s : float
        The optimizer's step.
    activities : int
        Computations and messages that were simulated.
    is_even : bool
        Whether the platform treats all replicas alike, so that it does not matter which take part.
    """

    compute_s: float
    tensor_s: float
    context_s: float
    pipeline_s: float
    bubble_s: float
    data_parallel_s: float
    optimizer_s: float
    activities: int
    is_even: bool = True

    @property
    def passes_s(self) -> float:
        """Forward and backward passes."""
        return self.compute_s + self.tensor_s + self.context_s + self.pipeline_s + self.bubble_s

    @property
    def sync_s(self) -> float:
        """The time after the passes, in which replicas wait for each other."""
        return self.data_parallel_s + self.optimizer_s

    @property
    def step_s(self) -> float:
        """The whole step."""
        return self.passes_s + self.sync_s

    def sync_time(self, groups: int, context: int) -> SyncTime:
        """Return the time after the passes by remaining groups, of `context` replicas each."""
        replicas = groups * context
        share = (replicas - 1) / replicas
        transfer_s = self.data_parallel_s / share if share else 0.0
        return SyncTime(context, transfer_s, self.optimizer_s)
