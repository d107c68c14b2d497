"""MeCeFO: a neighbour in the pipeline takes over the stage of a failed node (NeurIPS 2025).

The groups of the job are its data-parallel pipelines. When a node fails, a neighbour also computes
its stage, with the techniques of `stage_work`. It copies weights and optimizer state of the stage
from another pipeline. When the node returns, it fetches them back. No work is rolled back; all
pipelines wait for the slowest.

The paper leaves some points open. Here, a node may compute three or more stages
(`carriers.Carriers`); each costs the same as each of two. A pipeline idles if it has no
live node, or if a node would need more memory than it has. The others continue with a smaller
batch, and the pipeline takes part again as soon as nodes of it return. If all pipelines idle, the
job restarts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.plan import NOTHING_LEFT
from faultline.strategies.interface.recovery import Communicators, Move, Recovery, RecoveryKind
from faultline.strategies.interface.scheme import (
    Continue,
    Hit,
    StepPlan,
    StrategyOptions,
    Task,
    Verdict,
    WipeOut,
)
from faultline.strategies.interface.stage_work import LayerShape, LowRank, Techniques
from faultline.strategies.interface.step_shares import Pipeline, StageShare, idle
from faultline.strategies.schemes.mecefo.carriers import Carriers, tasks_by_node
from faultline.strategies.schemes.mecefo.node_costs import (
    FULL,
    NO_TECHNIQUE,
    SKIP,
    SKIP_RECOMPUTE,
    CostModel,
    calibrated_costs,
    flop_costs,
    measured_cost,
    passes_of_task,
)
from faultline.strategies.schemes.takeover.pipeline_scheme import PipelineScheme
from pydantic import Field

_PAPER = "MeCeFO (NeurIPS 2025)"
_WIDTHS_PER_RANK = 4
"""Width over the rank of low-rank gradients, as in GaLore for 7B (Zhao et al. 2024, arXiv
2403.03507): an assumption, since the paper states no rank."""
_MEASURED = {"none": NO_TECHNIQUE, "skip": SKIP, "skip-recompute": SKIP_RECOMPUTE, "all": FULL}


class MecefoOptions(StrategyOptions):
    """Named choices of MeCeFO."""

    cost_model: Literal["calibrated", "flop"] = Field(
        "calibrated",
        description="Model of the time of a node with several stages.",
        json_schema_extra={
            "source": "choice: counting FLOP alone predicts drops that are far too large",
            "choices": {
                "calibrated": "derived from the published throughput of one pipeline, or "
                "doubled_cost",
                "flop": "its FLOP over those of a node with one stage",
            },
        },
    )
    doubled_cost: float | None = Field(
        None,
        gt=0,
        le=100,
        description="Cost of a node with two stages over that of one, in the calibrated model; "
        "unset: as measured for a 7B model.",
        json_schema_extra={
            "source": f"derived: 1.129 with all techniques ({_PAPER}, ablation)",
            "unit": "1",
            "only_with": {"strategy.mecefo.cost_model": "calibrated"},
        },
    )
    techniques: Literal["none", "skip", "skip-recompute", "all"] = Field(
        "all",
        description="Techniques that make the backward pass of a node with several stages cheaper.",
        json_schema_extra={
            "source": _PAPER,
            "choices": {
                "none": "none: the node computes each stage like its own",
                "skip": "it skips attention",
                "skip-recompute": "also, activations of the feed-forward network are recomputed",
                "all": "also, gradients of feed-forward weights have a low rank",
            },
        },
    )
    takes_over: Literal["lighter", "before", "split", "rebalanced"] = Field(
        "lighter",
        description="Which nodes compute the stages of a failed node.",
        json_schema_extra={
            "source": "choice: the paper states that a neighbour does",
            "choices": {
                "lighter": "of the nearest live nodes on both sides, the one with fewer stages",
                "split": "both of these; each stage goes to the one with fewer",
                "before": "the nearest live node before it, or behind it if there is none",
                "rebalanced": "all failed stages are redistributed to nodes next to them, with the "
                "fewest stages on the busiest node: a bound, since moves cost nothing",
            },
        },
    )

    @property
    def skips_attention(self) -> bool:
        """Whether the backward pass of a node with several stages skips attention."""
        return self.techniques != "none"

    def costs(self, job: JobShape) -> CostModel:
        """Return the cost model of a job's nodes."""
        if self.cost_model == "flop":
            rank = max(1, job.hidden // _WIDTHS_PER_RANK)
            techniques = Techniques(
                self.skips_attention,
                self.techniques in ("skip-recompute", "all"),
                LowRank(rank) if self.techniques == "all" else None,
            )
            shape = LayerShape(job.hidden, job.ffn_hidden, job.sequence_tokens)
            return flop_costs(shape, techniques, job.micro_batch_tokens)
        if self.doubled_cost is not None:
            return calibrated_costs(self.doubled_cost)
        return calibrated_costs(measured_cost(256, _MEASURED[self.techniques]))


class Mecefo(PipelineScheme):
    """Pipelines whose nodes stand in for each other."""

    name: ClassVar[str] = "mecefo"
    summary: ClassVar[str] = "MeCeFO: a neighbour in the pipeline takes over a failed node's stage"
    approximate: ClassVar[bool] = True
    Options: ClassVar[type[StrategyOptions]] = MecefoOptions
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("take-over", "hand-back")

    def __init__(
        self, groups: int, redundancy: int, options: MecefoOptions, shape: JobShape
    ) -> None:
        super().__init__(groups, redundancy, options, shape)
        self._options = options
        self._costs = options.costs(shape)
        self._tasks: dict[int, tuple[int, ...]] = {}
        self._slowdowns: dict[tuple[int, ...], float] = {}
        self.restart()

    def restart(self) -> None:
        super().restart()
        self._tasks.clear()
        side = self._options.takes_over
        self._carriers = [
            Carriers(self.shape.stages, "lighter" if side == "rebalanced" else side)
            for _ in range(self.groups)
        ]

    def on_hit(self, hit: Hit) -> None:
        newly = self._lost.add(hit)
        self._tasks.pop(hit.group, None)
        orphans = [task for stage in newly for task in self._carriers[hit.group].fail(stage)]
        self._note(hit, orphans)

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Let neighbours take over; interrupted pipelines repeat their part of the step.

        Groups that failed without broken hardware are interrupted as well.
        """
        interrupted = self._interrupted(missing)
        idle = (group for group in interrupted if not self._works(group))
        self.states_refused += sum(bool(self.tasks(group)) for group in idle)
        if not any(map(self._works, range(self.groups))):
            return WipeOut(tuple(missing))
        patch = {group: 1 for group in interrupted if self._works(group)}
        moves = [
            Move(group, self._carriers[group].node_of(stage), stage, self.shape.stages)
            for group in patch
            for stage in sorted(set(self._newly.get(group, ())))
        ]
        self._newly.clear()
        self._plan = None
        recovery = self._recovery("take-over", moves) if interrupted else None
        return Continue((), patch, carried_on=tuple(missing), recovery=recovery)

    def on_repair(self, hit: Hit) -> Recovery | None:
        """Give nodes their stages back; they fetch the state while all wait."""
        back = self._lost.repair(hit)
        self._tasks.pop(hit.group, None)
        if not back:
            return None
        for stage in back:
            self._carriers[hit.group].come_back(stage)
        self._plan = None
        stages = self.shape.stages
        moves = [Move(hit.group, stage, stage, stages) for stage in back]
        return replace(self._recovery("hand-back", moves), is_expected=True)

    def _recovery(self, kind: RecoveryKind, moves: Sequence[Move]) -> Recovery:
        """Return the recovery of a stage that changes its node.

        The new node joins the stage's data-parallel communicator, and the pipeline is reconnected.
        """
        joined = (Communicators(1, 1 / self.shape.stages), Communicators(1, 1 / self.groups))
        return Recovery(kind, joined, moves=tuple(moves))

    def tasks(self, group: int) -> tuple[int, ...]:
        """Return how many stages each live node of a pipeline computes."""
        if group not in self._tasks:
            if self._options.takes_over != "rebalanced":
                self._tasks[group] = self._carriers[group].tasks()
            elif self._lost.nodes_left(group):
                self._tasks[group] = tasks_by_node(self.shape.stages, self._lost.of(group))
            else:
                self._tasks[group] = ()
        return self._tasks[group]

    def _step_plan(self) -> StepPlan:
        if not any(map(self._lost.of, range(self.groups))):
            return self._whole
        working = [group for group in range(self.groups) if self._works(group)]
        if not working:
            return NOTHING_LEFT
        approximates = self._options.skips_attention
        damaged = [group for group in working if approximates and self._lost.of(group)]
        return StepPlan(
            self._whole.members,
            1,
            pace=max(map(self._slowdown, working)),
            batch_share=len(working) / self.groups,
            approximate=tuple(task for group in damaged for task in self._shared_nodes(group)),
            stages=self.shape.stages,
            idle=tuple(group for group in range(self.groups) if group not in working),
            pipelines=tuple(
                self._pipeline(group) for group in range(self.groups) if self._lost.of(group)
            ),
        )

    def _shared_nodes(self, group: int) -> Iterator[Task]:
        """Yield the stages whose nodes also compute other stages."""
        nodes = self._nodes_by_stage(group)
        tasks_of = Counter(nodes)
        for stage, node in enumerate(nodes):
            if tasks_of[node] > 1:
                yield Task(group, stage, node)

    def _pipeline(self, group: int) -> Pipeline:
        """Return the work of a pipeline's live nodes; with several stages they do less of each."""
        if not self._works(group):
            return idle(group)
        nodes, skips = self._nodes_by_stage(group), self._options.skips_attention
        shares = (
            StageShare(
                group,
                node,
                None,
                *passes_of_task(self._costs, nodes.count(node)),
                skips_attention=skips and nodes.count(node) > 1,
            )
            for node in nodes
        )
        return Pipeline(group, tuple(shares), self.shape.micro_batches, self.shape.tensor)

    def _nodes_by_stage(self, group: int) -> list[int]:
        """Return the node of each stage of a pipeline."""
        stages = range(self.shape.stages)
        if self._options.takes_over != "rebalanced":
            return list(map(self._carriers[group].node_of, stages))
        live = [node for node in stages if node not in self._lost.of(group)]
        return [
            node for node, tasks in zip(live, self.tasks(group), strict=True) for _ in range(tasks)
        ]

    def _slowdown(self, group: int) -> float:
        """Return the time of a pipeline over that of a healthy one, at least 1.

        The gain of a shorter pipeline, if two stages on one node cost less than two nodes, is not
        counted.
        """
        tasks, shape = self.tasks(group), self.shape
        if tasks not in self._slowdowns:
            costs = [self._costs(number) for number in tasks]
            self._slowdowns[tasks] = max(1.0, shape.iteration(costs) / shape.slots)
        return self._slowdowns[tasks]

    def _works(self, group: int) -> bool:
        tasks = self.tasks(group)
        fits = self.shape.stages_that_fit
        return bool(tasks) and (fits is None or max(tasks) <= fits)
