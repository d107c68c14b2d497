"""A process that has imported everything and forks a child for each run.

It has one thread and creates no SimGrid engine. So each child starts from the same clean state,
within milliseconds. The fork server of `multiprocessing` does not fit: its children outlive a
killed owner, and Dask's workers, which are daemons, cannot start one.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from math import inf
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from time import monotonic
from typing import NoReturn

import psutil
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.runs.point import (
    KnownDurations,
    Limits,
    Point,
    Request,
    RunOutcome,
    attempt,
)
from faultline.experiments.runs.provenance import environment
from faultline.platforms.errors import PlatformError
from faultline.platforms.units import SIZE, format_quantity
from faultline.simulator.processes.process import Call, fork_from_here, leave_platforms_to

# Reading the memory of a process group takes some milliseconds.
_MEMORY_INTERVAL_S = 0.25
_BINARY_SIZE = replace(SIZE, written=("GiB", "MiB", "KiB", "B"))


class OwnerGoneError(Exception):
    """The process that requested the run has ended."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task of a fork server: a request, its limits, and its working directory."""

    request: Request
    limits: Limits
    directory: str


def serve(descriptor: int) -> None:
    """Send this process's environment, then execute one assignment after the other.

    `descriptor` is the connection to the owner. If it closes, this process ends, with all that it
    started. So no process outlives an owner, even a killed one.
    """
    owner = Connection(descriptor)
    _start_resource_tracker()
    fork_from_here()
    known = KnownDurations()
    # If SimGrid is missing, its own runs report that.
    with suppress(ImportError):
        import_module("faultline.simulator.processes.warm_process")
    # Schemes and packages import parts on first use: once here instead of in each child.
    import_module("scipy.optimize")
    attempt(Point(Scenario.model_validate({"job": {"steps": 1}})), known)
    # Pages that the collector never touches stay shared with the children.
    gc.collect()
    gc.freeze()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, OwnerGoneError):
        owner.send(environment())
        while True:
            owner.send(_simulate(owner.recv(), known, owner))


def _simulate(assignment: Assignment, known: KnownDurations, owner: Connection) -> RunOutcome:
    request = assignment.request
    try:
        os.chdir(assignment.directory)
    except OSError:
        # If the directory is missing here, a relative path must not name some other file.
        os.chdir("/")
    began_s = monotonic()
    if isinstance(request.task, Point):
        request.task.read_ahead()
    simulated = supervise(partial(attempt, request.task, known), assignment.limits, owner)
    wall_s = monotonic() - began_s
    if simulated.learned is not None:
        # The platform may have changed since the run; the next run reports that.
        with suppress(OSError, ValueError, PlatformError):
            known.learn(*simulated.learned)
    return replace(simulated, learned=None, run_id=request.run_id, wall_s=wall_s)


def _start_resource_tracker() -> None:
    """Start the resource tracker of `multiprocessing` before the first fork.

    A child would start its own, which would be killed with it. This one outlives the children and
    removes the semaphores of killed ones. Its messages are discarded.
    """
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    resource_tracker.ensure_running()
    os.dup2(stderr, 2)
    os.close(stderr)
    os.close(null)


def supervise(simulate: Callable[[], RunOutcome], limits: Limits, owner: Connection) -> RunOutcome:
    """Execute one run in a forked process group, and end the whole group afterwards.

    The calling process must have a single thread. Limits apply to the child, which calls
    `simulate`, and to all that it starts. The connection to the owner becomes readable if the owner
    ends: then this ends the run and raises an OwnerGoneError.
    """
    receiving, sending = Pipe()
    child = os.fork()
    if child == 0:
        if limits == Limits():
            # Under limits, a run simulates its platform itself, so that the limits apply.
            leave_platforms_to(sending)
        _be_the_child(simulate, sending, (owner, receiving))
    sending.close()
    # Parent and child both do this, so that the group exists whichever runs first.
    with suppress(OSError):
        os.setpgid(child, child)
    try:
        return _watch(child, receiving, owner, limits)
    finally:
        # Until the child is reaped, no other process can have its number.
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        receiving.close()


def _be_the_child(
    simulate: Callable[[], RunOutcome], sending: Connection, not_ours: tuple[Connection, ...]
) -> NoReturn:
    status = 1
    try:
        os.setpgid(0, 0)
        for connection in not_ours:
            connection.close()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.close(null)
        # Out of memory, the kernel should kill a run and its children rather than the sweep.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        sending.send(simulate())
        status = 0
    finally:
        # A child must skip the exit handlers of the fork server.
        os._exit(status)


def _watch(child: int, receiving: Connection, owner: Connection, limits: Limits) -> RunOutcome:
    deadline = inf if limits.time_s is None else monotonic() + limits.time_s
    interval_s = inf if limits.memory_bytes is None else _MEMORY_INTERVAL_S
    while True:
        pause_s = max(0.0, min(deadline - monotonic(), interval_s))
        ready = wait([receiving, owner], None if pause_s == inf else pause_s)
        if owner in ready:
            raise OwnerGoneError
        if receiving in ready:
            try:
                message: Call | RunOutcome = receiving.recv()
                if isinstance(message, RunOutcome):
                    return message
                receiving.send(message.run())
            except (EOFError, OSError):
                return RunOutcome(None, _cause_of_end(child))
        if limits.time_s is not None and monotonic() >= deadline:
            return RunOutcome(None, f"exceeded its time limit of {limits.time_s:.10g} s")
        if limits.memory_bytes is not None and _resident_bytes(child) > limits.memory_bytes:
            # The shorter of GB and GiB is most likely the user's unit.
            sizes = (format_quantity(limits.memory_bytes, kind) for kind in (SIZE, _BINARY_SIZE))
            return RunOutcome(None, f"exceeded its memory limit of {min(sizes, key=len)}")


def _cause_of_end(child: int) -> str:
    # The child stays unreaped: its number still names its group.
    end = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    if end is None or end.si_code == os.CLD_EXITED:
        return f"ended with exit status {end.si_status if end else 'unknown'} and no result"
    name = signal.Signals(end.si_status).name
    reason = ": perhaps the machine ran out of memory" if name == "SIGKILL" else ""
    return f"ended by {name}{reason}"


def _resident_bytes(group: int) -> int:
    """Return the resident memory of a process group; ended processes do not count."""
    resident_bytes = 0
    for member in members(group, os.getpgid):
        with suppress(psutil.Error):
            resident_bytes += member.memory_info().rss
    return resident_bytes


def members(leader: int, leader_of: Callable[[int], int]) -> list[psutil.Process]:
    """Return the running processes of a group or session.

    `leader_of` is `os.getpgid` or `os.getsid`.
    """
    found = []
    for number in psutil.pids():
        # It has ended, or is hidden and so belongs to another user.
        with suppress(ProcessLookupError, PermissionError, psutil.Error):
            if leader_of(number) == leader:
                process = psutil.Process(number)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
    return found
