"""A job whose healthy steps split their backward pass, as schemes and the simulator see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faultline.strategies.interface.pipeline_schedule import split_iteration
from faultline.strategies.interface.rerouted_schedule import Rerouted, ScheduleTechniques, rerouted
from faultline.strategies.interface.stage_work import Halves, StageWork


@dataclass(frozen=True, slots=True)
class SplitBackward:
    """A job whose healthy step splits its backward pass and staggers its optimizer."""

    backward_share: float = 2 / 3  # Share of a micro-batch's time that is its backward pass.
    # As in `ScheduleTechniques`: by default no bubble is left, as in ZB-2p (Qi et al. 2024, arXiv
    # 2401.10241).
    activations_held: float = 2.0

    @property
    def techniques(self) -> ScheduleTechniques:
        """Techniques of this job's schedules."""
        return ScheduleTechniques(activations_held=self.activations_held)

    def healthy(self, stages: int, micro_batches: int) -> Rerouted:
        """Return the iteration of a healthy pipeline."""
        loads = (micro_batches,) * stages
        return rerouted(loads, micro_batches, self.backward_share, self.techniques)

    def iteration(self, costs: Sequence[float], micro_batches: int) -> float:
        """Return the time in t of a pipeline that keeps the healthy orders of passes.

        `costs` are the times of a micro-batch on each stage, in t.
        """
        orders = self.healthy(len(costs), micro_batches).orders
        parts = (1.0 - self.backward_share, 0.0, self.backward_share / 2, self.backward_share / 2)
        work = StageWork(*map(Halves, parts))
        return split_iteration([work.scaled(cost) for cost in costs], micro_batches, orders)
