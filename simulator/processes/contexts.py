"""How processes start: with the imports of this one, but neither its script nor its folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import (
    ForkServerContext,
    ForkServerProcess,
    SpawnContext,
    SpawnProcess,
)
from multiprocessing.process import BaseProcess
from typing import Any

from faultline.platforms.child_python import helpers_on_safe_path
from faultline.simulator.processes.interrupts import interrupts_blocked

_SCRIPT = {"__file__", "__spec__"}
"""Names by which a started process finds the script of its parent."""


class _State:
    settings: dict[str, str] | None = None  # Environment of the fork server of this process.


class _Forked(ForkServerProcess):
    """A process that a fork server starts, without the script and the folder of its caller."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:
        with _script_hidden(), helpers_on_safe_path():
            return ForkServerProcess._Popen(process_obj)


class _Spawned(SpawnProcess):
    """A process that starts anew, without the script and the folder of its caller."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:
        with interrupts_blocked(), _script_hidden(), helpers_on_safe_path():
            return SpawnProcess._Popen(process_obj)


class _ForkServerContext(ForkServerContext):
    Process = _Forked


class _SpawnContext(SpawnContext):
    Process = _Spawned


def worker_context(*modules: str) -> ForkServerContext | SpawnContext:
    """Return the context of processes that are forked from one that has imported what they need.

    That process has one thread and no engine, so each fork starts within milliseconds, and may
    simulate on SimGrid. It imports the simulator and the given modules. A scheme that a program has
    registered meanwhile is unknown to it: then each process starts anew, which takes a second.
    """
    # The tracker removes the semaphores of killed processes, and a process may start while its
    # owner ends: neither is news for a user.
    with helpers_on_safe_path(), errors_hidden():
        resource_tracker.ensure_running()
        return _context(modules)


def _context(modules: Collection[str]) -> ForkServerContext | SpawnContext:
    settings = {name: os.environ[name] for name in os.environ if name.startswith("FAULTLINE_")}
    if _State.settings not in (None, settings):
        return _SpawnContext()
    _State.settings, context = settings, _ForkServerContext()
    here = "faultline.simulator.processes"
    context.set_forkserver_preload([f"{here}.warm_process", *modules, f"{here}.interrupts_again"])
    # Its imports come before it handles interrupts. The tracker's start would unblock them.
    with interrupts_blocked():
        forkserver.ensure_running()
    return context


@contextmanager
def errors_hidden() -> Iterator[None]:
    """Discard what this process and those that it starts print on the standard error."""
    sys.stderr.flush()
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Keep processes that start within the context from running the caller's script again.

    Without a ``__main__`` guard, which notebooks and short scripts lack, each would start others.
    """
    names = vars(sys.modules["__main__"])
    hidden: dict[str, Any] = {name: names[name] for name in names.keys() & _SCRIPT}
    names.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        names.update(hidden)
