"""Processes that keep a platform loaded, in which what is asked is played from time 0."""

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
    answer,
    asked_of_keeper,
    asked_of_owner,
    undeterred,
)

if TYPE_CHECKING:
    import simgrid

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_LOADED: list[simgrid.Engine] = []
"""The one engine of a process that keeps a platform."""


@dataclass(frozen=True, slots=True)
class PlayedTime:
    """How long something takes by itself, in seconds."""

    duration_s: float

    @classmethod
    def of(cls, engine: simgrid.Engine, act: Callable[[], object]) -> PlayedTime:
        """Let one actor act on a platform that is idle otherwise; return when it has ended."""
        from faultline.platforms.xml_names import CONTROLLER_HOST
        from faultline.simulator.simgrid_engine.loading import actor_on, run_to_the_end

        def body() -> None:
            act()

        actor_on(CONTROLLER_HOST, "alone", body)
        run_to_the_end(engine)
        return cls(engine.clock)

    @classmethod
    def from_cache(cls, stored: dict[str, Any]) -> PlayedTime:
        """Return one from what a file says; raises an error where that is none."""
        known = cls(**stored)
        if not known.duration_s >= 0.0:
            raise ValueError("is no time")
        return known


def played_on(
    platform: Path,
    play: Callable[Concatenate[simgrid.Engine, Arguments], Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Return what a function of a module returns that plays something on an engine.

    It is called in a fork of the process that keeps the platform, with the clock at 0: what
    something takes does not depend, not even by rounding, on what was asked for before.

    Parameters
    ----------
    platform : Path
        Platform XML; loaded when it is first asked for, and when it has changed.
    play : callable
        Is given the engine.
    *args, **kwargs
        What else it is given.

    Raises
    ------
    SimulationError
        If SimGrid aborts, or the process is killed again and again.
    """
    return asked_of_owner(_passed_on, platform, _in_a_fork, play, args, kwargs)


def look_up_on(
    platform: Path,
    look_up: Callable[Concatenate[simgrid.Engine, Arguments], None],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> None:
    """Let the process that keeps a platform look something up itself: its forks then know it.

    As `played_on`, but for a function that plays nothing and leaves the platform as it is.
    """
    asked_of_owner(_passed_on, platform, _by_itself, look_up, args, kwargs)


_Way = Callable[[Callable[..., Result], tuple[object, ...], dict[str, object]], Result]
"""How the process that keeps a platform calls a function with its arguments."""


def _passed_on(
    platform: Path,
    how: _Way[Result],
    function: Callable[..., Result],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> Result:
    return asked_of_keeper(_done_there, platform, how, function, args, kwargs)


def _done_there(
    platform: Path,
    how: _Way[Result],
    function: Callable[..., Result],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> Result:
    """Let the process that keeps a platform call a function, in its way."""
    changed_ns = platform.stat().st_mtime_ns

    def call() -> Result:
        try:
            # A process that is forked from this one has no part in what it keeps.
            kept = _kept_process(platform, changed_ns, os.getpid())
            return kept.call(how, function, args, kwargs)
        except SimulationError:
            # The process is gone, it may be.
            _kept_process.cache_clear()
            raise

    return undeterred(call)


@lru_cache(maxsize=2)
def _kept_process(platform: Path, _changed_ns: int, _process: int) -> OwnProcess:
    return OwnProcess(_load, (platform,), kept=True)


def _load(platform: Path) -> None:
    from faultline.simulator.simgrid_engine.loading import load_engine

    engine = load_engine(platform)
    _LOADED.append(engine)


def _by_itself(
    look_up: Callable[..., Result], args: tuple[object, ...], kwargs: dict[str, object]
) -> Result:
    return look_up(*_LOADED, *args, **kwargs)


def _in_a_fork(
    play: Callable[..., Result], args: tuple[object, ...], kwargs: dict[str, object]
) -> Result:
    """Let a fork of this process, which has one thread, play something."""
    reading, writing = os.pipe()
    before = os.fstat(2).st_size
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "wb") as told:
                pickle.dump(answer(play, (*_LOADED, *args), kwargs), told)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as heard:
        told_bytes = heard.read()
    os.waitpid(child, 0)
    if not told_bytes:
        raise aborted(since=before)
    result, error = pickle.loads(told_bytes)
    if error is not None:
        raise error
    returned: Result = result
    return returned
