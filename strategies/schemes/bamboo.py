"""Bamboo: each node also holds the next stage of its pipeline, and computes it if that node fails.

Thorpe et al. 2023 (Bamboo, NSDI 2023). The groups of the job are its data-parallel pipelines. When
a node is lost, the node before it (in a ring: the last one for the first) does the work of both,
and the pipeline holds a local rendezvous. The overloaded node slows its pipeline until the next
global rendezvous, which spreads the work over all available nodes. A second loss that involves an
overloaded node is fatal to the pipeline: all groups hold a global rendezvous at once. If two stages
do not fit into a GPU, each loss causes a global rendezvous.

The stated time of a step without failures includes the redundant computation. If steps are
simulated on the platform, shadows compute the forward pass of the next stage after their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.plan import NOTHING_LEFT
from faultline.strategies.interface.recovery import Communicators, Move, Recovery, RecoveryKind
from faultline.strategies.interface.scheme import (
    Continue,
    Hit,
    StepPlan,
    StrategyOptions,
    Verdict,
    WipeOut,
)
from faultline.strategies.interface.step_shares import Pipeline, StageShare
from faultline.strategies.schemes.takeover.pipeline_scheme import PipelineScheme
from faultline.strategies.schemes.takeover.pipelines import formed, regrouped
from pydantic import Field

_SIMULATOR = "constants of the public simulator of Bamboo (NSDI 2023)"
_SLOWDOWN = 1.5
"""Factor on the time of a step with an overloaded node: `_SIMULATOR`."""
_OVERLOADED_SHARE = 0.05
"""All pipelines re-form if twice the overloaded nodes exceed this share of nodes: `_SIMULATOR`."""


class BambooOptions(StrategyOptions):
    """Named choices of Bamboo."""

    spread_share: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of a step that grows as fewer nodes do the work: by all nodes over "
        "remaining nodes.",
        json_schema_extra={"source": "assumption: all of it", "unit": "1"},
    )


@lru_cache(maxsize=8192)
def _with_shadows(
    stages: tuple[StageShare, ...], lost: frozenset[tuple[int, int]]
) -> tuple[StageShare, ...]:
    """Return stages in which shadows do the work of lost nodes."""
    workers = []
    for place in range(len(stages)):
        before = place
        while (stages[before].group, stages[before].node) in lost and place - before < len(stages):
            before -= 1
        workers.append(stages[before][:2])
    shares = []
    for place, (stage, worker) in enumerate(zip(stages, workers, strict=True)):
        after = (place + 1) % len(stages)
        # A node with two stages shadows no third one, and shadow work is not doubled.
        has_shadow = workers.count(worker) == 1 and after != place
        group, node = worker
        shadows = after if has_shadow else None
        shares.append(stage._replace(group=group, node=node, shadows=shadows))
    return tuple(shares)


class Bamboo(PipelineScheme):
    """Pipelines in which each node has a shadow."""

    name: ClassVar[str] = "bamboo"
    summary: ClassVar[str] = "Bamboo: the node before a lost one does its work as well"
    Options: ClassVar[type[StrategyOptions]] = BambooOptions
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("local-rendezvous", "re-form")

    def __init__(
        self, groups: int, redundancy: int, options: BambooOptions, shape: JobShape
    ) -> None:
        super().__init__(groups, redundancy, options, shape)
        self._options = options
        fits = self.shape.stages_that_fit
        self._has_shadows = fits is None or fits >= 2
        self._shadowed: dict[int, set[int]] = {}
        self._whole = StepPlan(tuple(range(groups)), 1, pipelines=self._pipelines())
        self.restart()

    def restart(self) -> None:
        super().restart()
        self._shadowed.clear()

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Let shadows work, or re-form all pipelines if a shadow is lost as well."""
        if not self._enough():
            return WipeOut(tuple(missing))
        losses = {group: set(self._newly.get(group, ())) for group in self._interrupted(missing)}
        self._newly.clear()
        self._plan = None
        recovery = self._recovery(losses) if losses else None
        return Continue((), dict.fromkeys(losses, 1), 0, tuple(missing), recovery)

    def on_repair(self, hit: Hit) -> Recovery | None:
        """Re-form pipelines with the returned nodes, in a global rendezvous."""
        if not self._lost.repair(hit):
            return None
        self._plan = None
        self._shadowed.clear()
        return replace(self._global_rendezvous(), is_expected=True)

    def _recovery(self, losses: Mapping[int, set[int]]) -> Recovery:
        """Return the recovery from lost stages, by group, and record the overloaded nodes."""
        fatal = any(self._is_fatal(group, newly) for group, newly in losses.items())
        for group, newly in losses.items():
            self._shadowed.setdefault(group, set()).update(newly)
        overloaded = sum(map(len, self._shadowed.values()))
        if not self._has_shadows:
            self.states_refused += 1
        if fatal or not self._has_shadows or 2 * overloaded > _OVERLOADED_SHARE * self._nodes:
            self._shadowed.clear()
            return self._global_rendezvous()
        # Shadows have the state already.
        return Recovery("local-rendezvous", (Communicators(1, 1 / self.groups),))

    def _global_rendezvous(self) -> Recovery:
        """Return the recovery of a global rendezvous: nodes fetch the state of their new layers."""
        stages = self.shape.stages
        share = min(1.0, 1.0 - self._lost.all_nodes_left() / self._nodes)
        live = map(self._lost.live, range(self.groups) if share else ())
        moves = [Move(*node, node[1], stages, share) for nodes in live for node in nodes]
        return Recovery("re-form", moves=tuple(moves))

    def _is_fatal(self, group: int, newly: set[int]) -> bool:
        """Return whether a lost node did, or would have to do, the work of another node.

        Stages that were lost before the last global rendezvous are already redistributed.
        """
        waiting = newly | self._shadowed.get(group, set())
        hosts = [(stage - 1) % self.shape.stages for stage in waiting]
        return any(host in waiting for host in hosts) or len(waiting) == self.shape.stages

    def _step_plan(self) -> StepPlan:
        if not self._enough():
            return NOTHING_LEFT
        shadowed = sum(map(len, self._shadowed.values()))
        spread = self._nodes / (self._lost.all_nodes_left() + shadowed)
        pace = 1.0 + self._options.spread_share * (spread - 1.0)
        if shadowed:
            pace *= _SLOWDOWN
        if pace == 1.0:
            return self._whole
        return StepPlan(self._whole.members, 1, pace=pace, pipelines=self._pipelines())

    def _pipelines(self) -> tuple[Pipeline, ...]:
        """Return the work of the nodes: their own stages, and shadow work for the next ones.

        Pipelines consist of the nodes that were up at the last global rendezvous.
        """
        shadowed = frozenset(
            (group, node) for group, lost in self._shadowed.items() for node in lost
        )
        nodes_at_rendezvous = [
            [
                (group, stage)
                for stage in range(self.shape.stages)
                if stage not in self._lost.of(group) or (group, stage) in shadowed
            ]
            if group in self._shadowed
            else self._lost.live(group)
            for group in range(self.groups)
        ]
        nodes = regrouped(nodes_at_rendezvous, self._least_nodes)
        pipelines = formed(nodes, self.groups, self.shape)
        return tuple(
            replace(
                pipeline,
                # Only the nodes of the pipeline, so that equal pipelines are found in the cache.
                stages=_with_shadows(
                    pipeline.stages, shadowed.intersection(stage[:2] for stage in pipeline.stages)
                ),
            )
            for pipeline in pipelines
        )

    def _enough(self) -> bool:
        """Return whether the remaining nodes can form a pipeline."""
        return self._lost.all_nodes_left() >= self.shape.stages
