"""ReCycle: peers in other pipelines compute a lost stage's micro-batches.

Gandhi et al. 2024 (SOSP), arXiv 2405.14009. The groups of the job are its data-parallel pipelines;
all nodes of a stage have the same weights. When a node is lost, its micro-batches go round robin to
its peers. Only activations move, and additional passes are fitted into bubbles
(`rerouted_schedule`). Losses are balanced over stages: if a stage has lost two more nodes than
another, a node of the other stage takes the role of a lost one and copies the parameters from a
peer. A returning node takes the role with the fewest nodes. A stage can lose all nodes but one.

The paper's schedule is for plain pipelines. Pipelines of virtual stages remain interleaved here,
with the micro-batches of the busiest node, ``M + (p - 1) / v``; their bubbles are not filled.

The paper leaves two points open. Here, all groups repeat the interrupted step. The job restarts if
all nodes with a stage's state fail at once, or if fewer nodes than stages are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import ClassVar, Literal

from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.plan import NOTHING_LEFT
from faultline.strategies.interface.recovery import Communicators, Move, Recovery, RecoveryKind
from faultline.strategies.interface.rerouted_schedule import Rerouted, ScheduleTechniques, rerouted
from faultline.strategies.interface.scheme import (
    Continue,
    Hit,
    StepPlan,
    StrategyOptions,
    Verdict,
    WipeOut,
)
from faultline.strategies.interface.step_shares import Pipeline, StageShare, idle
from faultline.strategies.schemes.recycle.roles import Roles
from faultline.strategies.schemes.takeover.pipeline_scheme import PipelineScheme
from faultline.strategies.schemes.takeover.pipelines import stages_on
from faultline.strategies.theory.wipe_out import failures_until_too_few
from pydantic import Field

_PAPER = "ReCycle (Gandhi et al. 2024, arXiv 2405.14009)"


class RecycleOptions(StrategyOptions):
    """Named choices of ReCycle."""

    schedule: Literal["job", "split", "split-and-staggered"] = Field(
        "job",
        description="Order in which stages compute re-routed micro-batches.",
        json_schema_extra={
            "source": "choice: a technique that healthy steps could use as well is no gain of a "
            "scheme",
            "choices": {
                "job": "that of the healthy step, model.schedule",
                "split": f"weight gradients in bubbles, apart from input gradients, also if the "
                f"healthy step does not split them: {_PAPER}, decoupled backward pass",
                "split-and-staggered": "split, and each stage steps its optimizer independently, "
                f"which fills the bubbles at both ends of a step: {_PAPER}, staggered optimizer",
            },
        },
    )
    role_swaps: bool = Field(
        True,
        description="Whether nodes swap roles until all stages have lost equally many nodes.",
        json_schema_extra={"source": f"{_PAPER}: failures are normalised"},
    )


class Recycle(PipelineScheme):
    """Pipelines whose nodes stand in for lost peers of the same stage."""

    name: ClassVar[str] = "recycle"
    summary: ClassVar[str] = "ReCycle: a lost stage's micro-batches go to its peers, into bubbles"
    Options: ClassVar[type[StrategyOptions]] = RecycleOptions
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("take-over", "hand-back")

    def __init__(
        self, groups: int, redundancy: int, options: RecycleOptions, shape: JobShape
    ) -> None:
        super().__init__(groups, redundancy, options, shape)
        self._options = options
        shape, splits = self.shape, options.schedule != "job"
        allowed = ScheduleTechniques(splits, options.schedule == "split-and-staggered")
        loads, plain = (shape.micro_batches,) * shape.stages, ScheduleTechniques(False, False)
        healthy = rerouted(loads, shape.micro_batches, shape.backward_share, plain)
        if shape.split:
            healthy = shape.split.healthy(shape.stages, shape.micro_batches)
            allowed = allowed if splits else shape.split.techniques
        self._allowed = replace(allowed, most_held=shape.micro_batches_that_fit)
        self._healthy_time = healthy.time
        if shape.virtual_stages > 1:
            self._healthy_time = shape.slots
        self._interleaves = shape.virtual_stages > 1 and not splits
        self.restart()

    def restart(self) -> None:
        super().restart()
        self._roles = Roles(self.groups, self.shape.stages)

    def on_hit(self, hit: Hit) -> None:
        newly = self._lost.add(hit)
        for node in newly:
            self._roles.lose(hit.group, node)
        self._note(hit, newly)

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Re-route, balance losses by swaps, and repeat the step."""
        if min(self._roles.nodes_left) == 0:
            # No copy of that stage's state is left.
            return WipeOut(tuple(missing))
        interrupted = self._interrupted(missing)
        self._newly.clear()
        if not interrupted:
            return Continue((), carried_on=tuple(missing), recovery=None)
        recovery, self._plan = self._recovery("take-over", self._swaps()), None
        if not self._interleaves:
            unlimited = self._rerouted(replace(self._allowed, most_held=inf))
            self.states_refused += unlimited.most_held > self._allowed.most_held
        patch = dict.fromkeys(self._whole.members, 1)
        return Continue((), patch, carried_on=tuple(missing), recovery=recovery)

    def on_repair(self, hit: Hit) -> Recovery | None:
        """Give nodes the roles with the fewest nodes; they copy the state from a peer."""
        swaps, roles = self._options.role_swaps, self._roles
        moves = [
            roles.take(hit.group, node, roles.fewest(node) if swaps else node)
            for node in self._lost.repair(hit)
        ]
        if not moves:
            return None
        self._plan = None
        return self._recovery("hand-back", moves)

    def _swaps(self) -> list[Move]:
        return list(self._roles.balance(self._lost)) if self._options.role_swaps else []

    def _recovery(self, kind: RecoveryKind, moves: Sequence[Move]) -> Recovery:
        """Return the recovery of role changes: rings of the affected stages and a chain rebuilt."""
        rings = Communicators(max(1, len({move.of for move in moves})), 1 / self.shape.stages)
        chain = Communicators(1, 1 / self.groups)
        return Recovery(kind, (rings, chain), moves=tuple(moves), is_expected=kind == "hand-back")

    def _step_plan(self) -> StepPlan:
        # After a restart roles are reassigned here; after a failure `on_failures` has done it.
        self._swaps()
        if min(self._roles.nodes_left) == 0:
            return NOTHING_LEFT
        if max(self._loads()) == self.shape.micro_batches:
            return self._whole
        if self._interleaves:
            schedule = Rerouted(max(self._loads()) + self.shape.idle_slots, ())
        else:
            schedule = self._rerouted(self._allowed)
        pace = max(1.0, schedule.time / self._healthy_time)
        return StepPlan(self._whole.members, 1, pace=pace, pipelines=self._pipelines(schedule))

    def _rerouted(self, allowed: ScheduleTechniques) -> Rerouted:
        """Return the schedule of the remaining nodes.

        All stages use the schedule of the stage with the fewest nodes. With unequal loads a step
        would take one micro-batch less, or up to two more, and some further losses would make it
        faster.
        """
        shape = self.shape
        loads = (max(self._loads()),) * shape.stages
        return rerouted(loads, shape.micro_batches, shape.backward_share, allowed)

    def _loads(self) -> tuple[int, ...]:
        """Return the micro-batches of each stage's busiest node."""
        micro_batches = self.shape.micro_batches * self.groups
        return tuple(-(-micro_batches // nodes) for nodes in self._roles.nodes_left)

    def _pipelines(self, schedule: Rerouted) -> tuple[Pipeline, ...]:
        """Return pipelines of all remaining nodes, one per node of the stage with most nodes.

        Complete pipelines have one node of each stage, preferably all from one group. The others
        lack stages; complete pipelines do their work, in the orders of their busiest nodes. A
        missing stage only sends and receives.
        """
        stages, nodes = range(self.shape.stages), self._roles.by_stage(self._lost)
        staffed = {group: sum(group in at for at in nodes) for group in range(self.groups)}
        complete = min(self._roles.nodes_left)
        homes = sorted(sorted(staffed, key=lambda group: -staffed[group])[:complete])
        kept = [{group: at[group].pop() for group in homes if group in at} for at in nodes]
        spare = [[(group, node) for group in at for node in at[group]] for at in nodes]
        formed = {
            home: stages_on(
                tuple(
                    (home, kept[stage][home]) if home in kept[stage] else spare[stage].pop(0)
                    for stage in stages
                ),
                self.shape.layers,
                self.shape.stages,
            )
            for home in homes
        }
        others = (group for group in range(self.groups) if group not in formed)
        for place in range(max(map(len, spare))):
            complete_stages = formed[homes[place % len(homes)]]
            formed[next(others)] = tuple(
                StageShare(*spare[stage][place])
                if place < len(spare[stage])
                else complete_stages[stage]._replace(forward=0.0, backward=0.0)
                for stage in stages
            )
        shape, orders = self.shape, schedule.orders
        staggered = self._allowed.staggered_optimizer and bool(orders)
        micro_batches = shape.micro_batches
        if not orders:
            loads = self._loads()
            micro_batches = max(loads)
            formed = {
                group: tuple(
                    _scaled(share, load / micro_batches)
                    for share, load in zip(shares, loads, strict=True)
                )
                for group, shares in formed.items()
            }
        return tuple(
            Pipeline(group, formed[group], micro_batches, shape.tensor, orders, staggered)
            if group in formed
            else idle(group)
            for group in range(self.groups)
        )

    def masked_failures(self) -> float:
        """Return the failures until some stage has no node left, without repairs."""
        return failures_until_too_few(self._nodes, self.shape.stages)


def _scaled(share: StageShare, work: float) -> StageShare:
    return share._replace(forward=work * share.forward, backward=work * share.backward)
