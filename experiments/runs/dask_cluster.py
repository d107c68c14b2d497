"""Runs on the workers of a Dask cluster.

Each thread of a worker has its own fork server. Each error is one line.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import local
from urllib.parse import urlsplit
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
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.fork_server import Assignment
from faultline.experiments.runs.local import ForkServer
from faultline.experiments.runs.point import Request, Result, Results, RunOutcome
from faultline.experiments.runs.provenance import Environment, environment

# Runs in flight: enough that each thread of a large cluster has its next run.
_IN_FLIGHT = 2_000
# Time limit for connecting.
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
    scheduler is outside this machine and has no TLS.
    """

    def __init__(self, scheduler_address: str) -> None:
        self.scheduler_address = scheduler_address
        self._security = _security_for(scheduler_address)

    def simulate(self, requests: Iterable[Request], limit_s: float | None = None) -> Results:
        """Execute the requests; see `Executor`.

        Other workers execute the runs of a lost worker. A run whose workers keep failing has a
        result with an error.

        Raises
        ------
        UserError
            If the scheduler is missing or lost, or if the environment of a worker differs from that
            of this machine.
        """
        address, directory, expected = self.scheduler_address, str(Path.cwd()), environment()
        assignments = (Assignment(request, limit_s, directory) for request in requests)
        names: dict[str, str] = {}
        with _connected(address, self._security) as client:

            def submit(count: int) -> Iterator[Future[Result]]:
                for assignment in islice(assignments, count):
                    # Dask groups tasks by the part before the hyphen.
                    key = f"faultline_run-{uuid4().hex}"
                    names[key] = assignment.request.run_id
                    yield client.submit(
                        simulate_on_worker, assignment, expected, key, key=key, pure=False
                    )

            if not client.nthreads():
                print(
                    f"scheduler {address} has no workers; waiting for one: "
                    f"dask worker {address} --nthreads 1",
                    file=sys.stderr,
                )
            completed = as_completed(list(submit(_IN_FLIGHT)), loop=client.loop)
            for future in completed:
                yield _result_of(future, names.pop(future.key), address)
                completed.update(list(submit(1)))


def _security_for(address: str) -> Security:
    """Return the TLS settings of Dask's configuration; none are needed on this machine.

    A scheduler or worker executes any code that a client sends. So both require a certificate of
    one authority outside this machine.
    """
    if address.startswith("tls://"):
        return Security(require_encryption=True)
    if not _is_loopback(address):
        raise UserError(
            f"scheduler {address}: without TLS, anyone who reaches it can run anything; start it "
            "with certificates, and give tls://HOST:PORT; docs/many-machines.md shows how"
        )
    return Security()


def _is_loopback(address: str) -> bool:
    try:
        host = urlsplit(address if "://" in address else f"tcp://{address}").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def _connected(address: str, security: Security) -> Iterator[Client]:
    """Connect to a scheduler, with Dask's log disabled; leaving cancels the runs in flight."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        client = _connect(address, security)
        try:
            yield client
        finally:
            with suppress(Exception):  # The scheduler may be gone.
                client.close(timeout=_CONNECT_S)
    finally:
        logger.setLevel(level)


def _connect(address: str, security: Security) -> Client:
    try:
        asyncio.run(asyncio.wait_for(_reach(address, security), _CONNECT_S))
        return Client(address, timeout=_CONNECT_S, set_as_default=False, security=security)
    except Exception as error:  # An invalid address, no answer, or no certificates.
        raise UserError(f"scheduler {address}: {_reason(error)}; {_REMEDY}") from error


async def _reach(address: str, security: Security) -> None:
    """Connect once; `Client` would wait for a silent process without end."""
    arguments = security.get_connection_args("client")
    comm = await connect(address, timeout=_CONNECT_S, **arguments)
    comm.abort()


def _result_of(future: Future[Result], run_id: str, address: str) -> Result:
    try:
        return future.result()
    except KilledWorker as error:
        lost = error.allowed_failures + 1
        return Result(run_id, RunOutcome(None, f"its workers failed, {lost} in a row"))
    except CancelledError as error:
        raise UserError(
            f"scheduler {address}: the connection was lost; start the scheduler and its workers, "
            "and resume"
        ) from error
    except Exception as error:
        raise UserError(f"scheduler {address}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Return an error as one line; its class name if it has no message."""
    return " ".join(str(error).split()) or type(error).__name__


def simulate_on_worker(assignment: Assignment, expected: Environment, key: str) -> Result:
    """Execute a run in the fork server of this thread of a worker.

    Parameters
    ----------
    assignment : Assignment
        The run, its time limit and its directory.
    expected : Environment
        Environment of the machine that started the sweep.
    key : str
        Dask's name of this task. The run ends if the task is cancelled.

    Raises
    ------
    UserError
        If the worker cannot execute runs, or has another environment; the message names it.
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
