"""Execution of many tasks, in memory or into a store, and the display of their progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from faultline.experiments.config.errors import UserError
from faultline.experiments.progress import WorkProgress
from faultline.experiments.runs.local import LocalExecutor
from faultline.experiments.runs.manifest import seal, unseal
from faultline.experiments.runs.point import (
    KnownDurations,
    Limits,
    Request,
    Results,
    RunOutcome,
    Task,
    cores,
)
from faultline.experiments.runs.provenance import code_digest
from faultline.experiments.runs.store import StoredRun, open_store
from faultline.experiments.screen import print_message, text_column
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


_kept_executor: ContextVar[LocalExecutor | None] = ContextVar("kept_executor", default=None)


@contextmanager
def workers_kept(workers: int | None = None) -> Iterator[None]:
    """Keep the workers of `simulate` from one call to the next within a ``with`` block."""
    with LocalExecutor(workers) as executor:
        token = _kept_executor.set(executor)
        try:
            yield
        finally:
            _kept_executor.reset(token)


def simulate(
    tasks: Sequence[Task],
    store: Path | None = None,
    *,
    workers: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> list[Any]:
    """Execute points or calls, and return their results in order.

    The results depend neither on the workers nor on the content of the store.

    Parameters
    ----------
    tasks : sequence of Point or Call
        The tasks; put the longest last, since the last starts first.
    store : Path, optional
        Folder that keeps each result as soon as it arrives. The same call then executes only tasks
        whose result is missing or was made by other source code.
    workers : int, optional
        Number of concurrent runs on this machine; by default one per core. A single run needs no
        process of its own.
    on_done : callable, optional
        Called in this process for each finished task, including those found in the store.

    Returns
    -------
    list
        Records, after the labels of their points, or results of the functions.

    Raises
    ------
    UserError
        With the message of the first failed run. Results in the store are kept.
    RuntimeError
        With the traceback of a run that failed by a bug.
    """
    done_of_task = on_done or (lambda: None)

    def collect(pending: list[Request], take: Callable[[RunOutcome], None]) -> None:
        with closing(_results(pending[::-1], workers)) as results:
            for result in results:
                if result.trace is not None:
                    raise RuntimeError(result.trace)
                if result.error is not None:
                    raise UserError(result.error)
                take(result)
                done_of_task()

    if store is None:
        values: dict[str, Any] = {}
        requests = [Request(str(place), task) for place, task in enumerate(tasks)]
        collect(requests, lambda result: values.update({result.run_id: result.value}))
        return [_labelled(task, values[str(place)]) for place, task in enumerate(tasks)]

    names = [task.key() for task in tasks]
    by_name = dict(zip(names, tasks, strict=True))
    codes = {source: code_digest(source) for source in {task.source for task in tasks}}
    with open_store(store, by_name, print_message, "folder") as kept:

        def keep(result: RunOutcome) -> None:
            code = codes[by_name[result.run_id].source]
            # After the round trip through JSON, it equals a value read from the store.
            value = unseal(seal({"value": result.value}))["value"]
            kept.save(StoredRun(result.run_id, value, None, code, result.wall_s))

        kept.runs = {
            name: run
            for name, run in kept.runs.items()
            if run.code == codes[by_name[name].source] and not run.failed
        }
        kept.begin()
        for _ in range(len(tasks) - len(kept.missing())):
            done_of_task()
        collect([Request(name, by_name[name]) for name in by_name if name not in kept.runs], keep)
        return [
            _labelled(by, kept.runs[name].record) for name, by in zip(names, tasks, strict=True)
        ]


def _results(pending: list[Request], workers: int | None) -> Results:
    if min(workers or cores(), len(pending)) <= 1:
        known = KnownDurations()
        return (replace(one.task.simulate(known), run_id=one.run_id) for one in pending)
    executor = _kept_executor.get()
    if executor is None or executor.workers != (workers or cores()):
        executor = LocalExecutor(workers)
    return executor.simulate(pending, Limits())


def _labelled(task: Task, value: Any) -> Any:
    return {**dict(task.labels), **value} if task.labels else value


def line_printer(console: Console) -> Callable[[str], None]:
    """Return a function that prints a line unchanged."""
    return lambda line: console.print(line, soft_wrap=True)
