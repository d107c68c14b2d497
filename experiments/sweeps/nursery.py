"""A nursery as its owner sees it: a place where runs are played, one at a time, each in a process.

The process of a nursery has imported everything, so that a run costs a fork and not a start of
Python; it is a plain subprocess, so that Dask's workers, which may not have children of
`multiprocessing`, can have it too. It leads a session of its own, by which all that it started is
found again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Pipe
from threading import Lock
from time import monotonic, sleep

import psutil

from experiments.errors import UserError
from experiments.sweeps.environment import Environment, difference
from experiments.sweeps.nursery_process import Assignment
from experiments.sweeps.runs import RunResult

_ATTEMPTS = 2
# How often somebody is asked whether the run is still wanted.
_WANTED_INTERVAL_S = 0.5
# Processes that are asked to end do so in milliseconds; after this they are killed.
_GRACE_S = 2.0
# One thread: linear algebra libraries start theirs on import, and a fork copies only one.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class RunAbandonedError(Exception):
    """The run was ended, because nobody wants it any longer."""


def _always() -> bool:
    return True


class Nursery:
    """Plays runs in a process that is started when first needed, and replaced when it dies.

    Parameters
    ----------
    expected : dict
        The environment that its process must have, for records to agree.
    """

    def __init__(self, expected: Environment) -> None:
        self.expected = expected
        self._lock = Lock()
        self._stopped = False
        self._process: _NurseryProcess | None = None

    def play(self, assignment: Assignment, wanted: Callable[[], bool] = _always) -> RunResult:
        """Play a run; if the nursery's process dies meanwhile, once more.

        Parameters
        ----------
        assignment : Assignment
            What to play.
        wanted : callable
            Asked now and then; False ends the run.

        Raises
        ------
        RunAbandonedError
            If the run was ended by `stop`, or since it was not wanted.
        UserError
            If no process can be started here, or only one with another environment.
        """
        started = monotonic()
        for _ in range(_ATTEMPTS):
            process = self._running_process()
            try:
                return process.ask(assignment, wanted)
            except (EOFError, OSError):
                self._discard(process)
            except BaseException:
                self._discard(process)
                raise
        error = f"the process that watched over it died, {_ATTEMPTS} times"
        return RunResult(assignment.request.run_id, None, error, monotonic() - started)

    def stop(self) -> None:
        """End the process and all it started, for good; may be called from any thread."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.end()

    def _running_process(self) -> _NurseryProcess:
        with self._lock:
            self._check_not_stopped()
            if self._process is not None:
                return self._process
            process = self._process = _NurseryProcess()
        # Outside of the lock: importing takes a while, in which `stop` may be called.
        try:
            process.check(self.expected)
        except (EOFError, OSError) as error:
            status = self._discard(process)
            raise UserError(
                f"{sys.executable}: the process that is to play runs ended at its start, {status}"
            ) from error
        except BaseException:
            self._discard(process)
            raise
        return process

    def _discard(self, process: _NurseryProcess) -> str:
        """End a process that is no longer good, and say how it ended."""
        with self._lock:
            process.end()
            process.connection.close()
            self._process = None
            self._check_not_stopped()
            return process.ending()

    def _check_not_stopped(self) -> None:
        if self._stopped:
            raise RunAbandonedError


class _NurseryProcess:
    """A started process, and the connection to it."""

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        self._ended = False
        # The owner's module path, and nothing before it: `-m` would look into the working
        # directory first, where a folder of the same name may lie.
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from experiments.sweeps.nursery_process import serve; serve({theirs.fileno()})"
        )
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | _ONE_THREAD,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(
                f"{sys.executable}: cannot start a process to play runs in: {error.strerror}"
            ) from error
        finally:
            theirs.close()

    def check(self, expected: Environment) -> None:
        found = self.connection.recv()
        differs = difference(expected, found)
        if differs is not None:
            raise UserError(
                f"{os.uname().nodename}: {differs}, so records would not agree; install the same "
                "everywhere, and leave the source alone while a sweep is under way"
            )

    def ask(self, assignment: Assignment, wanted: Callable[[], bool]) -> RunResult:
        self.connection.send(assignment)
        while not self.connection.poll(_WANTED_INTERVAL_S):
            if not wanted():
                raise RunAbandonedError
        result: RunResult = self.connection.recv()
        return result

    def end(self) -> None:
        if not self._ended:
            _end_session(self._process.pid)
            # Reaped last: until then no other process can have its number.
            self._process.wait()
            self._ended = True

    def ending(self) -> str:
        status = self._process.returncode
        return f"by signal {-status}" if status < 0 else f"with exit status {status}"


def _end_session(session: int) -> None:
    """End all processes of a session.

    They are asked first: `multiprocessing` has one that ignores this, and which removes what the
    others leave in shared memory once they are gone.
    """
    for request, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        deadline = monotonic() + patience_s
        # More than once: a process may start another one while it is being ended.
        while (members := _members(session)) and monotonic() < deadline:
            for member in members:
                with suppress(ProcessLookupError):
                    os.kill(member, request)
            sleep(0.005)


def _members(session: int) -> list[int]:
    """Return the processes of a session that still run."""
    members = []
    for number in psutil.pids():
        # Ended in between, or hidden from us as no process of ours can be.
        with suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(number) != session:
                continue
            if psutil.Process(number).status() != psutil.STATUS_ZOMBIE:
                members.append(number)
    return members
