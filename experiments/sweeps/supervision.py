"""Plays one run in a forked process group, within its limits, and leaves nothing of it behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import inf
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from time import monotonic
from typing import NoReturn

import psutil

from experiments.sweeps.playing import Played
from experiments.sweeps.runs import Limits
from platforms.units import SIZE, format_quantity

# Reading the memory of a process tree takes some milliseconds.
_MEMORY_INTERVAL_S = 0.25
_BINARY_SIZE = replace(SIZE, written=("GiB", "MiB", "KiB", "B"))


class OwnerGoneError(Exception):
    """Whoever asked for the run is no more."""


def supervise(play: Callable[[], Played], limits: Limits, owner: Connection) -> Played:
    """Play a run in a child process and return what came of it.

    To be called in a process with a single thread: the child is forked.

    Parameters
    ----------
    play : callable
        Plays the run; called in the child.
    limits : Limits
        What the child, and every process it starts, may use.
    owner : Connection
        Readable as soon as nobody waits for the run any longer.

    Raises
    ------
    OwnerGoneError
        If the owner ended; the run has been ended too.
    """
    receiving, sending = Pipe(duplex=False)
    child = os.fork()
    if child == 0:
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
        _silence()
        _be_first_when_memory_runs_out()
        sending.send(play())
        status = 0
    finally:
        # At once: what the nursery does on its exit is not to be done by its children.
        os._exit(status)


def _silence() -> None:
    """Send all that is printed nowhere: a line of one run in ten thousand helps nobody."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def _be_first_when_memory_runs_out() -> None:
    """Have the kernel end a run and not the sweep; inherited by what the run starts."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _watch(child: int, receiving: Connection, owner: Connection, limits: Limits) -> Played:
    deadline = inf if limits.time_s is None else monotonic() + limits.time_s
    interval_s = inf if limits.memory_bytes is None else _MEMORY_INTERVAL_S
    while True:
        pause_s = max(0.0, min(deadline - monotonic(), interval_s))
        ready = wait([receiving, owner], None if pause_s == inf else pause_s)
        if owner in ready:
            raise OwnerGoneError
        if receiving in ready:
            return _received(child, receiving)
        if limits.time_s is not None and monotonic() >= deadline:
            return Played(None, f"exceeded its time limit of {limits.time_s:.10g} s")
        if limits.memory_bytes is not None and _resident_bytes(child) > limits.memory_bytes:
            limit = _size(limits.memory_bytes)
            return Played(None, f"exceeded its memory limit of {limit}")


def _size(size_bytes: int) -> str:
    """Write a size in powers of 1000 or of 1024, as it was most likely given."""
    return min((format_quantity(size_bytes, kind) for kind in (SIZE, _BINARY_SIZE)), key=len)


def _received(child: int, receiving: Connection) -> Played:
    try:
        played: Played = receiving.recv()
    except (EOFError, OSError):
        # It died before it had sent anything, or in the middle of it.
        return Played(None, _cause_of_death(child))
    return played


def _cause_of_death(child: int) -> str:
    # Left unreaped: its number still names its group.
    death = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    if death is None or death.si_code == os.CLD_EXITED:
        return f"ended with exit status {death.si_status if death else 'unknown'} and no result"
    name = signal.Signals(death.si_status).name
    if name == "SIGKILL":
        return "died by SIGKILL: perhaps the machine ran out of memory"
    return f"died by {name}"


def _resident_bytes(child: int) -> int:
    """Resident memory of a process and all it started; what just ended counts for nothing."""
    resident_bytes = 0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(child)
        for member in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                resident_bytes += member.memory_info().rss
    return resident_bytes
