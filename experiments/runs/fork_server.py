"""The process that runs are forked from: it has imported everything, and executes none itself.

It has one thread and creates no SimGrid engine, so that each forked child starts from the same
clean state, in milliseconds. `multiprocessing` has a fork server too, but there what was forked
lives on when its owner is killed, and Dask's workers, which are daemons, may not have one.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
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
    Played,
    Point,
    Request,
    Result,
    attempt,
)
from faultline.experiments.runs.provenance import environment
from faultline.platforms.errors import PlatformError
from faultline.platforms.units import SIZE, format_quantity
from faultline.simulator.simgrid_engine.process import Call, fork_from_here, leave_platforms_to

# Reading the memory of a process tree takes some milliseconds.
_MEMORY_INTERVAL_S = 0.25
_BINARY_SIZE = replace(SIZE, written=("GiB", "MiB", "KiB", "B"))
_OWN_ENTRY = Path("/proc/self")
_KILLED = "died by SIGKILL: perhaps the machine ran out of memory"
# A run that is killed sooner than it can have filled the memory is played again, so many times.
_START_S = 1.0
_STARTS = 5


class OwnerGoneError(Exception):
    """The process that requested the run has ended."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task of a fork server: a request, within limits, in a directory."""

    request: Request
    limits: Limits
    directory: str


def serve(descriptor: int) -> None:
    """Send this process's environment, then run one assignment after the other.

    The file descriptor is of the connection to the owner. Its end is the end of this process, and
    of all it started: so nothing outlives an owner, however that died.
    """
    owner = Connection(descriptor)
    _start_resource_tracker()
    fork_from_here()
    known = KnownDurations()
    # If SimGrid is missing, runs on it report that.
    with suppress(ImportError):
        import_module("faultline.simulator.simgrid_engine.warm_process")
    # Some packages import the half of themselves when first used: better once than in every child.
    attempt(Point(Scenario.model_validate({"job": {"steps": 1}})), known)
    # Pages that the collector never touches stay shared with the children.
    gc.collect()
    gc.freeze()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, OwnerGoneError):
        owner.send(environment())
        while True:
            owner.send(_play(owner.recv(), known, owner))


def _play(assignment: Assignment, known: KnownDurations, owner: Connection) -> Result:
    request = assignment.request
    try:
        os.chdir(assignment.directory)
    except OSError:
        # Not on this machine. Where we are, a relative path might name some other file.
        os.chdir("/")
    began_s = monotonic()
    if isinstance(request.task, Point):
        request.task.read_ahead()
    starts = 0
    while True:
        starts += 1
        started_s = monotonic()
        played = supervise(partial(attempt, request.task, known), assignment.limits, owner)
        late = monotonic() - started_s > _START_S
        if played.error != _KILLED or late or starts == _STARTS:
            break
    wall_s = monotonic() - began_s
    if played.learned is not None:
        # The platform was sound a moment ago; where it no longer is, the next run says so.
        with suppress(OSError, ValueError, PlatformError):
            known.learn(*played.learned)
    return Result(request.run_id, replace(played, learned=None), wall_s)


def _start_resource_tracker() -> None:
    """Start the process that tidies up after `multiprocessing`, before there are children.

    A child would start its own, which would be killed with it. This one outlives them, and removes
    the semaphores of those that were killed; that it did so, it need not tell.
    """
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    resource_tracker.ensure_running()
    os.dup2(kept, 2)
    os.close(kept)
    os.close(nowhere)


def supervise(play: Callable[[], Played], limits: Limits, owner: Connection) -> Played:
    """Play one run in a forked process group, and leave nothing of it behind.

    To be called in a process with a single thread: the child is forked, and calls `play`. Limits
    are of all that it starts, too. The connection to the owner is readable as soon as nobody waits
    for the run any longer.

    Raises
    ------
    OwnerGoneError
        If the owner ended; the run has been ended too.
    """
    receiving, sending = Pipe()
    child = os.fork()
    if child == 0:
        if limits == Limits():
            # What a limited run measures is to count as its own.
            leave_platforms_to(sending)
        _be_the_child(play, sending, (owner, receiving))
    sending.close()
    # Done by parent and child: whichever runs first, the group is there for both.
    with suppress(OSError):
        os.setpgid(child, child)
    try:
        return _watch(child, receiving, owner, limits)
    finally:
        # Before the child is reaped, so that no other process can have its number.
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        receiving.close()


def _be_the_child(
    play: Callable[[], Played], sending: Connection, not_ours: tuple[Connection, ...]
) -> NoReturn:
    status = 1
    try:
        os.setpgid(0, 0)
        for connection in not_ours:
            connection.close()
        # Output is discarded: a line of one run in ten thousand is of no use.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        os.close(nowhere)
        # The kernel is to end a run and not the whole; inherited by what the run starts.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        sending.send(play())
        status = 0
    finally:
        # At once: what the fork server does on its exit is not to be done by its children.
        os._exit(status)


def _watch(child: int, receiving: Connection, owner: Connection, limits: Limits) -> Played:
    deadline = inf if limits.time_s is None else monotonic() + limits.time_s
    interval_s = inf if limits.memory_bytes is None else _MEMORY_INTERVAL_S
    while True:
        pause_s = max(0.0, min(deadline - monotonic(), interval_s))
        ready = wait([receiving, owner], None if pause_s == inf else pause_s)
        if owner in ready:
            raise OwnerGoneError
        if receiving in ready:
            try:
                message: Call | Played = receiving.recv()
                if isinstance(message, Played):
                    return message
                receiving.send(message.run())
            except (EOFError, OSError):
                # It died before it had sent anything, or in the middle of it.
                return Played(None, _cause_of_death(child))
        if limits.time_s is not None and monotonic() >= deadline:
            return Played(None, f"exceeded its time limit of {limits.time_s:.10g} s")
        if limits.memory_bytes is not None and _resident_bytes(child) > limits.memory_bytes:
            # In powers of 1000 or of 1024, as it was most likely given.
            sizes = (format_quantity(limits.memory_bytes, kind) for kind in (SIZE, _BINARY_SIZE))
            return Played(None, f"exceeded its memory limit of {min(sizes, key=len)}")


def _cause_of_death(child: int) -> str:
    # Left unreaped: its number still names its group.
    death = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    if death is None or death.si_code == os.CLD_EXITED:
        return f"ended with exit status {death.si_status if death else 'unknown'} and no result"
    name = signal.Signals(death.si_status).name
    return _KILLED if name == "SIGKILL" else f"died by {name}"


def _resident_bytes(group: int) -> int:
    """Resident memory of a process group; what just ended counts for nothing."""
    resident_bytes = 0
    for member in members(group, os.getpgid):
        with suppress(psutil.Error):
            resident_bytes += member.memory_info().rss
    return resident_bytes


def members(leader: int, leader_of: Callable[[int], int]) -> list[psutil.Process]:
    """Return the running processes of a process group or session; none if no list is readable.

    Parameters
    ----------
    leader : int
        Number of the group or session.
    leader_of : callable
        `os.getpgid` or `os.getsid`. Both work for processes whose files in /proc are not readable.
    """
    found = []
    for number in process_numbers() or ():
        # Ended in between, or hidden from us as no process of ours can be.
        with suppress(ProcessLookupError, PermissionError, psutil.Error):
            if leader_of(number) == leader:
                process = psutil.Process(number)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
    return found


def process_numbers() -> list[int] | None:
    """Return the numbers of all processes, or None if /proc does not list those of this process.

    It may be unmounted, unreadable, or show the processes of another container.
    """
    try:
        numbers = psutil.pids()
        own = int(_OWN_ENTRY.readlink().name) if sys.platform == "linux" else os.getpid()
    except (OSError, IndexError):
        return None
    return numbers if own == os.getpid() else None
