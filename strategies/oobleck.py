"""Oobleck: pipelines of unequal length from templates that were planned in advance.

Jang et al. 2023 (Oobleck, SOSP 2023). The groups of the job are its data-parallel pipelines at the
start. When nodes are lost, pipelines are re-formed by `takeover.pipelines`, missing layers are
copied from pipelines that have them, and the interrupted step is done again: no checkpoint is
loaded. When nodes come back, pipelines are re-formed once more. Below the least number of nodes
nothing can be trained: the job restarts, and has to wait for hardware.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from faultline.strategies.base import (
    Continue,
    Hit,
    StepPlan,
    Strategy,
    StrategyOptions,
    Verdict,
    WipeOut,
)
from faultline.strategies.takeover.lost_stages import LostStages
from faultline.strategies.takeover.pipelines import iteration_time, regrouped
from faultline.strategies.takeover.published_oobleck import relative_throughput
from faultline.strategies.takeover.restarts import (
    NOTHING_LEFT,
    STAGES,
    failures_until_nobody_is_left,
)
from faultline.strategies.takeover.templates import even_template
from pydantic import Field

_PAPER = "Oobleck (SOSP 2023)"


class OobleckOptions(StrategyOptions):
    """Named choices of Oobleck."""

    stages: int = Field(
        STAGES,
        ge=1,
        le=1000,
        description="Nodes of a pipeline at the start; a group's GPUs are dealt out to them.",
        json_schema_extra={"source": "MeCeFO (NeurIPS 2025): 8", "unit": "1"},
    )
    reconfiguration_s: float = Field(
        10.0,
        ge=0,
        le=1e9,
        description="Time in which pipelines are re-formed, copies of layers included.",
        json_schema_extra={
            "source": f"{_PAPER}: 2 s for BERT-large and GPT-2, 3 s for GPT-3 medium, 6 s for "
            "2.7B, 10 s for 6.7B",
            "unit": "s",
        },
    )
    throughput: Literal["templates", "table"] = Field(
        "templates",
        description="How fast the job is with the nodes that are left.",
        json_schema_extra={
            "source": "choice: the table is of one model and of 30 nodes",
            "choices": {
                "templates": "the closed form of pipelines that are re-formed, with whole layers "
                "and whole micro-batches",
                "table": "what was measured for 6.7B with as many of 30 nodes",
            },
        },
    )
    layers: int = Field(
        32,
        ge=1,
        le=100_000,
        description="Layers of the model.",
        json_schema_extra={
            "source": "MeCeFO (NeurIPS 2025): 32 of the 7B model, 24 of smaller ones",
            "unit": "1",
            "only_with": {"strategy.oobleck.throughput": "templates"},
        },
    )
    micro_batches: int = Field(
        8,
        ge=1,
        le=100_000,
        description="Micro-batches of a pipeline in a step at the start.",
        json_schema_extra={
            "source": "derived: as in MeCeFO's ablation (NeurIPS 2025)",
            "unit": "1",
            "only_with": {"strategy.oobleck.throughput": "templates"},
        },
    )
    least_nodes: int = Field(
        8,
        ge=1,
        le=1000,
        description="Nodes of the shortest pipeline that there is a template for; no more than "
        "`stages` are needed.",
        json_schema_extra={
            "source": f"{_PAPER}: 6.7B needs 16 nodes, which are two pipelines",
            "unit": "1",
            "only_with": {"strategy.oobleck.throughput": "templates"},
        },
    )


class Oobleck(Strategy):
    """Pipelines that are re-formed with the nodes that are left."""

    name: ClassVar[str] = "oobleck"
    summary: ClassVar[str] = "Oobleck: pipelines re-formed from templates, no checkpoint loaded"
    title: ClassVar[str] = "Oobleck"
    colour: ClassVar[str | None] = "#CC88FF"
    marker: ClassVar[str | None] = "<"
    Options: ClassVar[type[StrategyOptions]] = OobleckOptions
    tracks_components: ClassVar[bool] = True
    needs_layout: ClassVar[bool] = True
    restart_replaces: ClassVar[bool] = False

    def __init__(self, groups: int, redundancy: int, options: OobleckOptions) -> None:
        super().__init__(groups, redundancy, options)
        self._options = options
        self._lost = LostStages(groups, options.stages)
        self._whole = StepPlan(tuple(range(groups)), 1)
        self._paces: dict[tuple[int, ...], float] = {}
        self._shortest = options.stages
        self.restart()

    def restart(self) -> None:
        self._lost.clear()
        self._newly: dict[int, bool] = {}
        self._plan: StepPlan | None = self._whole

    def plan(self) -> StepPlan:
        if self._plan is None:
            self._plan = self._step_plan()
            self._newly.clear()
        return self._plan

    @property
    def stages_held(self) -> float:
        """Layers of a node of the shortest pipeline there was, over an even stage's."""
        layers, stages = self._options.layers, self._options.stages
        return -(-layers // self._shortest) * stages / layers

    def on_hit(self, hit: Hit) -> None:
        newly = bool(self._lost.add(hit))
        self._newly[hit.group] = newly or self._newly.get(hit.group, False)
        self._plan = None

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Re-form pipelines with the nodes that are left, and do the step again.

        A failure of what was down already interrupts nothing.
        """
        if self._pace() is None:
            return WipeOut(tuple(missing))
        interrupted = any(self._newly.get(group, True) for group in missing)
        self._newly.clear()
        self._plan = None
        if not interrupted:
            return Continue((), carried_on=tuple(missing))
        patch = dict.fromkeys(self._whole.members, 1)
        stall_s = self._options.reconfiguration_s
        return Continue((), patch, carried_on=tuple(missing), stall_s=stall_s)

    def on_repair(self, hit: Hit) -> float:
        """Re-form pipelines with the nodes that are back."""
        if not self._lost.repair(hit):
            return 0.0
        self._plan = None
        return self._options.reconfiguration_s

    def _step_plan(self) -> StepPlan:
        pace = self._pace()
        if pace is None:
            return NOTHING_LEFT
        return self._whole if pace == 1.0 else StepPlan(self._whole.members, 1, pace=pace)

    def _pace(self) -> float | None:
        """Return the time of a step over that with all nodes; None where nothing works."""
        nodes = tuple(map(self._lost.nodes_left, range(self.groups)))
        if self._options.throughput == "table":
            speed = relative_throughput(sum(nodes) / (self.groups * self._options.stages))
            return 1.0 / speed if speed > 0.0 else None
        pipelines = regrouped(nodes, min(self._options.least_nodes, self._options.stages))
        if not pipelines:
            return None
        self._shortest = min(self._shortest, pipelines[-1])
        if pipelines not in self._paces:
            now, sound = self._time(pipelines), self._time((self._options.stages,) * self.groups)
            self._paces[pipelines] = max(1.0, now / sound)
        return self._paces[pipelines]

    def _time(self, pipelines: Sequence[int]) -> float:
        options = self._options
        templates = {nodes: even_template(options.layers, nodes) for nodes in set(pipelines)}
        return iteration_time(
            [templates[nodes] for nodes in pipelines], options.micro_batches * self.groups
        )

    def masked_failures(self) -> float:
        """Return the failures until no node of any pipeline is left, without repairs."""
        return failures_until_nobody_is_left(self.groups * self._options.stages)

    def work_per_step(self) -> float:
        """Each group computes its one shard type."""
        return 1.0
