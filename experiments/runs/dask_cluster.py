"""Runs on the workers of a Dask cluster, and the connection to its scheduler.

Each thread of a worker has its own fork server. Each error is one line.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import local
from time import sleep
from uuid import uuid4

from distributed import (
    CancelledError,
    Client,
    Future,
    KilledWorker,
    Security,
    Status,
    as_completed,
    get_worker,
)
from distributed.comm.core import connect
from distributed.core import send_recv
from distributed.versions import get_versions
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.certificates import security_for
from faultline.experiments.runs.fork_server import Assignment
from faultline.experiments.runs.local import ForkServer
from faultline.experiments.runs.point import Limits, Request, Results, RunOutcome
from faultline.experiments.runs.provenance import Environment, environment
from faultline.experiments.streams import print_text

# Runs in flight: enough to keep each thread of a large cluster busy.
_IN_FLIGHT = 2_000
# Time limit for connecting, and for reconnecting.
_CONNECT_S = 15.0
_REMEDY = (
    "start one with `dask scheduler` as docs/many-machines.md says, and give the address that it "
    "prints, like tls://192.0.2.1:8786"
)
_CLOSING = (Status.closing, Status.closed, Status.failed)

_this_thread = local()


class DaskExecutor:
    """Executes runs on the workers of a Dask cluster, one run per thread.

    The address of the scheduler has the form ``tls://192.0.2.1:8786``. A UserError is raised if the
    scheduler is outside this machine and Dask's configuration names no certificates.
    """

    def __init__(self, scheduler_address: str) -> None:
        self.scheduler_address = scheduler_address
        self._security = security_for(scheduler_address)

    def simulate(self, requests: Iterable[Request], limits: Limits) -> Results:
        """Execute the requests; see `Executor`.

        Other workers retry the runs of a lost worker. A run whose workers keep failing has a result
        with an error. It is a UserError if the scheduler is missing or permanently lost, or if the
        environment of a worker differs from that of this machine.
        """
        address, directory, expected = self.scheduler_address, str(Path.cwd()), environment()
        assignments = (Assignment(request, limits, directory) for request in requests)
        under_way: dict[str, Assignment] = {}
        with _connected(address, self._security) as client:

            def submit(assignments: Iterable[Assignment]) -> Iterator[Future[RunOutcome]]:
                for assignment in assignments:
                    _wait_until_connected(client, address)
                    # A unique key, so that Dask does not mistake a resubmitted run for the first
                    # submission. Dask groups tasks by the part before the hyphen.
                    key = f"faultline_run-{uuid4().hex}"
                    under_way[key] = assignment
                    yield client.submit(
                        simulate_on_worker, assignment, expected, key, key=key, pure=False
                    )

            if not client.nthreads():
                print_text(
                    f"scheduler {address} has no workers; waiting for one: "
                    f"dask worker {address} --nthreads 1",
                    as_message=True,
                )
            first = list(submit(islice(assignments, _IN_FLIGHT)))
            completed = as_completed(first, loop=client.loop)
            for future in completed:
                assignment = under_way.pop(future.key)
                result = _result_of(future, assignment.request.run_id, address)
                if result is None:
                    completed.update(list(submit([assignment])))
                    continue
                yield result
                completed.update(list(submit(islice(assignments, 1))))


@contextmanager
def _connected(address: str, security: Security) -> Iterator[Client]:
    """Connect to a scheduler, with Dask's log disabled; leaving cancels the runs in flight."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        _check_scheduler(address, security)
        client = Client(address, timeout=_CONNECT_S, set_as_default=False, security=security)
        try:
            yield client
        finally:
            with suppress(Exception):  # The scheduler may be gone.
                client.close(timeout=_CONNECT_S)
    finally:
        logger.setLevel(level)


def _check_scheduler(address: str, security: Security) -> None:
    """Refuse an address without a scheduler, or whose scheduler has another version."""
    try:
        kind, there = asyncio.run(asyncio.wait_for(_identify(address, security), _CONNECT_S))
    except Exception as error:  # An invalid address, no reply, or not Dask's protocol.
        timed_out = f"no answer in {_CONNECT_S:g} s"
        reason = timed_out if isinstance(error, asyncio.TimeoutError) else _reason(error)
        raise UserError(f"scheduler {address}: {reason}; {_REMEDY}") from error
    if kind != "Scheduler":
        raise UserError(f"scheduler {address}: this is a {kind.lower()} of Dask; {_REMEDY}")
    here = get_versions()["packages"]
    for package in ("python", "distributed"):
        theirs, ours = str(there.get(package)), str(here[package])
        # Patch releases of Python are compatible; those of Dask may not be.
        parts = 2 if package == "python" else None
        if theirs.split(".")[:parts] != ours.split(".")[:parts]:
            raise UserError(
                f"scheduler {address}: has {package} {theirs}, and {ours} is here; "
                "install the same everywhere"
            )


async def _identify(address: str, security: Security) -> tuple[str, dict[str, str | None]]:
    """Return the role of the Dask process at an address, and its package versions."""
    arguments = security.get_connection_args("client")
    comm = await connect(address, timeout=_CONNECT_S, **arguments)
    try:
        kind: str = (await send_recv(comm, op="identity"))["type"]
        versions: dict[str, str | None] = (await send_recv(comm, op="versions"))["packages"]
    finally:
        comm.abort()
    return kind, versions


def _wait_until_connected(client: Client, address: str) -> None:
    """Wait until Dask has restored a broken connection."""
    while client.status != "running":
        if client.status in ("closing", "closed"):
            raise UserError(
                f"scheduler {address}: the connection was lost and not restored in "
                f"{_CONNECT_S:g} s; start the scheduler and its workers, and resume"
            )
        sleep(0.1)


def _result_of(future: Future[RunOutcome], run_id: str, address: str) -> RunOutcome | None:
    """Return the result of a run; None if the scheduler was lost with all its state."""
    try:
        return future.result()
    except KilledWorker as error:
        lost = error.allowed_failures + 1
        return RunOutcome(None, f"its workers failed, {lost} in a row", run_id=run_id)
    except CancelledError:
        return None
    except Exception as error:
        raise UserError(f"scheduler {address}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Return an error as one line; its class name if it has no message."""
    return " ".join(str(error).split()) or type(error).__name__


def simulate_on_worker(assignment: Assignment, expected: Environment, key: str) -> RunOutcome:
    """Execute a run in the fork server of this thread of a worker.

    The run ends if its Dask task, `key`, is cancelled. It is a UserError, which names the
    worker, if the worker cannot execute runs or lacks the expected environment of the sweep.
    """
    worker = get_worker()

    def wanted() -> bool:
        # Dask marks a task as cancelled if its client is gone, but does not interrupt it. A closing
        # worker waits for its tasks, although other workers repeat them already.
        task = worker.state.tasks.get(key)
        return worker.status not in _CLOSING and task is not None and task.state != "cancelled"

    server: ForkServer | None = getattr(_this_thread, "server", None)
    if server is None or server.expected != expected:
        # The source may have changed since the last run.
        if server is not None:
            server.stop()
        server = _this_thread.server = ForkServer(expected)
    try:
        return server.simulate(assignment, wanted)
    except UserError as error:
        raise UserError(f"worker {worker.address}: {error}") from error
