"""A function over many arguments on all cores; results in the order of the arguments."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from experiments.parallel import cores

Argument = TypeVar("Argument")
Result = TypeVar("Result")


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
        What to call it with; those that take longest are best put last, as they are begun first.
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
