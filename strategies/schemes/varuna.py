"""Varuna: checkpoints on storage, and restarts with the remaining nodes.

Athlur et al. 2022 (Varuna, EuroSys 2022). When a node is lost, the job restarts from the last
checkpoint and is divided anew ("job morphing") into D pipelines of P nodes: the fastest that the
nodes left can form. All pipelines have equally many nodes, stages have whole layers, and a batch
keeps its micro-batches. A healthy job could have more and shorter pipelines than it has, too, so D
is at most the number of groups that have a node left. Other nodes idle, and their failures stop
nothing. Nodes that return take part again from the next restart on. The published comparisons write
a checkpoint every 10 steps (``checkpoint.interval_steps``). A 6.7B model took 120 s to save and
about 580 s to restart (Jang et al. 2023 (Oobleck, SOSP 2023)); the scenario states these times as
``times.checkpoint_write_s`` and ``times.restart_s``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import ClassVar, NamedTuple

from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.pipeline_schedule import approximate_iteration
from faultline.strategies.interface.plan import NOTHING_LEFT
from faultline.strategies.interface.recovery import RecoveryKind
from faultline.strategies.interface.scheme import (
    Continue,
    StepPlan,
    StrategyOptions,
    Verdict,
    WipeOut,
)
from faultline.strategies.interface.step_shares import Pipeline, StageShare, idle
from faultline.strategies.schemes.takeover.pipeline_scheme import PipelineScheme
from faultline.strategies.schemes.takeover.pipelines import micro_batch_shares, stages_on
from faultline.strategies.schemes.takeover.templates import even_template

Node = tuple[int, int]
"""A node, by group and stage of a healthy job."""


class Partition(NamedTuple):
    """Pipelines of equal length."""

    pipelines: int
    length: int  # Nodes of each.
    time: float  # Of a step, in layers of a micro-batch.


class Varuna(PipelineScheme):
    """A job that restarts with the remaining nodes."""

    name: ClassVar[str] = "varuna"
    summary: ClassVar[str] = "Varuna: restart from a checkpoint with the nodes that are left"
    protections: ClassVar[tuple[str, ...]] = ("storage",)
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ()

    def __init__(
        self, groups: int, redundancy: int, options: StrategyOptions, shape: JobShape
    ) -> None:
        super().__init__(groups, redundancy, options, shape)
        self._healthy_time = self._time(self.shape.stages, self.shape.micro_batches)
        self._partitions: dict[tuple[int, int], Partition] = {}
        self._begun = self._whole
        self._idle_nodes: frozenset[Node] = frozenset()

    def restart(self) -> None:
        super().restart()
        self._begun, self._idle_nodes = self._whole, frozenset()

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Restart if a node at work is lost."""
        at_work = any(
            (group, stage) not in self._idle_nodes
            for group in self._interrupted(missing)
            for stage in self._newly.get(group, (None,))
        )
        if at_work:
            return WipeOut(tuple(missing))
        # The pipelines stay as they are until a restart.
        self._newly.clear()
        self._plan = self._begun
        return Continue((), carried_on=tuple(missing), recovery=None)

    def _step_plan(self) -> StepPlan:
        nodes_left = self._lost.all_nodes_left()
        self._idle_nodes = frozenset()
        if nodes_left < self._least_nodes:
            self.states_refused += nodes_left > 0
            self._begun = NOTHING_LEFT
        elif nodes_left < self._nodes:
            groups_left = sum(self._lost.nodes_left(group) > 0 for group in range(self.groups))
            partition = self.partition(nodes_left, groups_left)
            pace = max(1.0, partition.time / self._healthy_time)
            pipelines = self._pipelines(self._assembled(partition))
            self._begun = StepPlan(self._whole.members, 1, pace=pace, pipelines=pipelines)
        else:
            self._begun = self._whole
        return self._begun

    def partition(self, nodes: int, most: int) -> Partition:
        """Return the fastest pipelines of equal length, at `most` so many, that nodes can form.

        Among equals those of the healthy length win, then the shortest: they need the fewest nodes.
        """
        if (nodes, most) not in self._partitions:
            shape = self.shape
            all_micro_batches = shape.micro_batches * self.groups
            longest = max(shape.layers, self._least_nodes)
            found = []
            for length in range(self._least_nodes, min(nodes, longest) + 1):
                # More pipelines of a length are never slower.
                pipelines = min(most, nodes // length)
                micro_batches = -(-all_micro_batches // pipelines)
                bound = micro_batches * -(-shape.layers // length)
                found.append((bound, length != shape.stages, length, pipelines, micro_batches))
            best, least = Partition(0, 0, inf), (inf, True, 0)
            for bound, differs, length, pipelines, micro_batches in sorted(found):
                # The slowest stage alone takes as long as the bound.
                if bound > best.time:
                    break
                time = self._time(length, micro_batches)
                if (time, differs, length) < least:
                    best, least = Partition(pipelines, length, time), (time, differs, length)
            self._partitions[nodes, most] = best
        return self._partitions[nodes, most]

    def _time(self, length: int, micro_batches: int) -> float:
        """Return the time of an iteration of a pipeline, in layers of a micro-batch."""
        shape = self.shape
        costs = [stage.time for stage in even_template(shape.layers, length).stages]
        if length != shape.stages and not shape.split:
            # Re-formed pipelines are not interleaved.
            return approximate_iteration(costs, micro_batches)
        if shape.virtual_stages > 1:
            # Interleaving needs a multiple of the stages.
            micro_batches = -(-micro_batches // length) * length
        return shape.iteration(costs, micro_batches)

    def _assembled(self, partition: Partition) -> dict[int, tuple[Node, ...]]:
        """Return the nodes of each pipeline, by its group; the others idle from now on.

        The groups with the most nodes keep theirs, and take what they lack from the rest. So each
        pipeline begins with a node of its own group, which is missed if that fails.
        """
        live = {group: self._lost.live(group) for group in range(self.groups)}
        groups = sorted(live, key=lambda group: -len(live[group]))[: partition.pipelines]
        own = {group: live[group][: partition.length] for group in groups}
        spare = [node for group, nodes in live.items() for node in nodes[len(own.get(group, ())) :]]
        pipelines = {}
        for group, nodes in own.items():
            lacking = partition.length - len(nodes)
            pipelines[group] = (*nodes, *spare[:lacking])
            del spare[:lacking]
        self._idle_nodes = frozenset(spare)
        return pipelines

    def _pipelines(self, nodes: Mapping[int, tuple[Node, ...]]) -> tuple[Pipeline, ...]:
        """Return the pipelines that differ from those of a healthy job, by their nodes."""
        shape = self.shape
        shares = micro_batch_shares([1.0] * len(nodes), shape.micro_batches * self.groups)
        at_work = {
            group: Pipeline(group, stages_on(each, shape.layers, shape.stages), share, shape.tensor)
            for (group, each), share in zip(nodes.items(), shares, strict=True)
        }
        pipelines = (at_work.get(group) or idle(group) for group in range(self.groups))
        return tuple(one for one in pipelines if one != self._healthy(one.group))

    def _healthy(self, group: int) -> Pipeline:
        own = tuple(StageShare(group, stage) for stage in range(self.shape.stages))
        return Pipeline(group, own, self.shape.micro_batches, self.shape.tensor)

    def masked_failures(self) -> float:
        """Return 1: the first failure forces a restart."""
        return 1.0
