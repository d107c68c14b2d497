"""Plays the runs of a sweep on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from uuid import uuid4

from distributed import CancelledError, Client, Future, KilledWorker
from distributed import TimeoutError as DaskTimeoutError

from experiments.errors import UserError
from experiments.sweeps.dask_connection import (
    ClusterSize,
    connected,
    reason,
    wait_until_connected,
)
from experiments.sweeps.dask_worker import play_on_worker
from experiments.sweeps.environment import environment
from experiments.sweeps.nursery_process import Assignment
from experiments.sweeps.runs import Limits, RunRequest, RunResult

# Runs that are submitted at once: enough for an adaptive cluster to see that there is work, and
# for each thread to have its next run at hand.
_LEAST_LOOK_AHEAD = 256
_LOOK_AHEAD_PER_THREAD = 4
# How often the cluster is looked at while no results come.
_INTERVAL_S = 1.0
# For a result to come over from the worker that has it.
_FETCH_S = 10.0


class DaskExecutor:
    """Plays runs on the workers of a Dask cluster, one for each of their threads.

    Parameters
    ----------
    scheduler_address : str
        Where its scheduler listens, like ``tcp://192.0.2.1:8786``.
    """

    def __init__(self, scheduler_address: str) -> None:
        self.scheduler_address = scheduler_address

    def play(self, requests: Iterable[RunRequest], limits: Limits) -> Iterator[RunResult]:
        """Play the requests, and yield each result as it comes, in any order.

        Runs of a worker that is lost are played by others; one that loses worker after worker
        gives a result with an error. Closing the iterator ends the runs that are under way.

        Raises
        ------
        UserError
            If there is no scheduler or it is lost for good, or a worker cannot play runs that
            agree with those of this machine.
        """
        directory = str(Path.cwd())
        assignments = (Assignment(request, limits, directory) for request in requests)
        with connected(self.scheduler_address) as client:
            yield from _Submissions(client, self.scheduler_address, assignments).results()


class _Submissions:
    """Keeps a bounded number of runs submitted, and collects what comes of them."""

    def __init__(self, client: Client, address: str, assignments: Iterator[Assignment]) -> None:
        self._client = client
        self._address = address
        self._assignments = assignments
        self._expected = environment()
        self._size = ClusterSize(client, address)
        self._under_way: dict[str, tuple[Assignment, Future[RunResult]]] = {}
        self._done: SimpleQueue[str] = SimpleQueue()

    def results(self) -> Iterator[RunResult]:
        """Yield the results of all assignments; cancels what is under way when closed."""
        try:
            while True:
                wait_until_connected(self._client, self._address)
                self._look_ahead()
                if not self._under_way:
                    return
                yield from self._next_result()
        finally:
            with suppress(Exception):  # Without a scheduler there is nothing to cancel.
                self._client.cancel([future for _, future in self._under_way.values()])

    def _look_ahead(self) -> None:
        wanted = max(_LEAST_LOOK_AHEAD, _LOOK_AHEAD_PER_THREAD * self._size.threads())
        for assignment in islice(self._assignments, max(0, wanted - len(self._under_way))):
            self._submit(assignment)

    def _submit(self, assignment: Assignment) -> None:
        # One name a submission: a run that is submitted again must not be taken for the old one.
        # Up to the hyphen, names are the same, by which Dask knows them as many of one kind.
        key = f"faultline_run-{uuid4().hex}"
        future = self._client.submit(
            play_on_worker, assignment, self._expected, key, key=key, pure=False
        )
        self._under_way[key] = (assignment, future)
        future.add_done_callback(lambda done: self._done.put(done.key))

    def _next_result(self) -> Iterator[RunResult]:
        """Yield a result, or nothing if none came for a while."""
        try:
            key = self._done.get(timeout=_INTERVAL_S)
        except Empty:
            return
        assignment, future = self._under_way[key]
        try:
            result = future.result(timeout=_FETCH_S)
        except DaskTimeoutError:
            # Its worker was lost with the result, and it is played again; or the network is slow.
            future.add_done_callback(lambda done: self._done.put(done.key))
            return
        except CancelledError:
            # Not by us: the scheduler was lost, and knows nothing of this run.
            wait_until_connected(self._client, self._address)
            del self._under_way[key]
            self._submit(assignment)
            return
        except KilledWorker as error:
            died = error.allowed_failures + 1
            message = f"the workers that it was given to died, {died} in a row"
            result = RunResult(assignment.request.run_id, None, message, 0.0)
        except Exception as error:
            raise UserError(f"scheduler {self._address}: {reason(error)}") from error
        del self._under_way[key]
        yield result
