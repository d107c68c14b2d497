"""Workers of a Dask cluster: each of its processes supervises workers as this machine does."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import lru_cache
from urllib.parse import urlsplit

from distributed import Client, KilledWorker, Security, get_worker
from distributed.comm.core import connect
from distributed.core import send_recv
from distributed.versions import get_versions
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.executor import simulate_requests
from faultline.experiments.runs.local import LocalExecutor
from faultline.experiments.runs.point import Request, RunOutcome
from faultline.experiments.runs.provenance import Environment, difference, environment
from faultline.experiments.streams import print_text

_CONNECT_S = 15.0
_HERE = ("localhost", "127.0.0.1", "::1")


class DaskExecutor:
    """Executes tasks on the workers of a Dask cluster, one per thread of a worker.

    The address of the scheduler has the form ``tls://192.0.2.1:8786``. It is a UserError if there
    is none, if its version differs, or if it is outside this machine and does not speak TLS.
    """

    in_flight = 2_000  # Enough to keep each thread of a large cluster busy.
    is_up = True

    def __init__(self, address: str) -> None:
        self._address = address
        self._expected: dict[str, Environment] = {}
        self._client = _connected(address)
        self._executor = self._client.get_executor(pure=False)
        if not self._client.nthreads():
            print_text(
                f"scheduler {address} has no workers; waiting for one: "
                f"dask worker {address} --nthreads 1",
                as_message=True,
            )

    def submit(self, request: Request) -> Future[RunOutcome]:
        """Begin a task; see `RunExecutor`."""
        source = request.task.source
        if source not in self._expected:
            self._expected[source] = environment(source)
        future: Future[RunOutcome] = self._executor.submit(
            simulate_on_worker, request, self._expected[source]
        )
        return future

    def outcome(self, future: Future[RunOutcome]) -> RunOutcome:
        """Return the outcome of a task, which Dask repeats if its worker is lost."""
        try:
            return future.result()
        except KilledWorker as error:
            return RunOutcome(None, f"its workers failed, {error.allowed_failures + 1} in a row")
        except CancelledError as error:
            raise UserError(
                f"scheduler {self._address}: the connection was lost; start the scheduler and its "
                "workers again, and repeat the command"
            ) from error
        except Exception as error:
            raise UserError(f"scheduler {self._address}: {_reason(error)}") from error

    def shutdown(self) -> None:
        """Cancel all tasks, and disconnect."""
        with suppress(Exception):  # The scheduler may be gone.
            self._executor.shutdown(wait=False)
            self._client.close(timeout=_CONNECT_S)


def check_encrypted(address: str) -> None:
    """Refuse the address of a scheduler outside this machine that does not speak TLS."""
    try:
        host = urlsplit(address if "://" in address else f"tcp://{address}").hostname
    except ValueError as error:
        raise UserError(f"scheduler {address}: {error}; give tls://HOST:PORT") from error
    if host not in _HERE and not address.startswith("tls://"):
        raise UserError(
            f"scheduler {address}: without TLS, anyone who reaches it can run anything; give "
            "tls://HOST:PORT, as docs/sweeps.md says"
        )


def _connected(address: str) -> Client:
    check_encrypted(address)
    # Errors are reported in one line.
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
    # Dask's configuration names the certificates.
    security = Security(require_encryption=True) if address.startswith("tls://") else Security()
    try:
        kind, there = asyncio.run(asyncio.wait_for(_identified(address, security), _CONNECT_S))
        if kind != "Scheduler":
            raise ValueError(f"this is a {kind.lower()} of Dask")
        here = get_versions()["packages"]["distributed"]
        if there != here:
            raise ValueError(f"has distributed {there}, and {here} is here")
        return Client(address, timeout=_CONNECT_S, set_as_default=False, security=security)
    except Exception as error:  # An invalid address, no reply, no certificates, another protocol.
        late = isinstance(error, asyncio.TimeoutError)
        reason = f"no answer in {_CONNECT_S:g} s" if late else _reason(error)
        raise UserError(
            f"scheduler {address}: {reason}; start one as docs/sweeps.md says, and give the "
            "address that it prints, like tls://192.0.2.1:8786"
        ) from error


async def _identified(address: str, security: Security) -> tuple[str, str]:
    """Return the role of the Dask process at an address, and its version.

    A client would wait for ever for the answer of another program.
    """
    comm = await connect(address, timeout=_CONNECT_S, **security.get_connection_args("client"))
    try:
        kind: str = (await send_recv(comm, op="identity"))["type"]
        return kind, str((await send_recv(comm, op="versions"))["packages"]["distributed"])
    finally:
        comm.abort()


def _reason(error: BaseException) -> str:
    """Return an error as one line; its class name if it has no message."""
    return " ".join(str(error).split()) or type(error).__name__


@lru_cache(maxsize=1)
def _workers(threads: int) -> LocalExecutor:
    # Dask's processes are daemons, which multiprocessing keeps from having children.
    vars(multiprocessing.current_process())["_config"]["daemon"] = False
    return LocalExecutor(threads)


@lru_cache
def _environment_here(source: str) -> Environment:
    return environment(source)


def simulate_on_worker(request: Request, expected: Environment) -> RunOutcome:
    """Execute a task in a process of this worker of the cluster.

    It is a UserError, which names the worker, if its environment is not the expected one.
    """
    worker = get_worker()
    differs = difference(expected, _environment_here(request.task.source))
    if differs is not None:
        raise UserError(
            f"worker {worker.address}: {differs}, so records would not agree; install the same "
            "versions everywhere, and do not edit the source during a sweep"
        )
    return next(simulate_requests(_workers(worker.state.nthreads), [request]))
