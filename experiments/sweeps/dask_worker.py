"""What a Dask worker does to play a run of a sweep. Its module is imported by the workers."""

from __future__ import annotations

from collections.abc import Callable
from threading import local

from distributed import Status, get_worker

from experiments.errors import UserError
from experiments.sweeps.environment import Environment
from experiments.sweeps.nursery import Nursery
from experiments.sweeps.nursery_process import Assignment
from experiments.sweeps.runs import RunResult

_CLOSING = (Status.closing, Status.closed, Status.failed)

_this_thread = local()


def play_on_worker(assignment: Assignment, expected: Environment, key: str) -> RunResult:
    """Play a run in the nursery of this thread of the worker.

    Parameters
    ----------
    assignment : Assignment
        What to play.
    expected : dict
        The environment of the machine that started the sweep.
    key : str
        Dask's name of this task; the run is ended when the task is cancelled.

    Raises
    ------
    UserError
        If runs cannot be played here, or their records would not agree; names the worker.
    """
    try:
        return _nursery(expected).play(assignment, _wanted(key))
    except UserError as error:
        raise UserError(f"worker {get_worker().address}: {error}") from error


def _nursery(expected: Environment) -> Nursery:
    """Return the nursery of this thread; the source may have changed since the last sweep."""
    nursery: Nursery | None = getattr(_this_thread, "nursery", None)
    if nursery is None or nursery.expected != expected:
        if nursery is not None:
            nursery.stop()
        nursery = _this_thread.nursery = Nursery(expected)
    return nursery


def _wanted(key: str) -> Callable[[], bool]:
    """Dask does not interrupt a task whose client has gone, but knows that it is of no use.

    A worker that closes waits for its tasks, though they are played elsewhere already.
    """
    worker = get_worker()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return worker.status not in _CLOSING and task is not None and task.state != "cancelled"

    return wanted
