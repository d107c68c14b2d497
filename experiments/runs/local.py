"""Workers on this machine, which pebble starts, replaces, and stops when their time is over."""

from __future__ import annotations

import signal
import sys
from concurrent.futures import Future
from threading import Lock

from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.executor import LostError
from faultline.experiments.runs.point import Request, RunOutcome, cores
from faultline.experiments.runs.worker import begin, perform
from faultline.simulator.processes.contexts import worker_context
from pebble import ProcessExpired, ProcessPool

_MOST_PER_CORE = 32
_WITH_TASKS = "faultline.experiments.planner.simulation", "faultline.experiments.studies."


class LocalExecutor:
    """Executes tasks in processes of this machine, by default one per available processor.

    A worker serves one task after the other. A lost worker is replaced.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()
        self.in_flight = 2 * self.workers  # The current task of a worker, and its next one.
        self._pool: ProcessPool | None = None
        self._lock = Lock()  # Threads of a Dask worker share an executor.
        most = _MOST_PER_CORE * cores()
        if self.workers > most:
            raise UserError(
                f"--workers {self.workers}: each is a process of some 100 MB; use at most {most}, "
                f"{_MOST_PER_CORE} per core"
            )
        worker_context(*_used_by_tasks())  # The fork server imports while this process goes on.

    @property
    def is_up(self) -> bool:
        """Whether its workers have started."""
        return self._pool is not None

    def submit(self, request: Request) -> Future[RunOutcome]:
        """Begin a task; see `RunExecutor`."""
        with self._lock:
            if self._pool is None or not self._pool.active:
                self._pool = ProcessPool(
                    self.workers, initializer=begin, context=worker_context(*_used_by_tasks())
                )
            return self._pool.schedule(perform, (request,), timeout=request.limits.time_s)

    def outcome(self, future: Future[RunOutcome]) -> RunOutcome:
        """Return the outcome of a task; see `RunExecutor`."""
        try:
            return future.result()
        except ProcessExpired as error:
            raise LostError(_cause_of_end(error.exitcode)) from error

    def shutdown(self) -> None:
        """End all workers, and their tasks."""
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()
            self._pool = None


def _used_by_tasks() -> list[str]:
    """Return the modules that a worker needs for a run, and those with functions of tasks."""
    of_tasks = [name for name in sys.modules if name.startswith(_WITH_TASKS)]
    return ["faultline.experiments.runs.worker", *of_tasks]


def _cause_of_end(status: int) -> str:
    if status >= 0:
        return f"its worker ended with exit status {status}"
    name = signal.Signals(-status).name
    reason = " (perhaps the machine ran out of memory)" if name == "SIGKILL" else ""
    return f"its worker was ended by {name}{reason}"
