"""Processes that keep a platform loaded, in which each request is simulated from time 0."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from faultline.simulator.simgrid_engine.errors import SimulationError
from faultline.simulator.simgrid_engine.process import (
    OwnProcess,
    aborted,
    call_in_keeper,
    call_in_owner,
    result_and_error,
    retry_if_killed,
)

if TYPE_CHECKING:
    import simgrid

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_LOADED: list[simgrid.Engine] = []
"""The one engine of a process that keeps a platform."""


@dataclass(frozen=True, slots=True)
class SimulatedTime:
    """How long an action takes alone, in seconds."""

    duration_s: float

    @classmethod
    def of(cls, engine: simgrid.Engine, act: Callable[[], object]) -> SimulatedTime:
        """Let one actor act on an otherwise idle platform; return when it has ended."""
        from faultline.simulator.simgrid_engine.loading import run_controller

        run_controller(engine, "alone", act)
        return cls(engine.clock)

    @classmethod
    def from_cache(cls, stored: dict[str, Any]) -> SimulatedTime:
        """Return a time from the values of a file; raise an error if they are invalid."""
        known = cls(**stored)
        if not known.duration_s >= 0.0:
            raise ValueError("duration_s is out of range")
        return known


def simulate_on(
    platform: Path,
    simulate: Callable[Concatenate[simgrid.Engine, Arguments], Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Return the result of a module-level function that simulates something on an engine.

    It is called in a fork of the process that keeps the platform, with the clock at 0. So a time
    does not depend on earlier requests, not even by rounding.

    Parameters
    ----------
    platform : Path
        Platform XML; loaded at the first request, and when it has changed.
    simulate : callable
        Takes the engine.
    *args, **kwargs
        Its further arguments.

    Raises
    ------
    SimulationError
        If SimGrid aborts, or the process is killed repeatedly.
    """
    return call_in_owner(_call_via_keeper, platform, _in_a_fork, simulate, args, kwargs)


def look_up_on(
    platform: Path,
    look_up: Callable[Concatenate[simgrid.Engine, Arguments], None],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> None:
    """Look something up in the process that keeps a platform, so that its forks know it.

    As `simulate_on`, but for a function that simulates nothing and does not change the platform.
    """
    call_in_owner(_call_via_keeper, platform, _in_the_process, look_up, args, kwargs)


_Way = Callable[[Callable[..., Result], tuple[object, ...], dict[str, object]], Result]
"""How the process that keeps a platform calls a function: itself, or in a fork."""


def _call_via_keeper(
    platform: Path,
    how: _Way[Result],
    function: Callable[..., Result],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> Result:
    return call_in_keeper(_call_in_kept_process, platform, how, function, args, kwargs)


def _call_in_kept_process(
    platform: Path,
    how: _Way[Result],
    function: Callable[..., Result],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> Result:
    """Call a function in the process that keeps a platform."""
    changed_ns = platform.stat().st_mtime_ns

    def call() -> Result:
        try:
            # A process that is forked from this one must not use its kept processes.
            kept = _kept_process(platform, changed_ns, os.getpid())
            return kept.call(how, function, args, kwargs)
        except SimulationError:
            # The process may have stopped.
            _kept_process.cache_clear()
            raise

    return retry_if_killed(call)


@lru_cache(maxsize=2)
def _kept_process(platform: Path, _changed_ns: int, _process: int) -> OwnProcess:
    return OwnProcess(_load, (platform,), kept=True)


def _load(platform: Path) -> None:
    from faultline.simulator.simgrid_engine.loading import load_engine

    engine = load_engine(platform)
    _LOADED.append(engine)


def _in_the_process(
    look_up: Callable[..., Result], args: tuple[object, ...], kwargs: dict[str, object]
) -> Result:
    return look_up(*_LOADED, *args, **kwargs)


def _in_a_fork(
    simulate: Callable[..., Result], args: tuple[object, ...], kwargs: dict[str, object]
) -> Result:
    """Call a function in a fork of this process, which has one thread."""
    reading, writing = os.pipe()
    before = os.fstat(2).st_size
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "wb") as output:
                pickle.dump(result_and_error(simulate, (*_LOADED, *args), kwargs), output)
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
    returned: Result = result
    return returned
