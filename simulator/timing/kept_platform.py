"""Processes that keep a platform loaded and simulate each request from time 0."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from faultline.simulator.processes.process import (
    Call,
    OwnProcess,
    aborted,
    call_over,
    owner_with_platforms,
    retry_if_killed,
)
from faultline.simulator.simgrid.errors import SimulationError

if TYPE_CHECKING:
    import simgrid

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_LOADED: list[simgrid.Engine] = []
"""The one engine of a process that keeps a platform."""


def simulate_on(
    platform: Path,
    simulate: Callable[Concatenate[simgrid.Engine, Arguments], Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Return the result of a module-level function that simulates something on an engine.

    A fork of the process that keeps the platform calls it, with the clock at 0. So times do not
    depend on earlier requests, not even by rounding. The platform is loaded at the first request,
    and when it has changed.

    Raises
    ------
    SimulationError
        If SimGrid aborts, or the process is killed repeatedly.
    """
    result: Result = _in_kept_process(platform, _in_a_fork, Call(simulate, args, kwargs))
    return result


def look_up_on(
    platform: Path,
    look_up: Callable[Concatenate[simgrid.Engine, Arguments], None],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> None:
    """Call a function in the process that keeps a platform, so that its forks know the result.

    The function simulates nothing and does not change the platform; else as `simulate_on`.
    """
    _in_kept_process(platform, _with_engine, Call(look_up, args, kwargs))


def _in_kept_process(platform: Path, run: Callable[[Call], Any], call: Call) -> Any:
    """Run a call in the process that keeps a platform: in a fork, or in the process itself."""
    owner = owner_with_platforms()
    if owner is not None:
        return call_over(owner, _in_kept_process, platform, run, call)

    def attempt() -> Any:
        # The process number is in the key: a fork of this process must start its own.
        kept = _kept_process(platform, platform.stat().st_mtime_ns, os.getpid())
        try:
            return kept.call(run, call)
        except BaseException as error:
            # The process may have stopped, or still be at work if this one is interrupted.
            if isinstance(error, SimulationError) or not isinstance(error, Exception):
                _kept_process.cache_clear()
                kept.__exit__()
            raise

    return retry_if_killed(attempt)


@lru_cache(maxsize=2)
def _kept_process(platform: Path, _changed_ns: int, _process: int) -> OwnProcess:
    process = OwnProcess(kept=True)
    try:
        process.call(_load, platform)
    except BaseException:
        process.__exit__()
        raise
    return process


def _load(platform: Path) -> None:
    from faultline.simulator.simgrid.loading import load_engine

    _LOADED.append(load_engine(platform))


def _with_engine(call: Call) -> object:
    return call.function(*_LOADED, *call.args, **call.kwargs)


def _in_a_fork(call: Call) -> object:
    """Call a function in a fork of this process, which has one thread."""
    reading, writing = os.pipe()
    before = os.fstat(2).st_size
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "wb") as output:
                pickle.dump(Call(_with_engine, (call,), {}).run(), output)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    if not content:
        raise aborted(since=before)
    result, error = pickle.loads(content)
    if error is not None:
        raise error
    return result
