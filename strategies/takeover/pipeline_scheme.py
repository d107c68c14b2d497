"""What schemes share that work around lost stages of pipelines: what is lost, and the kept plan."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from faultline.strategies.base import StepPlan, Strategy, StrategyOptions
from faultline.strategies.takeover.lost_stages import LostStages


class PipelineScheme(Strategy):
    """Groups are pipelines that go on with lost nodes; the plan is kept until something is hit."""

    tracks_components: ClassVar[bool] = True
    needs_layout: ClassVar[bool] = True
    restart_replaces: ClassVar[bool] = False

    def __init__(self, groups: int, redundancy: int, options: StrategyOptions) -> None:
        super().__init__(groups, redundancy, options)
        self._lost = LostStages(groups, self.shape.stages, self.shape.context)
        self._whole = StepPlan(tuple(range(groups)), 1)
        self._plan: StepPlan | None = None

    def plan(self) -> StepPlan:
        if self._plan is None:
            self._plan = self._step_plan()
            # What a restart heard of is no loss of the next step.
            self._forget_hits()
        return self._plan

    def work_per_step(self) -> float:
        """Each group computes its one shard type."""
        return 1.0

    @abstractmethod
    def _step_plan(self) -> StepPlan:
        """Return the plan for what is lost now."""

    @abstractmethod
    def _forget_hits(self) -> None:
        """Take what has been heard of for known."""
