"""Runs on the workers of a Dask cluster, and the connection to its scheduler.

Every thread of a worker has a fork server of its own. Errors are reported in one line.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import local
from time import monotonic, sleep
from uuid import uuid4

from distributed import (
    CancelledError,
    Client,
    Future,
    KilledWorker,
    Security,
    Status,
    get_worker,
)
from distributed import TimeoutError as DaskTimeoutError
from distributed.comm.core import connect
from distributed.core import send_recv
from distributed.versions import get_versions
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.certificates import security_for
from faultline.experiments.runs.fork_server import Assignment
from faultline.experiments.runs.local import ForkServer
from faultline.experiments.runs.point import Limits, Played, Request, Result, Results
from faultline.experiments.runs.provenance import Environment, environment

# Runs that are submitted at once: enough for an adaptive cluster to see that there is work, and
# for each thread to have its next run at hand.
_LEAST_LOOK_AHEAD = 256
_LOOK_AHEAD_PER_THREAD = 4
# How often the cluster is looked at while no results come.
_INTERVAL_S = 1.0
# For a result to come over from the worker that has it.
_FETCH_S = 10.0
# To connect, and to connect again where the connection broke.
_CONNECT_S = 15.0
# Clusters grow and shrink; to ask for their size costs a message.
_SIZE_INTERVAL_S = 2.0
# So long may a cluster have no worker before somebody should hear of it.
_PATIENCE_S = 5.0
_REMEDY = (
    "start one with `dask scheduler` as docs/many-machines.md says, and give the address that it "
    "prints, like tls://192.0.2.1:8786"
)
_CLOSING = (Status.closing, Status.closed, Status.failed)

_this_thread = local()


class DaskExecutor:
    """Plays runs on the workers of a Dask cluster, one for each of their threads.

    The address is the scheduler's, such as ``tls://192.0.2.1:8786``; beyond this machine Dask's
    configuration has to name the cluster's certificates, or there is a UserError.
    """

    def __init__(self, scheduler_address: str) -> None:
        self.scheduler_address = scheduler_address
        self._security = security_for(scheduler_address)

    def play(self, requests: Iterable[Request], limits: Limits) -> Results:
        """Play the requests; see `Executor`.

        Runs of a worker that is lost are played by others; one that loses worker after worker
        gives a result with an error. It is a UserError if there is no scheduler or it is lost for
        good, or a worker cannot play runs that agree with those of this machine.
        """
        directory = str(Path.cwd())
        assignments = (Assignment(request, limits, directory) for request in requests)
        with _connected(self.scheduler_address, self._security) as client:
            yield from _Submissions(client, self.scheduler_address, assignments).results()


class _Submissions:
    """Keeps a bounded number of runs submitted, and collects what comes of them."""

    def __init__(self, client: Client, address: str, assignments: Iterator[Assignment]) -> None:
        self._client = client
        self._address = address
        self._assignments = assignments
        self._expected = environment()
        self._size = _ClusterSize(client, address)
        self._under_way: dict[str, tuple[Assignment, Future[Result]]] = {}
        self._done: SimpleQueue[str] = SimpleQueue()

    def results(self) -> Iterator[Result]:
        """Yield the results of all assignments; cancels what is under way when closed."""
        try:
            while True:
                _wait_until_connected(self._client, self._address)
                wanted = max(_LEAST_LOOK_AHEAD, _LOOK_AHEAD_PER_THREAD * self._size.threads())
                for assignment in islice(self._assignments, max(0, wanted - len(self._under_way))):
                    self._submit(assignment)
                if not self._under_way:
                    return
                yield from self._next_result()
        finally:
            with suppress(Exception):  # Without a scheduler there is nothing to cancel.
                self._client.cancel([future for _, future in self._under_way.values()])

    def _submit(self, assignment: Assignment) -> None:
        # One name a submission: a run that is submitted again must not be taken for the old one.
        # Up to the hyphen, names are the same, by which Dask knows them as many of one kind.
        key = f"faultline_run-{uuid4().hex}"
        future = self._client.submit(
            play_on_worker, assignment, self._expected, key, key=key, pure=False
        )
        self._under_way[key] = (assignment, future)
        future.add_done_callback(lambda done: self._done.put(done.key))

    def _next_result(self) -> Iterator[Result]:
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
            _wait_until_connected(self._client, self._address)
            del self._under_way[key]
            self._submit(assignment)
            return
        except KilledWorker as error:
            died = error.allowed_failures + 1
            message = f"the workers that it was given to died, {died} in a row"
            result = Result(assignment.request.run_id, Played(None, message))
        except Exception as error:
            raise UserError(f"scheduler {self._address}: {_reason(error)}") from error
        del self._under_way[key]
        yield result


def play_on_worker(assignment: Assignment, expected: Environment, key: str) -> Result:
    """Play a run in the fork server of this thread of the worker; imported by the workers.

    Expected is the environment of the machine that started it all; the key is Dask's name of this
    task, with which the run is ended when that is cancelled. If runs cannot be played here, or
    their records would not agree, a UserError names the worker.
    """
    worker = get_worker()

    def wanted() -> bool:
        # Dask does not interrupt a task whose client has gone, but knows that it is of no use. A
        # worker that closes waits for its tasks, though they are played elsewhere already.
        task = worker.state.tasks.get(key)
        return worker.status not in _CLOSING and task is not None and task.state != "cancelled"

    server: ForkServer | None = getattr(_this_thread, "server", None)
    if server is None or server.expected != expected:
        # The source may have changed since the last time.
        if server is not None:
            server.stop()
        server = _this_thread.server = ForkServer(expected)
    try:
        return server.play(assignment, wanted)
    except UserError as error:
        raise UserError(f"worker {worker.address}: {error}") from error


@contextmanager
def _connected(address: str, security: Security) -> Iterator[Client]:
    """Connect to a scheduler for a while, with Dask's log kept to itself."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        _check_scheduler(address, security)
        client = Client(address, timeout=_CONNECT_S, set_as_default=False, security=security)
        try:
            yield client
        finally:
            # The scheduler may be gone, and then cannot be told.
            with suppress(Exception):
                client.close(timeout=_CONNECT_S)
    finally:
        logger.setLevel(level)


def _check_scheduler(address: str, security: Security) -> None:
    """Refuse what is no scheduler, where a client might wait for ever, or of another version."""
    try:
        kind, there = asyncio.run(asyncio.wait_for(_ask(address, security), _CONNECT_S))
    except Exception as error:  # An address that is none, no answer, or not in Dask's language.
        silence = f"no answer in {_CONNECT_S:g} s"
        reason = silence if isinstance(error, asyncio.TimeoutError) else _reason(error)
        raise UserError(f"scheduler {address}: {reason}; {_REMEDY}") from error
    if kind != "Scheduler":
        raise UserError(f"scheduler {address}: this is a {kind.lower()} of Dask; {_REMEDY}")
    here = get_versions()["packages"]
    for package in ("python", "distributed"):
        theirs, ours = str(there.get(package)), str(here[package])
        # Python's patches are compatible; Dask promises no such thing.
        parts = 2 if package == "python" else None
        if theirs.split(".")[:parts] != ours.split(".")[:parts]:
            raise UserError(
                f"scheduler {address}: has {package} {theirs}, and {ours} is here; "
                "install the same everywhere"
            )


async def _ask(address: str, security: Security) -> tuple[str, dict[str, str | None]]:
    """Ask what runs at an address, and with which versions of which packages."""
    arguments = security.get_connection_args("client")
    comm = await connect(address, timeout=_CONNECT_S, **arguments)
    try:
        kind: str = (await send_recv(comm, op="identity"))["type"]
        versions: dict[str, str | None] = (await send_recv(comm, op="versions"))["packages"]
    finally:
        comm.abort()
    return kind, versions


def _reason(error: BaseException) -> str:
    """Return an error as one line; some have no message but their class name."""
    return " ".join(str(error).split()) or type(error).__name__


def _wait_until_connected(client: Client, address: str) -> None:
    """Wait for a broken connection to be made again, which Dask tries by itself."""
    while client.status != "running":
        if client.status in ("closing", "closed"):
            raise UserError(
                f"scheduler {address}: the connection was lost, and not made again in "
                f"{_CONNECT_S:g} s; start the scheduler and its workers, and resume"
            )
        sleep(0.1)


class _ClusterSize:
    """The number of runs a cluster can execute at a time; prints a note if it is zero."""

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._address = address
        self._threads = 0
        self._asked_at = float("-inf")
        self._empty_since = monotonic()
        self._complained = False

    def threads(self) -> int:
        """Return the number of threads of all workers, as of a moment ago."""
        now = monotonic()
        if now >= self._asked_at + _SIZE_INTERVAL_S and self._client.status == "running":
            with suppress(OSError):  # The connection is breaking: asked again later.
                self._threads = sum(self._client.nthreads().values())
            self._asked_at = now
            self._say_if_empty(now)
        return self._threads

    def _say_if_empty(self, now: float) -> None:
        if self._threads:
            self._empty_since = now
            self._complained = False
        elif now > self._empty_since + _PATIENCE_S and not self._complained:
            self._complained = True
            print(
                f"scheduler {self._address} has no workers; waiting for one: "
                f"dask worker {self._address} --nthreads 1",
                file=sys.stderr,
            )
