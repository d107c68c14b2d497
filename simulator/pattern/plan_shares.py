"""The shares of a step that is simulated: its members and their work."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from faultline.strategies.interface.step_shares import Pipeline, idle, reduced_pipeline

if TYPE_CHECKING:
    from faultline.simulator.pattern.activity_graph import Rank


class SlowStep(NamedTuple):
    """The stragglers of a step that is simulated, and the lost parts of its network.

    Attributes
    ----------
    links : tuple of (str, float)
        Remaining share of the bandwidth of links.
    ranks : tuple of (Rank, float)
        How many times as long slow ranks compute.
    deal : tuple of (int, int)
        Micro-batches of those groups that were dealt more or fewer than usual.
    parts_down : tuple of str
        Switches and links that are down and can be routed around.
    stages : tuple of (int, float)
        How many times as long stages of all members compute.
    """

    links: tuple[tuple[str, float], ...] = ()
    ranks: tuple[tuple[Rank, float], ...] = ()
    deal: tuple[tuple[int, int], ...] = ()
    parts_down: tuple[str, ...] = ()
    stages: tuple[tuple[int, float], ...] = ()


SOUND_STEP = SlowStep()


class StepShares(NamedTuple):
    """The members of a step, with their shares.

    Attributes
    ----------
    members : tuple of int
        Groups that take part.
    pipelines : tuple of Pipeline
        Pipelines that differ from those of an undisturbed step.
    stack_size : int
        Shard types that each member computes in one go.
    gathers, reduces : bool
        Whether weights hide behind this round's passes, and whether gradients do. In a step of
        several rounds, weights hide in the first and gradients in the last. Gradients that do not
        hide are exchanged afterwards.
    """

    members: tuple[int, ...]
    pipelines: tuple[Pipeline, ...] = ()
    stack_size: int = 1
    gathers: bool = True
    reduces: bool = True

    def computing(self, groups: Collection[int]) -> tuple[int, ...]:
        """Return the members that recompute the work of `groups`: all if one of these is idle."""
        idle = {one.group for one in self.pipelines if not one.stages}
        return tuple(sorted(groups)) if idle.isdisjoint(groups) else self.members

    def of(self, members: tuple[int, ...]) -> StepShares:
        """Return the shares of some of the members alone."""
        pipelines = tuple(one for one in self.pipelines if one.group in members)
        return self._replace(members=members, pipelines=pipelines)

    def exposed(self) -> StepShares:
        """Return the shares without hidden messages: gradients are exchanged after the passes."""
        return self._replace(gathers=False, reduces=False)

    def of_round(self, number: int, rounds: int) -> StepShares:
        """Return the shares of one of the rounds of a step."""
        return self._replace(
            gathers=self.gathers and number == 0, reduces=self.reduces and number == rounds - 1
        )

    def dealt(self, deal: Sequence[tuple[int, int]], pipeline: int, tensor: int) -> StepShares:
        """Return the shares after some groups were dealt more or fewer micro-batches.

        `deal` has the micro-batches of each such group, for all its stages and positions.
        """
        dealt = (
            reduced_pipeline(group, pipeline, share, tensor) if share else idle(group)
            for group, share in deal
        )
        return self._replace(pipelines=(*self.pipelines, *dealt))

    @property
    def computing_groups(self) -> list[int]:
        """Groups that are not idle."""
        idle = {one.group for one in self.pipelines if not one.stages}
        return [group for group in self.members if group not in idle]

    @property
    def working(self) -> list[int]:
        """Groups that are not idle, in an order that does not depend on their numbers.

        Groups whose work differs from an undisturbed step come first.
        """
        idle = {one.group for one in self.pipelines if not one.stages}
        changed = [one for one in self.pipelines if one.stages]
        changed.sort(key=lambda one: (str(_with_relative_nodes(one)), one.group))
        first = [one.group for one in changed]
        return [*first, *(group for group in self.members if group not in idle.union(first))]

    def renamed(self, working: Sequence[int], groups: int) -> StepShares:
        """Return the same shares with the groups `working` renumbered from 0, in this order."""
        order = [*working, *(group for group in range(groups) if group not in {*working})]
        place = {group: number for number, group in enumerate(order)}
        changed = {one.group: one for one in self.pipelines if one.stages}
        pipelines = tuple(
            replace(
                changed[group],
                group=place[group],
                stages=tuple(
                    stage._replace(group=place[stage.group]) for stage in changed[group].stages
                ),
            )
            for group in working
            if group in changed
        )
        return self._replace(members=tuple(range(len(working))), pipelines=pipelines)


def _with_relative_nodes(pipeline: Pipeline) -> Pipeline:
    """Return a pipeline with the groups of its nodes counted from its own group."""
    stages = (one._replace(group=one.group - pipeline.group) for one in pipeline.stages)
    return replace(pipeline, group=0, stages=tuple(stages))
