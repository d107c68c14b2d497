"""The phases of a step, made once a plan, and what they mean for the books."""

from __future__ import annotations

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
        pace = plan.pace * work.pace_of(plan.members, without)
        twice = work.reactions.validation_share
        self.compute = Compute(
            plan.members, plan.stacks, plan.stack_size, None, pace * (1 + twice), without, slow
        )
        self.all_reduce = AllReduce(plan.members, without, slow)
        self.batches = Batches.of(plan, work.approximation_loss)
        self.types = plan.stacks * plan.stack_size
        unhurt_s = self.types * work.compute_s
        self.nominal_s = unhurt_s * pace * (1 + twice) * slow.slowest
        self.raised_power_s = (plan.power - 1.0) * self.nominal_s
        self.useful_s = work.compute_s * self.batches.trained
        validation_s = unhurt_s * twice
        self.redundancy_s = unhurt_s - work.compute_s + validation_s
        self.degraded_s = self.nominal_s - unhurt_s + (work.compute_s - self.useful_s)
        self.degraded_s -= validation_s
        self.down = work.groups - len(plan.members)
