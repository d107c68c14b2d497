"""The time of a step in SimGrid, and its parts.

Not all equal ranks are simulated. Replicas and tensor-parallel positions fold into one if the
platform treats them alike: same speeds, and for each kind of message routes of the same latency and
the same share of their narrowest link while all ranks send. Positions fold into two if the links of
their ring carry other traffic. Gradients that hide behind the passes arrive from replicas that are
not simulated at the times at which simulated replicas send theirs. If a link carries messages of
several ranks and fewer are simulated, its bandwidth shrinks by that ratio. Groups with different
work are simulated too, each as if all groups did its work. All ranks are simulated in a small step,
in a step with slow ranks, and on a platform that is uneven anywhere on a route.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from faultline.simulator.job.durations import StepTime
from faultline.simulator.pattern.activity_graph import Rank
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.pattern.step_pattern import StepPattern
from faultline.simulator.pattern.teams import Hosts
from faultline.simulator.timing.kept_platform import simulate_on

if TYPE_CHECKING:
    import simgrid

Result = TypeVar("Result")


_MOST_UNFOLDED_PASSES = 1024
"""Largest number of forward passes in a step for which all ranks are simulated: about 0.1 s."""

Timer = Callable[[Hosts, StepPattern], StepTime]
"""Returns the time of a step on GPU hosts, which are given by replica, stage and position."""


def with_timer(platform: Path, plan: Callable[[Timer], Result], *, folds: bool = True) -> Result:
    """Call a module-level function with a `Timer` for one platform, in a child process.

    `folds` is whether equal ranks may represent each other. Returns the result of the function.
    """
    return simulate_on(platform, _with_timer, plan, folds)


def time_step(
    engine: simgrid.Engine,
    hosts: Hosts,
    pattern: StepPattern,
    bandwidths: Mapping[str, float],
    shares: StepShares | None = None,
    slow: Mapping[Rank, float] = MappingProxyType({}),
) -> StepTime:
    """Return the time of a step on an engine's platform.

    `bandwidths` are the remaining shares of the bandwidth of some links, by name. Computations of
    the ranks in `slow` take these factors longer.
    """
    from faultline.simulator.simgrid.links import narrowed
    from faultline.simulator.timing.step_timer import StepTimer

    ranks = sum(len(stage) for replica in hosts for stage in replica)
    folds = ranks * pattern.micro_batches * pattern.virtual_stages > _MOST_UNFOLDED_PASSES
    link_shares = frozenset(bandwidths.items())
    with narrowed(bandwidths):
        return StepTimer(engine, folds, link_shares)(hosts, pattern, shares, slow)


def look_up_step(
    engine: simgrid.Engine,
    hosts: Hosts,
    pattern: StepPattern,
    bandwidths: Mapping[str, float],
    shares: StepShares | None = None,
) -> None:
    """Look up the platform properties of `time_step`, so that forks of this process know them."""
    from faultline.simulator.simgrid.links import narrowed
    from faultline.simulator.timing.step_timer import StepTimer

    link_shares = frozenset(bandwidths.items())
    with narrowed(bandwidths):
        StepTimer(engine, folds=True, link_shares=link_shares).look_up(hosts, pattern, shares)


def _with_timer(engine: simgrid.Engine, plan: Callable[[Timer], Result], folds: bool) -> Result:
    from faultline.simulator.timing.step_timer import StepTimer

    return plan(StepTimer(engine, folds))
