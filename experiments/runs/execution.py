"""Execution of many tasks, in memory or into a file, and the display of their progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import timedelta
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from faultline.experiments.config.distribution import with_extra
from faultline.experiments.config.errors import UserError
from faultline.experiments.progress import WorkProgress
from faultline.experiments.runs.executor import InThisProcess, RunExecutor, simulate_requests
from faultline.experiments.runs.local import LocalExecutor
from faultline.experiments.runs.point import Request, Task, cores
from faultline.experiments.runs.provenance import code_digest
from faultline.experiments.runs.store import open_store
from faultline.experiments.screen import text_column
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn


@contextmanager
def progress_of_runs(
    console: Console, name: str, total: int, before: int
) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of `total` runs, of which `before` already exist.

    Yields a function of the number of finished runs, and of the failed ones among them.
    """
    began_s = time.monotonic()
    columns = text_column("{task.description}"), BarColumn(), MofNCompleteColumn()
    pace = text_column("{task.fields[pace]}")
    with WorkProgress(*columns, pace, console=console, transient=True) as progress:
        task = progress.add_task(name, total=total, completed=before, pace="")
        if not console.is_terminal:
            console.print(f"{name}: {before} of {total} runs are there", soft_wrap=True)

        def update(done: int, failed: int) -> None:
            per_s = (done - before) / max(time.monotonic() - began_s, 1e-9)
            left = timedelta(seconds=round((total - done) / per_s)) if per_s > 0 else "-:--"
            pace = f"{per_s:.3g} runs/s, {left} left, {failed} failed"
            progress.update(task, completed=done, pace=pace)

        yield update


_kept_executor: ContextVar[RunExecutor | None] = ContextVar("kept_executor", default=None)


@contextmanager
def open_executor(
    workers: int | None = None, scheduler: str | None = None
) -> Iterator[RunExecutor]:
    """Open the workers of this machine or of a Dask scheduler, and end them afterwards.

    Parameters
    ----------
    workers : int, optional
        Number of processes on this machine; by default one per core.
    scheduler : str, optional
        Address of a scheduler, as ``tls://192.0.2.1:8786``; its workers execute the tasks.
    """
    executor: RunExecutor
    if scheduler is None:
        executor = LocalExecutor(workers)
    else:
        try:
            from faultline.experiments.runs.dask_cluster import DaskExecutor
        except ModuleNotFoundError as error:
            raise UserError(
                f"--scheduler: needs Dask, which is not installed; {with_extra('dask')}"
            ) from error
        executor = DaskExecutor(scheduler)
    try:
        yield executor
    finally:
        executor.shutdown()


@contextmanager
def workers_kept(workers: int | None = None, scheduler: str | None = None) -> Iterator[None]:
    """Let `simulate` use the same workers in each call within a ``with`` block."""
    with open_executor(workers, scheduler) as executor:
        token = _kept_executor.set(executor)
        try:
            yield
        finally:
            _kept_executor.reset(token)


def kept_workers_are_up() -> bool:
    """Return whether workers are kept and have started, so that a task need not wait for them."""
    kept = _kept_executor.get()
    return kept is not None and kept.is_up


def warm_up(task: Task) -> None:
    """Let each kept worker of this machine begin a task, and drop the results.

    Meanwhile this process goes on. The workers keep the platforms that they read for it.
    """
    kept = _kept_executor.get()
    if isinstance(kept, LocalExecutor) and cores() > 1:
        for _ in range(kept.workers):
            kept.submit(Request("", task))


def simulate(
    tasks: Sequence[Task],
    file: Path | None = None,
    *,
    workers: int | None = None,
    on_done: Callable[[], None] | None = None,
    on_value: Callable[[int, Any], None] | None = None,
) -> list[Any]:
    """Execute points or calls, and return their results in order.

    The results depend neither on the workers nor on the content of the file.

    Parameters
    ----------
    tasks : sequence of Point or Call
        The tasks; put the longest last, since the last starts first.
    file : Path, optional
        File that keeps each result as soon as it arrives. The same call then executes only tasks
        whose result is missing or was made by other source code.
    workers : int, optional
        Number of processes on this machine; by default one per core. A single task, or a single
        worker, needs no process of its own. Ignored if workers are kept (`workers_kept`).
    on_done : callable, optional
        Called in this process for each finished task, including those found in the file.
    on_value : callable, optional
        Called with the place of a task and its result, for those that are not found in the file.

    Returns
    -------
    list
        Records, after the labels of their points, or results of the functions.

    Raises
    ------
    UserError
        With the message of the first failed run. Results in the file are kept.
    RuntimeError
        With the traceback of a run that failed by a bug.
    """
    done_of_task = on_done or (lambda: None)
    names = [str(place) if file is None else task.key() for place, task in enumerate(tasks)]
    by_name = dict(zip(names, tasks, strict=True))
    places = {name: place for place, name in enumerate(names)}
    with nullcontext() if file is None else open_store(file) as store:
        values: dict[str, Any] = {}
        codes: dict[str, str] = {}
        if store is not None:
            codes = {source: code_digest(source) for source in {task.source for task in tasks}}
            for code in codes.values():
                values |= store.values(code)
        requests = [Request(name, task) for name, task in by_name.items() if name not in values]
        for _ in range(len(tasks) - len(requests)):
            done_of_task()
        with (
            _executor(workers, len(requests)) as executor,
            closing(simulate_requests(executor, requests[::-1])) as outcomes,
        ):
            for one in outcomes:
                if one.trace is not None:
                    raise RuntimeError(one.trace)
                if one.error is not None:
                    raise UserError(one.error)
                name, value = one.run_id, one.value
                if store is not None:
                    value = store.save_value(name, codes[by_name[name].source], value)
                values[name] = value
                if on_value is not None:
                    on_value(places[name], value)
                done_of_task()
        return [
            {**dict(task.labels), **values[name]} if task.labels else values[name]
            for name, task in zip(names, tasks, strict=True)
        ]


@contextmanager
def _executor(workers: int | None, tasks: int) -> Iterator[RunExecutor]:
    """Yield the kept executor, one of this machine, or this process if that suffices.

    A task that has tasks of its own executes them itself: its executor uses the other cores.
    """
    kept = _kept_executor.get()
    if kept is not None and workers != 1 and tasks > 1:
        yield kept
    elif min(workers or cores(), tasks) <= 1 or parent_process() is not None:
        yield InThisProcess()
    else:
        with open_executor(workers) as executor:
            yield executor
