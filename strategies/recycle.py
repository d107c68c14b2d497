"""ReCycle: peers of other pipelines do a lost stage's micro-batches (Gandhi et al. 2024, SOSP).

arXiv 2405.14009. The groups of the job are its data-parallel pipelines; the nodes of a stage all
have the same weights. When one is lost, its micro-batches go round robin to the others, so that
nothing moves but activations, and each pass that is late is fitted into bubbles
(`takeover.rerouted_schedule`). Stages share losses evenly: where one has lost two more than
another, a node of that other one swaps roles with a lost one, and copies the parameters from a
peer. Who returns takes the role that has the fewest nodes. A stage can lose all nodes but one.

What the paper leaves open is decided here: the broken step is done again by all; the job restarts
if all nodes that have a stage's state fail at once, or if fewer are left than there are stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from faultline.strategies.base import (
    Continue,
    Hit,
    StepPlan,
    StrategyOptions,
    Verdict,
    WipeOut,
)
from faultline.strategies.recovery import Communicators, Move, Recovery, RecoveryKind
from faultline.strategies.step_shares import Pipeline, StageShare, idle
from faultline.strategies.takeover.neighbours import Roles
from faultline.strategies.takeover.pipeline_scheme import (
    NOTHING_LEFT,
    PipelineScheme,
    failures_until_nobody_is_left,
)
from faultline.strategies.takeover.rerouted_schedule import Rerouted, Techniques, rerouted
from pydantic import Field

_PAPER = "ReCycle (Gandhi et al. 2024, arXiv 2405.14009)"


class RecycleOptions(StrategyOptions):
    """Named choices of ReCycle."""

    split_backward: bool = Field(
        True,
        description="Whether weight gradients may be computed later than input gradients, in "
        "bubbles.",
        json_schema_extra={"source": f"{_PAPER}: decoupled backward pass"},
    )
    staggered_optimizer: bool = Field(
        True,
        description="Whether each stage steps its optimizer by itself, so that the bubbles at both "
        "ends of a step are filled too.",
        json_schema_extra={"source": f"{_PAPER}: staggered optimizer"},
    )
    role_swaps: bool = Field(
        True,
        description="Whether nodes swap roles so that all stages lose as many.",
        json_schema_extra={"source": f"{_PAPER}: failures are normalised"},
    )
    activations_held: float = Field(
        1.5,
        ge=1,
        le=1000,
        description="Micro-batches for which a node may owe the weight gradient, over those that "
        "the first stage of a sound pipeline has under way (per micro-batch that it has more).",
        json_schema_extra={
            "source": "choice: about the least with which nothing is lost that need not be",
            "unit": "1",
        },
    )


class Recycle(PipelineScheme):
    """Pipelines whose stages stand in for the same stage of each other."""

    name: ClassVar[str] = "recycle"
    summary: ClassVar[str] = "ReCycle: a lost stage's micro-batches go to its peers, into bubbles"
    title: ClassVar[str] = "ReCycle"
    colour: ClassVar[str | None] = "#3C0000"
    marker: ClassVar[str | None] = "*"
    Options: ClassVar[type[StrategyOptions]] = RecycleOptions
    recoveries: ClassVar[tuple[RecoveryKind, ...]] = ("take-over", "hand-back")

    def __init__(self, groups: int, redundancy: int, options: RecycleOptions) -> None:
        super().__init__(groups, redundancy, options)
        self._options = options
        self._allowed = Techniques(
            options.split_backward,
            options.staggered_optimizer,
            options.activations_held,
            self.shape.micro_batches_that_fit,
        )
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
        """Re-route, even out losses by swaps, and do the step again."""
        if min(self._roles.left) == 0:
            # Nobody has that state any more.
            return WipeOut(tuple(missing))
        interrupted = self._interrupted(missing)
        self._newly.clear()
        if not interrupted:
            return Continue((), carried_on=tuple(missing), recovery=None)
        recovery, self._plan = self._recovery("take-over", self._swaps()), None
        held = self._allowed.held(max(self._loads()), self.shape.stages, self.shape.micro_batches)
        self.states_refused += self._options.split_backward and held > self._allowed.most_held
        again = dict.fromkeys(self._whole.members, 1)
        return Continue((), again, carried_on=tuple(missing), recovery=recovery)

    def on_repair(self, hit: Hit) -> Recovery | None:
        """Give nodes the roles that lack most, whose state they copy from a peer."""
        swaps, roles = self._options.role_swaps, self._roles
        moves = [
            roles.take(hit.group, node, roles.lacking(node) if swaps else node)
            for node in self._lost.repair(hit)
        ]
        if not moves:
            return None
        self._plan = None
        return self._recovery("hand-back", moves)

    def _swaps(self) -> list[Move]:
        return list(self._roles.even_out(self._lost)) if self._options.role_swaps else []

    def _recovery(self, kind: RecoveryKind, moves: Sequence[Move]) -> Recovery:
        """Return what a change of hands needs: the ring of each stage it is about, and a chain."""
        rings = Communicators(max(1, len({move.of for move in moves})), 1 / self.shape.stages)
        chain = Communicators(1, 1 / self.groups)
        return Recovery(kind, (rings, chain), moves=tuple(moves), is_expected=kind == "hand-back")

    def _step_plan(self) -> StepPlan:
        # After a restart roles are dealt out anew; after a failure they have been already.
        self._swaps()
        if min(self._roles.left) == 0:
            return NOTHING_LEFT
        shape, loads = self.shape, self._loads()
        if max(loads) == shape.micro_batches:
            return self._whole
        found = rerouted(loads, shape.micro_batches, shape.backward_share, self._allowed)
        pace = max(1.0, found.time / (shape.micro_batches + shape.stages - 1))
        return StepPlan(self._whole.members, 1, pace=pace, pipelines=self._pipelines(found))

    def _loads(self) -> tuple[int, ...]:
        """Return the micro-batches of each stage's fullest node."""
        whole = self.shape.micro_batches * self.groups
        return tuple(-(-whole // left) for left in self._roles.left)

    def _pipelines(self, found: Rerouted) -> tuple[Pipeline, ...]:
        """Return pipelines of all nodes that are left, as many as the stage with most has.

        Whole ones, of one node of each stage, keep as many nodes of one group as there are. Those
        beyond them lack stages, whose work whole ones do in the orders of their fullest nodes: such
        a stage only sends and receives there.
        """
        stages, nodes = range(self.shape.stages), self._roles.by_stage(self._lost)
        own = {group: sum(group in at for at in nodes) for group in range(self.groups)}
        homes = sorted(sorted(own, key=lambda group: -own[group])[: min(self._roles.left)])
        kept = [{group: at[group].pop() for group in homes if group in at} for at in nodes]
        spare = [[(group, node) for group in at for node in at[group]] for at in nodes]
        formed = {
            home: tuple(
                StageShare(home, kept[stage][home])
                if home in kept[stage]
                else StageShare(*spare[stage].pop(0))
                for stage in stages
            )
            for home in homes
        }
        beyond = (group for group in range(self.groups) if group not in formed)
        for place in range(max(map(len, spare))):
            whole = formed[homes[place % len(homes)]]
            formed[next(beyond)] = tuple(
                StageShare(*spare[stage][place])
                if place < len(spare[stage])
                else whole[stage]._replace(forward=0.0, backward=0.0)
                for stage in stages
            )
        shape, staggered = self.shape, self._options.staggered_optimizer
        return tuple(
            Pipeline(
                group, formed[group], shape.micro_batches, shape.tensor, found.orders, staggered
            )
            if group in formed
            else idle(group)
            for group in range(self.groups)
        )

    def masked_failures(self) -> float:
        """Return the failures until a stage has no node to itself, without repairs."""
        return failures_until_nobody_is_left(self._nodes, self.shape.stages)
