"""The one loop that executes many tasks, whatever executor of `concurrent.futures` has them."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from concurrent import futures
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import islice
from queue import SimpleQueue
from typing import Protocol

from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.point import Request, RunOutcome
from faultline.experiments.runs.worker import perform

ATTEMPTS = 4
"""Workers that may be lost with the same task: an administrator may kill one, or a crash does."""

Results = Generator[RunOutcome, None, None]


class LostError(Exception):
    """A worker ended, and its task with it; the message is the reason."""


class RunExecutor(Protocol):
    """Executes tasks, each in a worker that may be lost."""

    in_flight: int  # Requests to submit at a time.

    @property
    def is_up(self) -> bool:
        """Whether its workers have started."""
        ...

    def submit(self, request: Request) -> Future[RunOutcome]:
        """Begin a task."""
        ...

    def outcome(self, future: Future[RunOutcome]) -> RunOutcome:
        """Return the outcome of a finished task.

        It is a LostError if its worker was lost, a BrokenProcessPool if all tasks were lost, which
        the next `submit` repairs, and a TimeoutError after the time limit.
        """
        ...

    def shutdown(self) -> None:
        """End all workers, and their tasks."""
        ...


def simulate_requests(executor: RunExecutor, requests: Iterable[Request]) -> Results:
    """Execute requests, and yield each outcome as it arrives, in any order.

    Requests are consumed lazily, so there may be any number of them. A task of a lost worker is
    repeated; one that ends its worker time after time has an error as its outcome. Closing the
    iterator cancels the tasks in flight.
    """
    waiting = iter(requests)
    finished: SimpleQueue[Future[RunOutcome]] = SimpleQueue()
    under_way: dict[Future[RunOutcome], tuple[Request, int]] = {}

    def submit(request: Request, losses: int = 0) -> None:
        future = executor.submit(request)
        under_way[future] = request, losses
        future.add_done_callback(finished.put)

    try:
        for request in islice(waiting, executor.in_flight):
            submit(request)
        while under_way:
            future = finished.get()
            if future not in under_way:  # Of a pool that broke.
                continue
            request, losses = under_way.pop(future)
            try:
                outcome = executor.outcome(future)
            except futures.TimeoutError:
                reason = f"exceeded its time limit of {request.limits.time_s:.10g} s"
                outcome = RunOutcome(None, reason)
            except LostError as error:
                if losses + 1 < ATTEMPTS:
                    submit(request, losses + 1)
                    continue
                outcome = RunOutcome(None, f"{error}, {ATTEMPTS} times in a row")
            except BrokenProcessPool as error:
                again = [(request, losses), *under_way.values()]
                under_way.clear()
                if any(losses + 1 == ATTEMPTS for _, losses in again):
                    raise UserError(
                        f"{sys.executable}: workers end as soon as they start: {error}"
                    ) from error
                for lost, losses in again:
                    submit(lost, losses + 1)
                continue
            yield replace(outcome, run_id=request.run_id)
            for following in islice(waiting, 1):
                submit(following)
    finally:
        for future in under_way:
            future.cancel()


class InThisProcess:
    """Executes one task after the other in this process, without limits."""

    in_flight = 1
    is_up = True

    def submit(self, request: Request) -> Future[RunOutcome]:
        """Execute a task."""
        future: Future[RunOutcome] = Future()
        future.set_result(perform(request))
        return future

    def outcome(self, future: Future[RunOutcome]) -> RunOutcome:
        """Return the outcome of a task."""
        return future.result()

    def shutdown(self) -> None:
        """Do nothing: there are no workers."""
