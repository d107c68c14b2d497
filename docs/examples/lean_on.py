"""Pipelines in which a node also computes the stage of a failed neighbour.

faultline --scheme-file docs/examples/lean_on.py run llama3-70b-stress --set strategy.name=lean-on
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import ClassVar

from faultline.strategies.interface.recovery import Move, Recovery, RecoveryKind
from faultline.strategies.interface.scheme import Continue, Hit, StepPlan, Verdict, WipeOut
from faultline.strategies.interface.step_shares import Pipeline, StageShare
from faultline.strategies.schemes.takeover.pipeline_scheme import PipelineScheme


class LeanOn(PipelineScheme):
    """A pipeline goes on without one of its nodes; the second lost node restarts the job."""

    name = "lean-on"
    summary = "A neighbour also computes the stage of a failed node"
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("take-over", "hand-back")
    restart_replaces = True

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        fits, stages = self.shape.stages_that_fit, self.shape.stages
        lost = {group: sorted(self._lost.of(group)) for group in missing}
        if stages < 2 or (fits or 2) < 2 or max(map(len, lost.values())) > 1:
            return WipeOut(tuple(missing))
        moves = tuple(
            Move(group, self._neighbour(stage), stage, stages)
            for group in missing
            for stage in lost[group]
        )
        self._plan = None
        repeated = dict.fromkeys(missing, 1)
        taken_over = Recovery("take-over", moves=moves)
        return Continue((), repeated, carried_on=tuple(missing), recovery=taken_over)

    def on_repair(self, hit: Hit) -> Recovery | None:
        back = self._lost.repair(hit)
        if not back:
            return None
        self._plan = None
        moves = tuple(Move(hit.group, stage, stage, self.shape.stages) for stage in back)
        return Recovery("hand-back", moves=moves, is_expected=True)

    def masked_failures(self) -> float:
        return sqrt(pi * self.groups / 2)

    def _step_plan(self) -> StepPlan:
        leaning = tuple(map(self._pipeline, filter(self._lost.of, range(self.groups))))
        if not leaning:
            return self._whole
        return StepPlan(self._whole.members, stacks=1, pace=2.0, pipelines=leaning)

    def _pipeline(self, group: int) -> Pipeline:
        """Return the node of each stage; the steps of all other pipelines stay the same."""
        lost, shape = self._lost.of(group), self.shape
        stages = range(shape.stages)
        nodes = (self._neighbour(stage) if stage in lost else stage for stage in stages)
        shares = tuple(StageShare(group, node) for node in nodes)
        return Pipeline(group, shares, shape.micro_batches, shape.tensor)

    def _neighbour(self, stage: int) -> int:
        return stage - 1 if stage else 1
