"""The process in which a nursery raises its runs: it has imported everything, and forks.

It has one thread, plays none of the runs that are asked for itself, and creates no SimGrid engine,
so that each forked child starts from the same clean state, in milliseconds.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from time import monotonic

from experiments.sweeps.environment import environment
from experiments.sweeps.playing import KnownDurations, play
from experiments.sweeps.runs import Limits, RunRequest, RunResult
from experiments.sweeps.supervision import OwnerGoneError, supervise
from platforms.errors import PlatformError

# Some packages import the half of themselves when it is first used: better here, once, than in
# every child.
_SHORT_RUN = RunRequest("", {"job": {"steps": 1}}, 0, "replay")


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a nursery is asked to do.

    Attributes
    ----------
    request : RunRequest
        The run.
    limits : Limits
        What it may use.
    directory : str
        Relative paths of the scenario start here.
    """

    request: RunRequest
    limits: Limits
    directory: str


def serve(descriptor: int) -> None:
    """Greet with this process's environment, then play one assignment after the other.

    Parameters
    ----------
    descriptor : int
        File descriptor of the connection to the owner. Its end is the end of this process, and of
        all it started: so nothing outlives an owner, however that died.
    """
    owner = Connection(descriptor)
    _start_resource_tracker()
    known = KnownDurations()
    play(_SHORT_RUN, known)
    # Pages that the collector never touches stay shared with the children.
    gc.collect()
    gc.freeze()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, OwnerGoneError):
        owner.send(environment())
        while True:
            owner.send(_play(owner.recv(), known, owner))


def _play(assignment: Assignment, known: KnownDurations, owner: Connection) -> RunResult:
    request = assignment.request
    _enter(assignment.directory)
    started = monotonic()
    played = supervise(partial(play, request, known), assignment.limits, owner)
    wall_s = monotonic() - started
    if played.learned is not None:
        # The platform was sound a moment ago; where it no longer is, the next run says so.
        with suppress(OSError, ValueError, PlatformError):
            known.learn(*played.learned)
    return RunResult(request.run_id, played.record, played.error, wall_s)


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError:
        # Not on this machine. Where we are, a relative path might name some other file.
        os.chdir("/")


def _start_resource_tracker() -> None:
    """Start the process that tidies up after `multiprocessing`, before there are children.

    A child would start its own, which would be killed with it. This one outlives them, and removes
    the semaphores of those that were killed, without the warning that it did so.
    """
    with _silent_errors():
        resource_tracker.ensure_running()


@contextmanager
def _silent_errors() -> Iterator[None]:
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
