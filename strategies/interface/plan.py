"""A scheme's plan: the work of the next steps, without times."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from faultline.strategies.interface.recovery import Mirror
from faultline.strategies.interface.step_shares import Pipeline


class Task(NamedTuple):
    """A stage of a group and the node of the group that computes it, by their numbers."""

    group: int
    stage: int
    node: int


class StepPlan(NamedTuple):
    """The work of the next steps, until a failure changes it.

    Attributes
    ----------
    members : tuple of int
        Groups in the communicator, in ascending order.
    stacks : int
        Stacks that each member computes before the all-reduce.
    stack_size : int
        Shard types in a stack, which are computed together as one larger batch.
    pace : float
        Compute time of the slowest member over that of a healthy one. The others wait for it.
    batch_share : float
        Share of a full batch that the members train in a step.
    power : float
        Mean power of all the job's GPUs while they compute, over their rating.
    approximate : tuple of Task
        Stages whose gradients are approximate, with the nodes that compute them.
    stages : int
        Stages of a group.
    idle : tuple of int
        Members that train nothing of the batch, in ascending order.
    pipelines : tuple of Pipeline
        Work of the members that differ from an undisturbed step, by group in ascending order. If
        steps are simulated on the platform, it determines their time instead of `pace`.
    mirrors : tuple of Mirror
        State that members send to each other between steps.
    """

    members: tuple[int, ...]
    stacks: int
    stack_size: int = 1
    pace: float = 1.0
    batch_share: float = 1.0
    power: float = 1.0
    approximate: tuple[Task, ...] = ()
    stages: int = 1
    idle: tuple[int, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    mirrors: tuple[Mirror, ...] = ()

    @property
    def all_but_members(self) -> tuple[object, ...]:
        """All fields of the plan except its members."""
        return self[1:]

    @property
    def approximate_share(self) -> float:
        """Share of the stages' gradients that are approximate."""
        if not self.approximate:
            return 0.0
        return len(self.approximate) / (self.stages * (len(self.members) - len(self.idle)))


def remaining_members(members: tuple[int, ...], dropped: Sequence[int]) -> tuple[int, ...]:
    """Return the members without the dropped ones, in ascending order."""
    for group in dropped:
        index = bisect_left(members, group)
        members = members[:index] + members[index + 1 :]
    return members


NOTHING_LEFT = StepPlan((), 1, batch_share=0.0)
"""No group can take a step; a restart lasts until hardware is repaired."""
