"""The phases of a step, made once per plan, and the causes that their times are booked under."""

from __future__ import annotations

from collections.abc import Mapping

from faultline.simulator.accounting.progress import Batches
from faultline.simulator.job.conditions import UNDISTURBED, Slowdown
from faultline.simulator.job.phases import AllReduce, Compute
from faultline.simulator.job.timer import Timer
from faultline.strategies.interface.scheme import StepPlan


class StepCosts:
    """The times and batches that a step under a plan books.

    The phase `stated` is the compute phase without its seconds.

    Attributes
    ----------
    stack_s : float
        As of `Compute`.
    types : int
        Shard types that each member computes.
    batches : Batches
        Batches that the step trains.
    booked : tuple of (str, float)
        Seconds of compute without jitter, by cause.
    nominal_s : float
        Compute without jitter, in seconds: the sum of `useful_s`, `redundancy_s`, `degraded_s`.
    raised_power_s : float
        Energy that some GPUs draw beyond their rated power, in seconds of all GPUs' rated power.
    reduced_share : float
        Useful share of the all-reduce's time: the time for a full batch over a sound network.
    """

    __slots__ = (
        "batches",
        "booked",
        "degraded_s",
        "nominal_s",
        "raised_power_s",
        "reduced_share",
        "redundancy_s",
        "stack_s",
        "types",
        "useful_s",
    )

    def __init__(
        self, plan: StepPlan, timer: Timer, stated: Compute, all_reduce: AllReduce
    ) -> None:
        work = timer.work
        least_s, twice = stated.least_stack_s, timer.disturbances.reactions.validation_share
        once = self.stack_s = stack_s = max(timer.stack_s(stated), least_s)
        if twice:
            once = max(timer.stack_s(stated._replace(factor=1.0)), least_s)
        self.batches = Batches.of(plan, work.approximation_loss)
        self.reduced_share = self.batches.trained / timer.network_slowdown(all_reduce)
        self.types = plan.stacks * plan.stack_size
        types_s = self.types * work.compute_s
        self.nominal_s = plan.stacks * stack_s * all_reduce.slow.slowest
        self.raised_power_s = (plan.power - 1.0) * self.nominal_s
        # Several types in one go may take less time than one by one.
        unhurt_s, once_s = min(types_s, self.nominal_s), min(work.compute_s, self.nominal_s)
        self.useful_s = once_s * self.batches.trained
        validation_s = unhurt_s * (stack_s / once - 1) if twice else 0.0
        self.redundancy_s = unhurt_s - once_s + validation_s
        self.degraded_s = self.nominal_s - unhurt_s + (once_s - self.useful_s)
        self.degraded_s -= validation_s
        causes = ("compute", "redundancy", "degraded")
        booked = zip(causes, (self.useful_s, self.redundancy_s, self.degraded_s), strict=True)
        self.booked = tuple((cause, each_s) for cause, each_s in booked if each_s)


class StepPhases:
    """The phases of a step under a plan.

    They reuse the costs of the previous plan's phases, `before`, if the costs are the same.

    Attributes
    ----------
    compute, all_reduce : Compute, AllReduce
        The phases.
    repeated : AllReduce
        The all-reduce again, after a failure.
    costs : StepCosts
        Their bookings.
    down : int
        Groups that take no part.
    mirrors : tuple of Mirror
        State that members send to each other between steps.
    slow : Slowdown
        The slowdown of members whose computations take as long as usual.
    """

    __slots__ = (
        "_shared",
        "all_reduce",
        "compute",
        "costs",
        "down",
        "mirrors",
        "repeated",
        "slow",
    )

    def __init__(
        self,
        plan: StepPlan,
        timer: Timer,
        parts_down: tuple[str, ...] = (),
        slow: Slowdown = UNDISTURBED,
        before: StepPhases | None = None,
    ) -> None:
        members, stacks, size, *_, pipelines, mirrors = plan
        work = timer.work
        self.slow, twice = slow, timer.disturbances.reactions.validation_share
        amount, ways = (members, stacks, size, None), (pipelines, 0.0, 1 + twice, plan.pace)
        shared, stated = (plan.all_but_members, parts_down, slow), None
        if before is None or slow.compute or shared != before._shared:
            ways = pipelines, timer.least_stack_s(plan), 1 + twice, plan.pace
            stated = Compute(*amount, 0.0, parts_down, UNDISTURBED, *ways)
            slow = timer.slowdown_of(stated, slow)
        self.all_reduce = AllReduce(members, parts_down, slow, pipelines)
        self.repeated = self.all_reduce
        if work.gradients_hide:
            self.repeated = self.all_reduce._replace(repeated=True)
            self.all_reduce = self.all_reduce._replace(stacks=stacks, stack_size=size)
        self._shared: tuple[object, ...] | None
        self.costs: StepCosts
        if before is not None and stated is None:
            # Steps of such jobs are not simulated, so they have no least time.
            self.costs, self._shared = before.costs, shared
        else:
            assert stated is not None
            self.costs = StepCosts(plan, timer, stated, self.all_reduce)
            self._shared = None if timer.costs_depend_on_members(plan) else shared
        self.compute = Compute(*amount, self.costs.stack_s, parts_down, slow, *ways)
        self.down = work.groups - len(members)
        self.mirrors = mirrors


def patch_compute(
    plan: StepPlan,
    patch: Mapping[int, int],
    timer: Timer,
    parts_down: tuple[str, ...],
    slow: Slowdown,
) -> Compute:
    """Return the repeated computation of some groups, given the stacks of each."""
    amount = plan.members, 0, plan.stack_size, patch
    ways = plan.pipelines, 0.0, 1.0, plan.pace
    stated = Compute(*amount, 0.0, parts_down, UNDISTURBED, *ways)
    return stated._replace(stack_s=timer.stack_s(stated), slow=timer.slowdown_of(stated, slow))
