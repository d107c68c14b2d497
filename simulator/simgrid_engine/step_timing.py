"""The time of a step in SimGrid, and its parts.

Not all equal ranks are simulated. Replicas and tensor-parallel positions fold into one if the
platform treats them alike: same speeds, and for each kind of message routes of the same latency and
the same share of their narrowest link while all ranks send. Positions fold into two if the links of
their ring carry other traffic. Gradients that hide behind the passes arrive from replicas that are
not simulated at the times at which simulated replicas send theirs. If a link carries messages of
several ranks and fewer are simulated, its bandwidth shrinks by that ratio. Groups with other work
are simulated too, each as if the other groups were like it. All ranks are simulated in a small
step, in one with slow ranks, and on a platform that is uneven anywhere on a route.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from faultline.simulator.durations import StepTime
from faultline.simulator.pattern.activity_graph import Rank
from faultline.simulator.pattern.step_pattern import StepPattern
from faultline.simulator.pattern.step_shares import StepShares
from faultline.simulator.pattern.teams import Hosts
from faultline.simulator.simgrid_engine.process import in_own_process

if TYPE_CHECKING:
    import simgrid

Result = TypeVar("Result")


_MOST_PASSES = 1024
"""Forward passes of all ranks in a step of a job that is simulated whole: some 0.1 s."""

Timer = Callable[[Hosts, StepPattern], StepTime]
"""Times a step that GPU hosts run; by replica, stage and position."""


def with_timer(platform: Path, plan: Callable[[Timer], Result], *, folds: bool = True) -> Result:
    """Return the result of a plan that times steps on one platform in a process of its own.

    The plan is a module-level function that takes a `Timer`. `folds` is whether equal ranks may
    represent each other.
    """
    return in_own_process(_with_timer, platform, plan, folds)


def time_step(
    engine: simgrid.Engine,
    hosts: Hosts,
    pattern: StepPattern,
    bandwidths: Mapping[str, float],
    shares: StepShares | None = None,
    slow: Mapping[Rank, float] = MappingProxyType({}),
) -> StepTime:
    """Run a step on an engine's platform, with a share of the bandwidth of some links.

    The ranks of `slow` compute by these factors longer.
    """
    from faultline.simulator.simgrid_engine.links import narrowed
    from faultline.simulator.simgrid_engine.step_timer import StepTimer

    ranks = sum(len(stage) for replica in hosts for stage in replica)
    folds = ranks * pattern.micro_batches * pattern.virtual_stages > _MOST_PASSES
    left = frozenset(bandwidths.items())
    with narrowed(bandwidths):
        return StepTimer(engine, folds, left)(hosts, pattern, shares, slow)


def look_up_step(
    engine: simgrid.Engine,
    hosts: Hosts,
    pattern: StepPattern,
    bandwidths: Mapping[str, float],
    shares: StepShares | None = None,
) -> None:
    """Look up the platform properties of `time_step`, so that forks of this process know them."""
    from faultline.simulator.simgrid_engine.links import narrowed
    from faultline.simulator.simgrid_engine.step_timer import StepTimer

    left = frozenset(bandwidths.items())
    with narrowed(bandwidths):
        StepTimer(engine, folds=True, left=left).look_up(hosts, pattern, shares)


def _with_timer(platform: Path, plan: Callable[[Timer], Result], folds: bool) -> Result:
    from faultline.simulator.simgrid_engine.loading import load_engine
    from faultline.simulator.simgrid_engine.step_timer import StepTimer

    engine = load_engine(platform)
    return plan(StepTimer(engine, folds))
