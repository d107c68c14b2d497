"""The common part of schemes that continue without some pipeline stages: losses and plan."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Hit, Need, StepPlan, Strategy, StrategyOptions
from faultline.strategies.theory.wipe_out import failures_until_too_few


def stages_of(hit: Hit, stages: int, context: int = 1) -> Sequence[int]:
    """Return the stages whose nodes a hit breaks; GPUs are assigned to stages in order.

    Each stage has an equal run of GPUs in each of the `context` replicas of a group. A stage that
    loses a GPU is lost. With fewer GPUs than stages, a GPU has several stages.
    """
    gpus, runs = hit.gpus_per_group, stages * context
    first, last = hit.first_gpu * runs // gpus, ((hit.last_gpu + 1) * runs - 1) // gpus
    return sorted({run % stages for run in range(first, min(last, first + stages) + 1)})


class LostStages:
    """Counts the hits of each stage of `groups` pipelines, one node per stage.

    Independent failures are repaired independently: a stage that is hit again while it is down is
    up when both hits are repaired. `context` is as in `JobShape`.
    """

    def __init__(self, groups: int, stages: int, context: int = 1) -> None:
        self.stages, self._context = stages, context
        self._hits: list[Counter[int]] = [Counter() for _ in range(groups)]
        # A failure changes one of thousands of groups: the nodes of the others are cached.
        self._live: dict[int, tuple[tuple[int, int], ...]] = {}
        self._down = 0

    def clear(self) -> None:
        """Remove all hits."""
        for group, counter in enumerate(self._hits):
            if counter:
                counter.clear()
                self._live.pop(group, None)
        self._down = 0

    def add(self, hit: Hit) -> tuple[int, ...]:
        """Record a hit; return the stages of its group that were up until then."""
        self._live.pop(hit.group, None)
        counter = self._hits[hit.group]
        stages = stages_of(hit, self.stages, self._context)
        newly = tuple(stage for stage in stages if not counter[stage])
        counter.update(stages)
        self._down += len(newly)
        return newly

    def repair(self, hit: Hit) -> tuple[int, ...]:
        """Record the repair of a hit; return the stages of its group that are up again."""
        self._live.pop(hit.group, None)
        counter, back = self._hits[hit.group], []
        for stage in stages_of(hit, self.stages, self._context):
            if counter[stage]:
                counter[stage] -= 1
                if not counter[stage]:
                    back.append(stage)
        self._down -= len(back)
        return tuple(back)

    def of(self, group: int) -> frozenset[int]:
        """Return the stages of a group that are down."""
        return frozenset(stage for stage, hits in self._hits[group].items() if hits)

    def live(self, group: int) -> tuple[tuple[int, int], ...]:
        """Return the nodes of a group that are up, by group and stage."""
        live = self._live.get(group)
        if live is None:
            lost = self.of(group)
            live = tuple((group, stage) for stage in range(self.stages) if stage not in lost)
            self._live[group] = live
        return live

    def nodes_left(self, group: int) -> int:
        """Return how many nodes of a group are up."""
        return len(self.live(group))

    def all_nodes_left(self) -> int:
        """Return how many nodes of all groups are up."""
        return len(self._hits) * self.stages - self._down


class PipelineScheme(Strategy):
    """Groups are pipelines that continue without lost nodes; the plan holds until the next hit."""

    needs: ClassVar[tuple[Need, ...]] = ("layout",)
    keeps_groups_whole: ClassVar[bool] = False
    restart_replaces: ClassVar[bool] = False

    def __init__(
        self, groups: int, redundancy: int, options: StrategyOptions, shape: JobShape
    ) -> None:
        super().__init__(groups, redundancy, options, shape)
        self._lost = LostStages(groups, self.shape.stages, self.shape.context)
        self._nodes = groups * self.shape.stages
        self._least_nodes = min(self.shape.least_stages, self.shape.stages)
        # Stages that each group has lost since the last verdict.
        self._newly: dict[int, tuple[int, ...]] = {}

    def restart(self) -> None:
        super().restart()
        self._lost.clear()
        self._newly.clear()

    def plan(self) -> StepPlan:
        if self._plan is None:
            # Hits reported at a restart are no losses of the next step.
            self._newly.clear()
        return super().plan()

    def on_hit(self, hit: Hit) -> None:
        self._note(hit, self._lost.add(hit))

    def _note(self, hit: Hit, newly: Sequence[int]) -> None:
        self._newly[hit.group] = (*self._newly.get(hit.group, ()), *newly)
        self._plan = None

    def _interrupted(self, missing: Sequence[int]) -> list[int]:
        """Return the groups whose step is interrupted.

        A hit on a stage that was already down interrupts nothing. A failure without a hit does.
        """
        return [group for group in missing if self._newly.get(group) != ()]

    def masked_failures(self) -> float:
        """Return the failures until no node of any pipeline is left, without repairs."""
        return failures_until_too_few(self._nodes)

    def work_per_step(self) -> float:
        """Return 1: each group computes its one shard type."""
        return 1.0

    @abstractmethod
    def _step_plan(self) -> StepPlan:
        """Return the plan for the current losses."""
