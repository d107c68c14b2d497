"""Runs on this machine: the owner's side of fork servers, one per worker.

A fork server is a plain subprocess, so Dask's workers can start one too. It leads its own session,
so its owner can find all processes that it started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from multiprocessing.connection import Pipe
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from time import monotonic, sleep

from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.fork_server import Assignment, members
from faultline.experiments.runs.point import (
    KnownDurations,
    Limits,
    Request,
    Results,
    RunOutcome,
    attempt,
    cores,
)
from faultline.experiments.runs.provenance import Environment, difference, environment
from faultline.platforms.child_python import python_command

# An administrator, or a machine short of memory, may kill the same fork server again.
_ATTEMPTS = 4
# Interval of the checks whether a run is still wanted.
_WANTED_INTERVAL_S = 0.5
# Processes end within milliseconds of SIGTERM; after this time they are killed.
_GRACE_S = 2.0
# Linear algebra libraries start threads on import, and a fork copies only one thread.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# Requests in flight per worker: the current one and the next.
_LOOK_AHEAD = 2
_MOST_PER_CORE = 32


class LocalExecutor:
    """Executes runs on this machine, one per worker at a time.

    By default there is a worker per available processor. Records do not depend on the workers. In a
    ``with`` block, workers stay from one call to the next, as starting them takes seconds.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()
        self._keeps_servers = False
        self._kept: list[ForkServer] = []
        most = _MOST_PER_CORE * cores()
        if self.workers > most:
            raise UserError(
                f"--workers {self.workers}: each is a process of some 100 MB; use at most {most}, "
                f"{_MOST_PER_CORE} per core"
            )

    def __enter__(self) -> LocalExecutor:
        self._keeps_servers = True
        return self

    def __exit__(self, *_: object) -> None:
        self._keeps_servers = False
        _stop(self._kept)
        self._kept = []

    def simulate(self, requests: Iterable[Request], limits: Limits) -> Results:
        """Execute the requests; see `Executor`. A UserError if this machine cannot execute any."""
        directory = str(Path.cwd())
        expected = environment()
        servers = self._kept or [ForkServer(expected) for _ in range(self.workers)]
        self._kept = []
        idle: SimpleQueue[ForkServer] = SimpleQueue()
        for server in servers:
            idle.put(server)

        def execute(assignment: Assignment) -> RunOutcome:
            server = idle.get()
            try:
                return server.simulate(assignment)
            finally:
                idle.put(server)

        assignments = (Assignment(request, limits, directory) for request in requests)
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                first = islice(assignments, _LOOK_AHEAD * self.workers)
                pending = {pool.submit(execute, assignment) for assignment in first}
                while pending:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        pending |= {pool.submit(execute, one) for one in islice(assignments, 1)}
                        yield future.result()
                if self._keeps_servers:
                    self._kept = servers
            finally:
                if not self._kept:
                    _stop(servers)


def _stop(servers: Iterable[ForkServer]) -> None:
    for server in servers:
        server.stop()


class InThisProcess:
    """Executes runs one after the other in this process, without limits."""

    def simulate(self, requests: Iterable[Request], limits: Limits) -> Results:
        """Execute the requests; see `Executor`."""
        known = KnownDurations()
        for request in requests:
            began_s = monotonic()
            simulated = attempt(request.task, known)
            if simulated.learned is not None:
                known.learn(*simulated.learned)
            wall_s = monotonic() - began_s
            yield replace(simulated, learned=None, run_id=request.run_id, wall_s=wall_s)


class RunAbandonedError(Exception):
    """The run was ended, because its result is no longer wanted."""


class ForkServer:
    """Executes runs, one at a time, in children of a process that is replaced if it fails.

    The process must have the expected environment, so that records agree.
    """

    def __init__(self, expected: Environment) -> None:
        self.expected = expected
        self._lock = Lock()
        self._stopped = False
        self._process: _Process | None = None

    def simulate(
        self, assignment: Assignment, wanted: Callable[[], bool] = lambda: True
    ) -> RunOutcome:
        """Execute a run; retry a few times if the fork server fails meanwhile.

        `wanted` is called periodically; the run ends if it returns False. A run ended by this or by
        `stop` is a RunAbandonedError. It is a UserError if no process can be started here, or if
        its environment differs.
        """
        began_s = monotonic()
        for _ in range(_ATTEMPTS):
            process = self._running_process()
            try:
                process.connection.send(assignment)
                while not process.connection.poll(_WANTED_INTERVAL_S):
                    if not wanted():
                        raise RunAbandonedError
                result: RunOutcome = process.connection.recv()
                return result
            except (EOFError, OSError):
                self._discard(process)
            except BaseException:
                self._discard(process)
                raise
        error = f"its supervising process failed {_ATTEMPTS} times"
        run_id, wall_s = assignment.request.run_id, monotonic() - began_s
        return RunOutcome(None, error, run_id=run_id, wall_s=wall_s)

    def stop(self) -> None:
        """End the process and all it started, permanently; any thread may call this."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.end()

    def _running_process(self) -> _Process:
        """Return the process, and start it first if there is none."""
        status = 0
        for _ in range(_ATTEMPTS):
            with self._lock:
                self._check_not_stopped()
                if self._process is not None:
                    return self._process
                process = self._process = _Process()
            # The start takes a while, and `stop` needs the lock meanwhile.
            try:
                process.check(self.expected)
                return process
            except (EOFError, OSError):
                status = self._discard(process)
            except BaseException:
                self._discard(process)
                raise
            if status > 0:  # Only a killed process is worth a retry.
                break
        how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
        raise UserError(
            f"{sys.executable}: the process that executes runs ended at its start, {how}"
        )

    def _discard(self, process: _Process) -> int:
        """End a failed process and return its exit status."""
        with self._lock:
            status = process.end()
            process.connection.close()
            self._process = None
            self._check_not_stopped()
            return status

    def _check_not_stopped(self) -> None:
        if self._stopped:
            raise RunAbandonedError


class _Process:
    """A started process, and the connection to it."""

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        self._ended = False
        code = f"from faultline.experiments.runs.fork_server import serve; serve({theirs.fileno()})"
        try:
            self._process = subprocess.Popen(
                python_command(code),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | _ONE_THREAD,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(
                f"{sys.executable}: cannot start a process for runs: {error.strerror}"
            ) from error
        finally:
            theirs.close()

    def check(self, expected: Environment) -> None:
        differs = difference(expected, self.connection.recv())
        if differs is not None:
            raise UserError(
                f"{os.uname().nodename}: {differs}, so records would not agree; install the same "
                "versions everywhere, and do not edit the source during a sweep"
            )

    def end(self) -> int:
        if not self._ended:
            _end_session(self._process.pid)
            # Reaped last: until then no other process can have its number.
            self._process.wait()
            self._ended = True
        return self._process.returncode


def _end_session(leader: int) -> None:
    """End all processes of a session.

    SIGTERM comes first: the resource tracker of `multiprocessing` ignores it, and removes the
    shared memory of the other processes after they have ended.
    """
    for request in (signal.SIGTERM, signal.SIGKILL):
        deadline = monotonic() + _GRACE_S
        # A process may start another one before it ends.
        while (found := members(leader, os.getsid)) and monotonic() < deadline:
            for member in found:
                with suppress(ProcessLookupError):
                    os.kill(member.pid, request)
            sleep(0.005)
