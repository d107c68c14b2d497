"""Clusters by certificates: a client without one is refused."""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import dask.config
import psutil
import pytest
from distributed import Client
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.certificates import security_for
from faultline.experiments.runs.dask_cluster import DaskExecutor
from faultline.experiments.runs.local import LocalExecutor
from faultline.experiments.runs.point import Limits

from tests.docs.pages import ROOT, page
from tests.experiments.runs.processes import free_port, request, wait_for, with_tests

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster") / "our keys;touch 'pwned'"
    make_certificates(folder)
    return folder


def make_certificates(folder: Path) -> None:
    script = ROOT / "docs" / "examples" / "certificates.sh"
    subprocess.run(["sh", script, folder], check=True, capture_output=True)


@contextmanager
def configured(folder: Path) -> Iterator[None]:
    """Let Dask's configuration be that of a folder, as it is with ``DASK_CONFIG``."""
    named = dask.config.collect([str(folder)], env={})
    with dask.config.set(dask.config.merge(dask.config.config, named)):
        yield


SCHEDULER, WORKER = "127.0.0.2", "127.0.0.3"
PAGE = "many-machines.md"


def start(keys: Path, kind: str, port: int, *more: str) -> subprocess.Popen[bytes]:
    """Start a process of a cluster as it is documented, among modules with names of others."""
    work = keys.parent / "work"
    work.mkdir(exist_ok=True)
    for name in ("json", "multiprocessing", "distributed", "numpy", "faultline"):
        shadow = f"open({str(keys.parent / 'ran')!r}, 'a').write('{name} ')\n"
        (work / f"{name}.py").write_text(shadow, encoding="utf-8")
    (command,) = re.findall(rf"^\S+python (-I -m dask {kind} .*192.*)$", page(PAGE), re.MULTILINE)
    replaced = {"192.0.2.1": SCHEDULER, "192.0.2.2": WORKER, "8786": str(port), "16": "1"}
    for old, new in replaced.items():
        command = command.replace(old, new)
    return subprocess.Popen(
        [sys.executable, *shlex.split(command), *more],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**with_tests(), "DASK_CONFIG": str(keys)},
        cwd=work,
    )


def listening(process: subprocess.Popen[bytes]) -> set[tuple[str, int]]:
    """The addresses at which a process and its children listen."""
    whole = psutil.Process(process.pid)
    return {
        (found.laddr.ip, found.laddr.port)
        for each in (whole, *whole.children(recursive=True))
        for found in each.net_connections("tcp")
        if found.status == psutil.CONN_LISTEN
    }


def reply_to_http(place: tuple[str, int]) -> bytes:
    """The reply to a plain request."""
    with suppress(OSError), socket.create_connection(place, timeout=3.0) as caller:
        caller.sendall(b"GET /json/identity.json HTTP/1.0\r\n\r\n")
        return caller.recv(1000)
    return b""


@pytest.fixture
def scheduler(keys: Path) -> Iterator[str]:
    """Return the address of a scheduler that was started as documented."""
    port = free_port()
    process = start(keys, "scheduler", port, "--port", str(port))
    try:
        assert wait_for(lambda: (SCHEDULER, port) in listening(process))
        places = listening(process)
        assert {address for address, _ in places} == {SCHEDULER, "127.0.0.1"}
        assert b"HTTP" not in reply_to_http((SCHEDULER, port))
        yield f"tls://{SCHEDULER}:{port}"
        assert not (keys.parent / "ran").exists()
    finally:
        process.kill()
        process.wait()


def test_only_their_owner_reads_the_keys(keys: Path) -> None:
    files = {path.name for path in keys.iterdir()}
    assert files == {"authority.pem", "certificate.pem", "key.pem", "dask.yaml"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys.iterdir()} == {0o600}
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    assert [path.name for path in keys.parent.iterdir()] == [keys.name]


@pytest.mark.parametrize(
    ("address", "printed"),
    [
        ("tcp://192.0.2.1:8786", "can run anything"),
        ("tcp://127.0.0.1.example.org:8786", "can run anything"),
        ("tls://127.0.0.1:8786", "names no certificates; set DASK_CONFIG"),
    ],
)
def test_no_connection_beyond_this_machine_is_unencrypted(address: str, printed: str) -> None:
    with pytest.raises(UserError, match=printed):
        security_for(address)


def test_missing_certificates_are_named(keys: Path, tmp_path: Path) -> None:
    moved = {"distributed.comm.tls.ca-file": str(tmp_path / "gone.pem")}
    with configured(keys), dask.config.set(moved), pytest.raises(UserError, match=r"gone\.pem: no"):
        security_for("tls://127.0.0.1:8786")


def test_a_stranger_is_turned_away(scheduler: str, keys: Path, tmp_path: Path) -> None:
    other_keys = tmp_path / "other"
    make_certificates(other_keys)
    with configured(other_keys):
        foreign = security_for("tls://x")
    for address, security in ((scheduler.replace("tls:", "tcp:"), None), (scheduler, foreign)):

        async def break_in(address: str = address, security: object = security) -> None:
            await Client(address, security=security, timeout=3, asynchronous=True)

        with pytest.raises(Exception, match=r"(?i)timed out|certificate|handshake|closed|connect"):
            asyncio.run(break_in())
    with configured(other_keys), pytest.raises(UserError) as caught:
        list(DaskExecutor(scheduler).simulate([request("a")], Limits()))
    assert str(caught.value).startswith(f"scheduler {scheduler}: ")


@pytest.mark.slow
def test_runs_are_simulated_by_workers_with_the_certificates(scheduler: str, keys: Path) -> None:
    """Neither they nor the scheduler reply to a plain request beyond the loopback interface."""
    worker = start(keys, "worker", int(scheduler.rpartition(":")[2]))
    try:
        requests = [request("a"), request("b", seed=1)]
        with configured(keys):
            simulated = {
                one.run_id: one.value
                for one in DaskExecutor(scheduler).simulate(requests, Limits())
            }
        places = listening(worker)
        assert {address for address, _ in places} == {WORKER, "127.0.0.1"}
        assert not any(b"HTTP" in reply_to_http(one) for one in places if one[0] == WORKER)
        assert not (keys.parent / "ran").exists()
    finally:
        worker.terminate()
        worker.wait()
    assert simulated == {
        one.run_id: one.value for one in LocalExecutor(1).simulate(requests, Limits())
    }
