"""The one player of many runs: in memory or into a store, on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.local import LocalExecutor
from faultline.experiments.runs.point import (
    Executor,
    KnownDurations,
    Limits,
    Played,
    Request,
    Result,
    Results,
    Task,
    cores,
)
from faultline.experiments.runs.progress import Display
from faultline.experiments.runs.provenance import code_digest
from faultline.experiments.runs.sealed_json import seal, unseal
from faultline.experiments.runs.store import StoredRun, open_store
from rich.console import Console

NO_LIMITS = Limits()


def play(
    tasks: Sequence[Task],
    store: Path | None = None,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    limits: Limits = NO_LIMITS,
    on_done: Callable[[], None] | None = None,
    title: str | None = None,
) -> list[Any]:
    """Play points, or call functions, and return what comes of them, in their order.

    The result depends neither on the executor, nor on how much of it was in the store.

    Parameters
    ----------
    tasks : sequence of Point or Call
        What to play; what takes longest is best put last, as that is begun first.
    store : Path, optional
        A folder where results are kept as they come: the same call plays only what is missing,
        or was made by other source.
    workers : int, optional
        Runs at a time on this machine; as many as there are cores by default. A single one plays
        in this process.
    executor : Executor, optional
        Where to play instead, such as a `DaskExecutor`; in several rounds, one that is kept.
    limits : Limits
        What each run may use.
    on_done : callable, optional
        Called in this process for each task that is done, or was before.
    title : str, optional
        Shows under this name on stderr how far it has come.

    Returns
    -------
    list
        Records with the labels of their points before them, or what the functions returned.

    Raises
    ------
    UserError
        What the first run that failed said. What the store has by then stays there.
    RuntimeError
        If it failed by a mistake of the program; with its traceback.
    """
    console = Console(stderr=True)
    shown = console if title is not None else Console(quiet=True)
    done_of_task = on_done or (lambda: None)

    def collect(asked: list[Request], done: int, take: Callable[[Result], None]) -> None:
        if not asked:
            return
        results = _results(asked, workers, executor, limits)
        with closing(results), Display(shown, title or "", done + len(asked), done, 0) as display:
            for number, result in enumerate(results, done + 1):
                _raise_if_failed(result.played)
                take(result)
                display.update(number, 0)
                done_of_task()

    if store is None:
        values: dict[str, Any] = {}
        requests = [Request(str(place), task) for place, task in enumerate(tasks)]
        collect(
            requests[::-1], 0, lambda result: values.update({result.run_id: result.played.value})
        )
        return [_labelled(task, values[str(place)]) for place, task in enumerate(tasks)]

    names = [task.key() for task in tasks]
    by_name = dict(zip(names, tasks, strict=True))
    codes = {source: code_digest(source) for source in {task.source for task in tasks}}
    tell = tell_on(console)
    with open_store(store, by_name, tell, "folder") as kept:

        def keep(result: Result) -> None:
            code = codes[by_name[result.run_id].source]
            # As it will be read: what JSON makes of it.
            value = unseal(seal({"value": result.played.value}))["value"]
            kept.save(StoredRun(result.run_id, value, None, code, result.wall_s))

        kept.runs = {
            name: run
            for name, run in kept.runs.items()
            if run.code == codes[by_name[name].source] and not run.failed
        }
        kept.begin()
        for _ in range(len(tasks) - len(kept.missing())):
            done_of_task()
        missing = [Request(name, task) for name, task in by_name.items() if name not in kept.runs]
        collect(missing[::-1], len(kept.runs), keep)
        return [
            _labelled(by, kept.runs[name].record) for name, by in zip(names, tasks, strict=True)
        ]


def _results(
    asked: list[Request], workers: int | None, executor: Executor | None, limits: Limits
) -> Results:
    if executor is None and min(workers or cores(), len(asked)) <= 1 and limits == NO_LIMITS:
        known = KnownDurations()
        return (Result(request.run_id, request.task.play(known)) for request in asked)
    return (executor or LocalExecutor(workers)).play(asked, limits)


def _raise_if_failed(played: Played) -> None:
    if played.error is not None:
        if played.trace is not None:
            raise RuntimeError(played.trace)
        raise UserError(played.error)


def _labelled(task: Task, value: Any) -> Any:
    return {**dict(task.labels), **value} if task.labels else value


def tell_on(console: Console) -> Callable[[str], None]:
    """Return what prints a line as it is."""
    return lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True)
