"""Oobleck: pipelines of unequal length from templates that were planned in advance.

Jang et al. 2023 (Oobleck, SOSP 2023). The groups of the job are its data-parallel pipelines at the
start. When nodes are lost, `takeover.pipelines` re-forms the pipelines, missing layers are copied
from pipelines that have them, and the interrupted step is repeated. No checkpoint is loaded. When
nodes return, pipelines are re-formed again. Below the least number of nodes the job restarts, and
has to wait for hardware.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
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
from faultline.strategies.interface.step_shares import Pipeline
from faultline.strategies.schemes.takeover.pipeline_scheme import PipelineScheme
from faultline.strategies.schemes.takeover.pipelines import formed, iteration_time, regrouped
from faultline.strategies.schemes.takeover.templates import Template, even_template


class Oobleck(PipelineScheme):
    """Pipelines that are re-formed with the remaining nodes."""

    name: ClassVar[str] = "oobleck"
    summary: ClassVar[str] = "Oobleck: pipelines re-formed from templates, no checkpoint loaded"
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("re-form",)

    def __init__(
        self, groups: int, redundancy: int, options: StrategyOptions, shape: JobShape
    ) -> None:
        super().__init__(groups, redundancy, options, shape)
        self._paces: dict[tuple[int, ...], float] = {}

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Re-form pipelines with the remaining nodes, and repeat the step."""
        interrupted = self._interrupted(missing)
        if interrupted:
            live = [self._lost.live(group) for group in range(self.groups)]
            self.states_refused += self._pipelines() != regrouped(live, least=1)
        if self._pace() is None:
            return WipeOut(tuple(missing))
        self._newly.clear()
        self._plan = None
        if not interrupted:
            return Continue((), carried_on=tuple(missing), recovery=None)
        patch = dict.fromkeys(self._whole.members, 1)
        recovery = self._re_forming(interrupted)
        return Continue((), patch, carried_on=tuple(missing), recovery=recovery)

    def on_repair(self, hit: Hit) -> Recovery | None:
        """Re-form pipelines with the returned nodes; all wait for their processes."""
        if not self._lost.repair(hit):
            return None
        self._plan = None
        return replace(self._re_forming([hit.group]), starts_processes=True, is_expected=True)

    def _re_forming(self, groups: Sequence[int]) -> Recovery:
        """Return the recovery of re-forming pipelines.

        All communicators are rebuilt, one per layer. Pipelines that have a layer broadcast it to
        nodes that newly need it, as the artifact's engine does.
        """
        stages = self.shape.stages
        moves = []
        for group in groups:
            lost = self._lost.of(group)
            live = [stage for stage in range(stages) if stage not in lost]
            # All boundaries move: each node takes over its part of the loss, or gives it back.
            share = max(1, len(lost)) / max(1, len(live))
            moves += [Move(group, stage, stage, stages, min(1.0, share)) for stage in live]
        of_layers = Communicators(self.shape.layers, 1 / stages)
        return Recovery("re-form", (of_layers,), moves=tuple(moves))

    def _step_plan(self) -> StepPlan:
        pace = self._pace()
        if pace is None:
            return NOTHING_LEFT
        pipelines: tuple[Pipeline, ...] = ()
        if self._lost.all_nodes_left() < self._nodes:
            pairs = zip(
                formed(self._pipelines(), self.groups, self.shape), self._healthy, strict=True
            )
            pipelines = tuple(pipeline for pipeline, healthy in pairs if pipeline != healthy)
        if pace == 1.0 and not pipelines:
            return self._whole
        return StepPlan(self._whole.members, 1, pace=pace, pipelines=pipelines)

    @cached_property
    def _healthy(self) -> list[Pipeline]:
        """The pipeline of each group while no node is lost."""
        stages = range(self.shape.stages)
        nodes = [[(group, stage) for stage in stages] for group in range(self.groups)]
        return formed(nodes, self.groups, self.shape)

    def _pipelines(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Return the nodes of each pipeline; empty if too few nodes are left."""
        return regrouped(map(self._lost.live, range(self.groups)), self._least_nodes)

    def _pace(self) -> float | None:
        """Return the time of a step over that with all nodes; None if too few nodes are left."""
        pipelines = tuple(map(len, self._pipelines()))
        if not pipelines:
            return None
        if pipelines not in self._paces:
            self._paces[pipelines] = max(1.0, self._time(pipelines) / self._healthy_time)
        return self._paces[pipelines]

    @cached_property
    def _healthy_time(self) -> float:
        return self._time((self.shape.stages,) * self.groups)

    def _time(self, pipelines: Sequence[int]) -> float:
        shape = self.shape
        templates = {nodes: even_template(shape.layers, nodes) for nodes in set(pipelines)}
        current = [templates[nodes] for nodes in pipelines]
        micro_batches = shape.micro_batches * self.groups
        if shape.split:
            return iteration_time(current, micro_batches, self._split_iteration)
        time = iteration_time(current, micro_batches)
        if any(nodes != shape.stages for nodes in pipelines):
            # Re-formed pipelines are not interleaved, and their stages are uneven.
            return time
        return time * shape.slots / (shape.micro_batches + shape.stages - 1)

    def _split_iteration(self, template: Template, micro_batches: int) -> float:
        return self.shape.iteration([stage.time for stage in template.stages], micro_batches)
