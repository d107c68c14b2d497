"""Varuna: checkpoints on storage, and restarts with the remaining nodes.

Athlur et al. 2022 (Varuna, EuroSys 2022). When a node is lost, the job restarts from the last
checkpoint and spreads the work over the nodes that are up. Nodes that return take part again from
the next restart on. The published comparisons write a checkpoint every 10 steps
(``checkpoint.interval_steps``). A 6.7B model took 120 s to save and about 580 s to restart (Jang et
al. 2023 (Oobleck, SOSP 2023)); the scenario states these times as ``times.checkpoint_write_s`` and
``times.restart_s``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from faultline.strategies.base import StepPlan, Verdict, WipeOut
from faultline.strategies.recovery import RecoveryKind
from faultline.strategies.takeover.pipeline_scheme import NOTHING_LEFT, PipelineScheme


class Varuna(PipelineScheme):
    """A job that restarts with the remaining nodes."""

    name: ClassVar[str] = "varuna"
    summary: ClassVar[str] = "Varuna: restart from a checkpoint with the nodes that are left"
    title: ClassVar[str] = "Varuna"
    colour: ClassVar[str | None] = "#AA2222"
    marker: ClassVar[str | None] = ">"
    protections: ClassVar[tuple[str, ...]] = ("storage",)
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ()
    repairs_wait_for_restart: ClassVar[bool] = True

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        return WipeOut(tuple(missing))

    def _step_plan(self) -> StepPlan:
        nodes_left = self._lost.all_nodes_left()
        if nodes_left < self._least_nodes:
            self.states_refused += nodes_left > 0
            return NOTHING_LEFT
        return StepPlan(self._whole.members, 1, pace=self._nodes / nodes_left)

    def masked_failures(self) -> float:
        """Return 1: the first failure forces a restart."""
        return 1.0
