"""Plays the runs of a sweep on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from experiments.parallel import cores
from experiments.sweeps.environment import environment
from experiments.sweeps.nursery import Nursery, RunAbandonedError
from experiments.sweeps.nursery_process import Assignment
from experiments.sweeps.runs import Limits, RunRequest, RunResult

# Requests that are taken on for each worker: the one it plays, and the next.
_LOOK_AHEAD = 2

_Inbox = SimpleQueue[Assignment | None]
_Outbox = SimpleQueue[RunResult | BaseException]


class LocalExecutor:
    """Plays runs on this machine, as many at a time as there are workers.

    Parameters
    ----------
    workers : int, optional
        Runs at a time; as many as this process may use processors by default. The records do not
        depend on it.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()

    def play(self, requests: Iterable[RunRequest], limits: Limits) -> Iterator[RunResult]:
        """Play the requests, and yield each result as it comes, in any order.

        Requests are taken only as results are taken, so that there may be any number of them.
        Closing the iterator ends the runs that are under way.

        Raises
        ------
        UserError
            If this machine cannot play runs at all.
        """
        directory = str(Path.cwd())
        expected = environment()
        nurseries = [Nursery(expected) for _ in range(self.workers)]
        inbox: _Inbox = SimpleQueue()
        outbox: _Outbox = SimpleQueue()
        # Daemons: where this generator is never closed, the end of Python is not held up, and
        # that of the connections ends the nurseries.
        threads = [
            Thread(target=_tend, args=(nursery, inbox, outbox), daemon=True)
            for nursery in nurseries
        ]
        try:
            for thread in threads:
                thread.start()
            assignments = (Assignment(request, limits, directory) for request in requests)
            yield from _exchange(assignments, inbox, outbox, _LOOK_AHEAD * self.workers)
        finally:
            for nursery in nurseries:
                nursery.stop()
            for _ in threads:
                inbox.put(None)
            for thread in threads:
                thread.join()


def _tend(nursery: Nursery, inbox: _Inbox, outbox: _Outbox) -> None:
    try:
        while (assignment := inbox.get()) is not None:
            outbox.put(nursery.play(assignment))
    except RunAbandonedError:
        return
    except BaseException as error:  # Raised again where the results are waited for.
        outbox.put(error)


def _exchange(
    assignments: Iterator[Assignment], inbox: _Inbox, outbox: _Outbox, look_ahead: int
) -> Iterator[RunResult]:
    under_way = 0
    while True:
        for assignment in islice(assignments, look_ahead - under_way):
            inbox.put(assignment)
            under_way += 1
        if under_way == 0:
            return
        result = outbox.get()
        if isinstance(result, BaseException):
            raise result
        under_way -= 1
        yield result
