"""The connection to a Dask scheduler: made, watched, and lost, with one line for what is wrong."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep

from distributed import Client, Security
from distributed.comm.core import connect
from distributed.core import send_recv
from distributed.versions import get_versions

from experiments.errors import UserError

# To connect, and to connect again where the connection broke.
_CONNECT_S = 15.0
# Clusters grow and shrink; to ask for their size costs a message.
_SIZE_INTERVAL_S = 2.0
# So long may a cluster have no worker before somebody should hear of it.
_PATIENCE_S = 5.0
_REMEDY = (
    "start one with `dask scheduler`, and give the address it prints, like tcp://192.0.2.1:8786"
)

Versions = dict[str, str | None]


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Connect to a scheduler for a while.

    Raises
    ------
    UserError
        If there is no scheduler, or one of another version.
    """
    with _only_our_words():
        _check_scheduler(address)
        client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        try:
            yield client
        finally:
            # The scheduler may be gone, and then cannot be told.
            with suppress(Exception):
                client.close(timeout=_CONNECT_S)


def _check_scheduler(address: str) -> None:
    """Refuse what is no scheduler, where a client might wait for ever, or of another version."""
    try:
        kind, versions = asyncio.run(asyncio.wait_for(_ask(address), _CONNECT_S))
    except Exception as error:  # An address that is none, no answer, or not in Dask's language.
        silence = f"no answer in {_CONNECT_S:g} s"
        told = silence if isinstance(error, asyncio.TimeoutError) else reason(error)
        raise UserError(f"scheduler {address}: {told}; {_REMEDY}") from error
    if kind != "Scheduler":
        raise UserError(f"scheduler {address}: this is a {kind.lower()} of Dask; {_REMEDY}")
    _check_versions(address, versions, get_versions()["packages"])


async def _ask(address: str) -> tuple[str, Versions]:
    """Ask what runs at an address, and with which versions of which packages."""
    arguments = Security().get_connection_args("client")
    comm = await connect(address, timeout=_CONNECT_S, **arguments)
    try:
        kind: str = (await send_recv(comm, op="identity"))["type"]
        versions: Versions = (await send_recv(comm, op="versions"))["packages"]
    finally:
        comm.abort()
    return kind, versions


def _check_versions(address: str, there: Versions, here: Versions) -> None:
    """Refuse another Python or Dask before it fails in some obscure way."""
    for package in ("python", "distributed"):
        theirs, ours = str(there.get(package)), str(here[package])
        # Python's patches are compatible; Dask promises no such thing.
        parts = 2 if package == "python" else None
        if theirs.split(".")[:parts] != ours.split(".")[:parts]:
            raise UserError(
                f"scheduler {address}: has {package} {theirs}, and {ours} is here; "
                "install the same everywhere"
            )


@contextmanager
def _only_our_words() -> Iterator[None]:
    """Keep Dask's log to itself: what matters of it is said in one line."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def reason(error: BaseException) -> str:
    """Return what an error says as one line; some say nothing but by their name."""
    return " ".join(str(error).split()) or type(error).__name__


def wait_until_connected(client: Client, address: str) -> None:
    """Wait for a broken connection to be made again, which Dask tries by itself.

    Raises
    ------
    UserError
        If Dask has given up.
    """
    while client.status != "running":
        if client.status in ("closing", "closed"):
            raise UserError(
                f"scheduler {address}: the connection was lost, and not made again in "
                f"{_CONNECT_S:g} s; start the scheduler and its workers, and resume"
            )
        sleep(0.1)


class ClusterSize:
    """How many runs a cluster can play at a time; says so on stderr where that is none."""

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
