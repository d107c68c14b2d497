"""Plays simulations in processes of their own: SimGrid allows one engine a process, for good."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from time import perf_counter
from typing import Any, ParamSpec, TypeVar, cast

from faultline.simulator.job import Job
from faultline.simulator.progress import Progress
from faultline.simulator.run import play
from faultline.simulator.simgrid_engine.traffic import Traffic
from faultline.simulator.timeline import Event
from faultline.simulator.training import Training
from faultline.strategies.base import Strategy

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_ATTEMPTS = 4
# What `multiprocessing` says of a child whose end nobody has seen.
_FORK_SERVER_IS_GONE = 255


_SCRIPT = {"__file__", "__spec__"}
"""Where a process that is started finds the script of the one that starts it."""


class SimulationError(RuntimeError):
    """SimGrid stopped a simulation; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class SimgridResult:
    """What came of a job on the SimGrid engine.

    Attributes
    ----------
    progress : Progress
        Counts and times.
    events : list of Event
        What happened, if asked for.
    activities : int
        SimGrid activities started.
    wall_s : float
        Seconds of real time that the simulation took, without loading the platform.
    peak_memory_bytes : int
        The most memory that its process has had.
    """

    progress: Progress
    events: list[Event]
    activities: int
    wall_s: float
    peak_memory_bytes: int


def in_own_process(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Call a module-level function in a fresh process and return what it returns.

    A process that somebody kills, or the one it is forked from, is replaced: the function must come
    to the same result however often it is called.

    Raises
    ------
    SimulationError
        If the process died, as it does where SimGrid aborts, or was killed again and again.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["faultline.simulator.simgrid_engine.warm_process"])
    for _ in range(_ATTEMPTS):
        receiving, sending = context.Pipe(duplex=False)
        process = context.Process(
            target=_answer, args=(sending, function, args, kwargs), daemon=True
        )
        with receiving:
            try:
                with _script_left_alone():
                    process.start()
                sending.close()
                result, error = receiving.recv()
            except (EOFError, ConnectionError):
                sending.close()
                if _was_killed(process):
                    continue
                raise SimulationError("SimGrid aborted the simulation") from None
            finally:
                if process.pid is not None:
                    process.kill()
                    process.join()
        if error is None:
            return cast(Result, result)
        if isinstance(error, (RuntimeError, TypeError)):
            raise SimulationError(f"SimGrid refused to go on: {error}") from error
        raise error
    raise SimulationError(
        f"the process of the simulation was killed, {_ATTEMPTS} times in a row: perhaps the "
        "machine ran out of memory"
    )


@contextmanager
def _script_left_alone() -> Iterator[None]:
    """Start processes that do not run the caller's script again: what they play is not in it.

    Without a ``__main__`` guard, which notebooks and short scripts lack, each would start others.
    """
    names = vars(sys.modules["__main__"])
    hidden: dict[str, Any] = {name: names[name] for name in names.keys() & _SCRIPT}
    names.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        names.update(hidden)


def _was_killed(process: ForkServerProcess) -> bool:
    """Whether a process was killed, or never begun as the one it is forked from was."""
    if process.pid is None:
        return True
    process.join()
    return process.exitcode in (-signal.SIGKILL, _FORK_SERVER_IS_GONE)


def _answer(
    sending: Connection, function: Callable[..., object], args: Any, kwargs: Mapping[str, Any]
) -> None:
    # An interrupt ends this process at once; the parent says so.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # SimGrid prints what it has against something, and the parent tells it in its own words.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    answer: tuple[object, Exception | None]
    try:
        answer = function(*args, **kwargs), None
    except Exception as error:
        answer = None, error
    sending.send(answer)


def run_on_simgrid(
    job: Job, strategy: Strategy, platform: Path, traffic: Traffic, *, events: bool = False
) -> SimgridResult:
    """Play a job on the SimGrid engine, in a process of its own.

    Parameters
    ----------
    job, strategy
        The job and its scheme, at its start.
    platform : Path
        Platform XML.
    traffic : Traffic
        What is played as messages.
    events : bool
        Whether to keep the timeline.
    """
    return in_own_process(simulate, job, strategy, platform, traffic, events)


def simulate(
    job: Job, strategy: Strategy, platform: Path, traffic: Traffic, keep_events: bool
) -> SimgridResult:
    """Play a job on the SimGrid engine in this process, which can do so once; see above."""
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.loading import actor_on, load_engine, run_to_the_end

    engine = load_engine(platform)
    from faultline.simulator.simgrid_engine.controller import SimgridEngine

    events: list[Event] = []
    training = Training(job.work, job.rules, strategy, events.append if keep_events else None)
    player = SimgridEngine(job, traffic)
    player.failure_injector.power_on()
    failure: list[str] = []

    def control() -> None:
        try:
            play(training, player)
        except Exception as error:
            failure.append(f"the controller failed: {error!r}")
            raise

    started = perf_counter()
    actor_on(CONTROLLER_HOST, "failures", player.failure_injector.inject, daemon=True)
    actor_on(CONTROLLER_HOST, "controller", control)
    run_to_the_end(engine)
    if failure:
        raise SimulationError(failure[0])
    wall_s = perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_bytes = peak if sys.platform == "darwin" else peak * 1024
    return SimgridResult(training.progress, events, player.activities, wall_s, peak_bytes)
