"""Bamboo: every node also has the next stage of its pipeline, and does it when it is lost.

Thorpe et al. 2023 (Bamboo, NSDI 2023). The groups of the job are its data-parallel pipelines. When
a node is lost, the node before it (the last before the first) does its work beside its own, and the
pipeline meets in a local rendezvous. So overloaded, it makes the pipeline slower until the next
global rendezvous, which spreads the work over all nodes there are. A second loss that touches an
overloaded node is fatal to the pipeline: all meet in a global rendezvous at once.

The cost of computing everything twice is in the time of a step without failures.
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
from faultline.strategies.takeover.restarts import (
    NOTHING_LEFT,
    STAGES,
    failures_until_nobody_is_left,
)
from pydantic import Field

_SIMULATOR = "constants of the public simulator of Bamboo (NSDI 2023)"


class BambooOptions(StrategyOptions):
    """Named choices of Bamboo."""

    stages: int = Field(
        STAGES,
        ge=1,
        le=1000,
        description="Stages of a pipeline, a node each; a group's GPUs are dealt out to them.",
        json_schema_extra={"source": "MeCeFO (NeurIPS 2025): 8", "unit": "1"},
    )
    local_rendezvous_s: float = Field(
        12.5,
        ge=0,
        le=1e9,
        description="Time in which a pipeline that lost a node agrees who does its work.",
        json_schema_extra={"source": f"{_SIMULATOR}: 5 to 20 s; their middle", "unit": "s"},
    )
    global_rendezvous_s: float = Field(
        30.0,
        ge=0,
        le=1e9,
        description="Time in which all pipelines are formed anew.",
        json_schema_extra={"source": f"{_SIMULATOR}: 30 s", "unit": "s"},
    )
    creation_s: float = Field(
        45.0,
        ge=0,
        le=1e9,
        description="Time in which another machine would be created.",
        json_schema_extra={"source": f"{_SIMULATOR}: 45 s", "unit": "s"},
    )
    slowdown: float = Field(
        1.5,
        ge=1,
        le=100,
        description="Factor on the time of a step with an overloaded node.",
        json_schema_extra={"source": f"{_SIMULATOR}: 1.5", "unit": "1"},
    )
    overloaded_until: Literal["creation", "return"] = Field(
        "creation",
        description="When the rendezvous is that ends an overload.",
        json_schema_extra={
            "source": "choice: Bamboo does not wait hours for a machine",
            "choices": {
                "creation": "when another machine would have been created; what the overload "
                "costs until then is part of the stall, and nodes are overloaded no more",
                "return": "when a node comes back, or a loss is fatal",
            },
        },
    )
    spread_share: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of a step that takes longer as fewer nodes do the work: by all nodes "
        "over those left.",
        json_schema_extra={"source": "assumption: all of it", "unit": "1"},
    )


class Bamboo(Strategy):
    """Pipelines whose nodes each have a shadow."""

    name: ClassVar[str] = "bamboo"
    summary: ClassVar[str] = "Bamboo: the node before a lost one does its work as well"
    title: ClassVar[str] = "Bamboo"
    colour: ClassVar[str | None] = "#DDBB11"
    marker: ClassVar[str | None] = "X"
    Options: ClassVar[type[StrategyOptions]] = BambooOptions
    tracks_components: ClassVar[bool] = True
    needs_layout: ClassVar[bool] = True
    restart_replaces: ClassVar[bool] = False

    def __init__(self, groups: int, redundancy: int, options: BambooOptions) -> None:
        super().__init__(groups, redundancy, options)
        self._options = options
        self._lost = LostStages(groups, options.stages)
        self._whole = StepPlan(tuple(range(groups)), 1)
        self.restart()

    def restart(self) -> None:
        self._lost.clear()
        self._shadowed: dict[int, set[int]] = {}
        self._newly: dict[int, set[int]] = {}
        self._plan: StepPlan | None = self._whole

    def plan(self) -> StepPlan:
        if self._plan is None:
            self._plan = self._step_plan()
            self._newly.clear()
        return self._plan

    @property
    def stages_held(self) -> float:
        """A node's own stage and the next one's, from the beginning."""
        return 2.0

    def on_hit(self, hit: Hit) -> None:
        self._newly.setdefault(hit.group, set()).update(self._lost.add(hit))
        self._plan = None

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Let shadows work, or form all pipelines anew where a shadow is lost as well.

        A failure of what was down already interrupts nothing.
        """
        if not self._enough():
            return WipeOut(tuple(missing))
        patch, stall_s = {}, 0.0
        for group in missing:
            newly = self._newly.get(group)
            if newly is None or newly:
                stall_s = max(stall_s, self._stall_s(group, newly or set()))
                patch[group] = 1
        self._newly.clear()
        self._plan = None
        return Continue((), patch, carried_on=tuple(missing), stall_s=stall_s)

    def on_repair(self, hit: Hit) -> float:
        """Form pipelines with the nodes that are back, in a global rendezvous."""
        if not self._lost.repair(hit):
            return 0.0
        self._plan = None
        self._shadowed.clear()
        return self._options.global_rendezvous_s

    def _stall_s(self, group: int, newly: set[int]) -> float:
        """Return what a loss costs at once, and note who is overloaded from now on."""
        options = self._options
        if self._is_fatal(group, newly):
            self._shadowed.clear()
            return options.global_rendezvous_s
        if options.overloaded_until == "return":
            self._shadowed.setdefault(group, set()).update(newly)
            return options.local_rendezvous_s
        return options.local_rendezvous_s + options.creation_s * (1.0 - 1.0 / options.slowdown)

    def _is_fatal(self, group: int, newly: set[int]) -> bool:
        """Return whether somebody is lost who would have to do another's work, or does it.

        Stages that were lost before the last global rendezvous have been dealt out anew.
        """
        waiting = newly | self._shadowed.get(group, set())
        hosts = [(stage - 1) % self._options.stages for stage in waiting]
        return any(host in waiting for host in hosts) or len(waiting) == self._options.stages

    def _step_plan(self) -> StepPlan:
        if not self._enough():
            return NOTHING_LEFT
        shadowed = sum(map(len, self._shadowed.values()))
        spread = self._nodes / (self._nodes_left() + shadowed)
        pace = 1.0 + self._options.spread_share * (spread - 1.0)
        if shadowed:
            pace *= self._options.slowdown
        return self._whole if pace == 1.0 else StepPlan(self._whole.members, 1, pace=pace)

    @property
    def _nodes(self) -> int:
        return self.groups * self._options.stages

    def _nodes_left(self) -> int:
        return sum(map(self._lost.nodes_left, range(self.groups)))

    def _enough(self) -> bool:
        """Return whether the nodes that are left make up a pipeline."""
        return self._nodes_left() >= self._options.stages

    def masked_failures(self) -> float:
        """Return the failures until no node of any pipeline is left, without repairs."""
        return failures_until_nobody_is_left(self.groups * self._options.stages)

    def work_per_step(self) -> float:
        """Each group computes its one shard type; doing it twice is in the time of a step."""
        return 1.0
