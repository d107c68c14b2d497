"""The phases of a step, made once a plan, and what they mean for the books."""

from __future__ import annotations

from collections.abc import Mapping

from faultline.simulator.conditions import UNDISTURBED, Slowdown
from faultline.simulator.job import Work
from faultline.simulator.phases import AllReduce, Compute
from faultline.simulator.progress import Batches
from faultline.strategies.base import StepPlan


class StepPhases:
    """The phases of a step under a plan.

    Parameters
    ----------
    plan : StepPlan
        What the scheme wants computed.
    work : Work
        The job.
    without : tuple of str
        Parts of the network that are down, around which there is a way.
    slow : Slowdown
        What else slows its members.

    Attributes
    ----------
    compute, all_reduce : Compute, AllReduce
        The phases.
    types : int
        Shard types that each member computes.
    batches : Batches
        What the step trains.
    down : int
        Groups that take no part.
    mirrors : tuple of Mirror
        State that members send to each other between steps.
    nominal_s : float
        Compute at nominal pace, in seconds: the sum of `useful_s`, `redundancy_s`, `degraded_s`.
    raised_power_s : float
        How long all GPUs would have to draw their rated power for what some draw beyond it.
    """

    __slots__ = (
        "all_reduce",
        "batches",
        "compute",
        "degraded_s",
        "down",
        "mirrors",
        "nominal_s",
        "raised_power_s",
        "redundancy_s",
        "types",
        "useful_s",
    )

    def __init__(
        self,
        plan: StepPlan,
        work: Work,
        without: tuple[str, ...] = (),
        slow: Slowdown = UNDISTURBED,
    ) -> None:
        least_pace, twice = work.least_pace(plan), work.reactions.validation_share
        pace = max(work.pace_of(plan, without), least_pace)
        members, pipelines = plan.members, plan.pipelines
        stacks, size = plan.stacks, plan.stack_size
        self.compute = Compute(
            members, stacks, size, None, pace * (1 + twice), without, slow, pipelines, least_pace
        )
        self.all_reduce = AllReduce(members, without, slow, pipelines)
        self.batches = Batches.of(plan, work.approximation_loss)
        self.types = stacks * size
        types_s = self.types * work.compute_s
        self.nominal_s = types_s * pace * (1 + twice) * slow.slowest
        self.raised_power_s = (plan.power - 1.0) * self.nominal_s
        # Several types in one go may take less than as many one by one.
        unhurt_s, once_s = min(types_s, self.nominal_s), min(work.compute_s, self.nominal_s)
        self.useful_s = once_s * self.batches.trained
        validation_s = unhurt_s * twice
        self.redundancy_s = unhurt_s - once_s + validation_s
        self.degraded_s = self.nominal_s - unhurt_s + (once_s - self.useful_s)
        self.degraded_s -= validation_s
        self.down = work.groups - len(plan.members)
        self.mirrors = plan.mirrors


def patch_compute(
    plan: StepPlan,
    patch: Mapping[int, int],
    work: Work,
    without: tuple[str, ...],
    slow: Slowdown,
) -> Compute:
    """Return what some groups compute once more, given the stacks of each."""
    pace = work.pace_of(plan, without, patch)
    return Compute(plan.members, 0, plan.stack_size, patch, pace, without, slow, plan.pipelines)
