"""What SimGrid says a step takes, and of what parts its time is made.

Equal ranks need not all be played. Replicas and tensor-parallel positions fold into one where the
platform treats them alike: same speeds, and for each kind of message routes of the same latency and
the same share of their narrowest link while everybody sends; into two where something else is on
the links of their ring. A link that carries messages of several, of which fewer are played, is
narrowed by as much. On a platform that is uneven anywhere on the way, everybody plays.
Groups that a scheme has do something else are played besides, each as if the others were like it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from faultline.simulator.pattern.step_pattern import StepPattern
from faultline.simulator.pattern.step_shares import StepShares
from faultline.simulator.pattern.teams import Hosts
from faultline.simulator.simgrid_engine.process import OwnProcess, in_a_fork, in_own_process
from faultline.simulator.simgrid_engine.step_time import StepTime

if TYPE_CHECKING:
    from faultline.simulator.simgrid_engine.step_timer import StepTimer

Result = TypeVar("Result")


Timer = Callable[[Hosts, StepPattern], StepTime]
"""Times a step that GPU hosts play; by replica, stage and position."""


def time_steps(
    platform: Path, steps: Sequence[tuple[Hosts, StepPattern]], *, folds: bool = True
) -> list[StepTime]:
    """Let SimGrid play several steps on one platform, one after the other in one process."""
    return with_timer(platform, partial(_each, steps), folds=folds)


def with_timer(platform: Path, plan: Callable[[Timer], Result], *, folds: bool = True) -> Result:
    """Return what a plan comes to that times steps, all on one platform in a process of its own.

    Parameters
    ----------
    platform : Path
        Platform XML.
    plan : callable
        Is given a `Timer`; of a module, so that another process finds it.
    folds : bool
        Whether equal ranks may stand for each other.
    """
    return in_own_process(_with_timer, platform, plan, folds)


class KeptTimer:
    """A timer whose process keeps the platform loaded, for as long as this object lives.

    Each step is played by a process that is forked from that one, with its clock at 0: what a step
    takes does not depend, not even by rounding, on those that were asked for before.

    Parameters
    ----------
    platform : Path
        Platform XML.
    """

    def __init__(self, platform: Path) -> None:
        self._process = OwnProcess(_keep_timer, (platform,), kept=True)

    def __call__(
        self,
        hosts: Hosts,
        pattern: StepPattern,
        bandwidths: Mapping[str, float],
        shares: StepShares | None = None,
    ) -> StepTime:
        """Let SimGrid play a step, with a share of the bandwidth of some links.

        Raises
        ------
        SimulationError
            If SimGrid aborts.
        """
        return self._process.call(_time_kept, hosts, pattern, bandwidths, shares)


_KEPT: list[StepTimer] = []
"""The one timer of a process that keeps one."""


def _keep_timer(platform: Path) -> None:
    _KEPT.append(_timer_of(platform, folds=True))


def _time_kept(
    hosts: Hosts,
    pattern: StepPattern,
    bandwidths: Mapping[str, float],
    shares: StepShares | None,
) -> StepTime:
    return in_a_fork(_time_narrowed, hosts, pattern, bandwidths, shares)


def _time_narrowed(
    hosts: Hosts,
    pattern: StepPattern,
    bandwidths: Mapping[str, float],
    shares: StepShares | None,
) -> StepTime:
    from faultline.simulator.simgrid_engine.narrowing import narrowed

    with narrowed(bandwidths):
        return _KEPT[0](hosts, pattern, shares)


def _each(steps: Sequence[tuple[Hosts, StepPattern]], timer: Timer) -> list[StepTime]:
    return [timer(hosts, pattern) for hosts, pattern in steps]


def _with_timer(platform: Path, plan: Callable[[Timer], Result], folds: bool) -> Result:
    return plan(_timer_of(platform, folds))


def _timer_of(platform: Path, folds: bool) -> StepTimer:
    from faultline.simulator.simgrid_engine.loading import load_engine
    from faultline.simulator.simgrid_engine.step_timer import StepTimer

    engine = load_engine(platform)
    engine.netzone_root.seal()
    return StepTimer(engine, folds)
