"""Many runs on all cores, in an order that does not depend on the cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TypeVar

from experiments.resolve import Question
from experiments.single_run import Record, run_question

Argument = TypeVar("Argument")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Task:
    """One run to be done: a question, a seed, and labels that go into its record."""

    question: Question
    seed: int
    labels: tuple[tuple[str, str], ...] = ()


def cores() -> int:
    """Return the number of processors this process may use."""
    return len(os.sched_getaffinity(0))


def run_all(
    tasks: Sequence[Task],
    workers: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> list[Record]:
    """Run tasks on the replay engine and return their records in the order of the tasks.

    Parameters
    ----------
    tasks : sequence of Task
        What to run.
    workers : int, optional
        Worker processes; as many as there are cores by default. The records do not depend on it.
    on_done : callable, optional
        Called after each run, in this process.
    """
    return in_processes(_run, tasks, workers, on_done)


def in_processes(
    function: Callable[[Argument], Result],
    arguments: Sequence[Argument],
    workers: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> list[Result]:
    """Return ``[function(argument) for argument in arguments]``.

    Parameters
    ----------
    function : callable
        A function of a module, so that other processes find it.
    arguments : sequence
        What to call it with; what takes longest is best put last, as that is begun first.
    workers : int, optional
        Worker processes; as many as there are cores by default. The results do not depend on it.
    on_done : callable, optional
        Called after each, in this process.
    """
    done = on_done or (lambda: None)
    workers = min(workers or cores(), len(arguments))
    if workers <= 1:
        results = []
        for argument in arguments:
            results.append(function(argument))
            done()
        return results
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(function, argument) for argument in reversed(arguments)]
        try:
            for future in as_completed(futures):
                future.result()
                done()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in reversed(futures)]


def _run(task: Task) -> Record:
    return {**dict(task.labels), **run_question(task.question, task.seed)}
