"""Clusters by certificates: who has none is turned away."""

from __future__ import annotations

import asyncio
import shlex
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from distributed import Client
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.certificates import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    cluster_commands,
    make_certificates,
    security_for,
)
from faultline.experiments.runs.dask_cluster import DaskExecutor
from faultline.experiments.runs.local import LocalExecutor
from faultline.experiments.runs.point import Limits

from tests.experiments.asking import Ask
from tests.experiments.runs.processes import free_port, request, wait_for, with_tests


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster") / "keys"
    make_certificates(folder)
    return folder


SCHEDULER, WORKER = "127.0.0.2", "127.0.0.3"


def start(keys: Path, kind: str, port: int, *more: str) -> subprocess.Popen[bytes]:
    """Start a process of a cluster as it is documented, among modules with names of others."""
    work = keys.parent / "work"
    work.mkdir(exist_ok=True)
    for name in ("json", "multiprocessing", "distributed", "numpy", "faultline"):
        shadow = f"open({str(keys.parent / 'ran')!r}, 'a').write('{name} ')\n"
        (work / f"{name}.py").write_text(shadow, encoding="utf-8")
    command = cluster_commands(keys)[kind].replace("WORKER_ADDRESS", WORKER)
    words = shlex.split(command.replace("ADDRESS", SCHEDULER).replace("8786", str(port)))
    return subprocess.Popen(
        [sys.executable, *words[1:], *more],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=with_tests(),
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


def answer_to_http(place: tuple[str, int]) -> bytes:
    """What a plain request is answered."""
    with suppress(OSError), socket.create_connection(place, timeout=3.0) as caller:
        caller.sendall(b"GET /json/identity.json HTTP/1.0\r\n\r\n")
        return caller.recv(1000)
    return b""


@pytest.fixture
def scheduler(keys: Path) -> Iterator[str]:
    """Return the address of a scheduler that was started as the documentation says."""
    port = free_port()
    process = start(keys, "scheduler", port, "--port", str(port))
    try:
        assert wait_for(lambda: (SCHEDULER, port) in listening(process))
        places = listening(process)
        assert {address for address, _ in places} == {SCHEDULER, "127.0.0.1"}
        assert b"HTTP" not in answer_to_http((SCHEDULER, port))
        yield f"tls://{SCHEDULER}:{port}"
        assert not (keys.parent / "ran").exists()
    finally:
        process.kill()
        process.wait()


def test_only_their_owner_reads_the_keys(keys: Path) -> None:
    assert {path.name for path in keys.iterdir()} == {AUTHORITY, CERTIFICATE, KEY}
    assert [stat.S_IMODE(path.stat().st_mode) for path in keys.iterdir()] == [0o600] * 3


def test_certificates_are_not_made_twice_into_one_folder(keys: Path, ask: Ask) -> None:
    before = {path: path.read_bytes() for path in keys.iterdir()}
    assert "not empty" in ask.refused("certificates", keys)
    assert {path: path.read_bytes() for path in keys.iterdir()} == before


@pytest.mark.parametrize(
    ("address", "with_keys", "told"),
    [
        ("tcp://192.0.2.1:8786", False, "can run anything"),
        ("192.0.2.1:8786", False, "can run anything"),
        ("tcp://[2001:db8::1]:8786", False, "can run anything"),
        ("tcp://127.0.0.1.example.org:8786", False, "can run anything"),
        ("tls://127.0.0.1:8786", False, "needs --certificates"),
        ("tcp://127.0.0.1:8786", True, "give tls://HOST:PORT"),
    ],
)
def test_nobody_talks_in_the_clear_beyond_this_machine(
    address: str, with_keys: bool, told: str, keys: Path
) -> None:
    with pytest.raises(UserError, match=told):
        security_for(address, keys if with_keys else None)


def test_a_stranger_is_turned_away(scheduler: str, keys: Path, tmp_path: Path) -> None:
    other_keys = tmp_path / "other"
    make_certificates(other_keys)
    for address, security in (
        (scheduler.replace("tls:", "tcp:"), None),
        (scheduler, security_for("tls://x", other_keys)),
    ):

        async def break_in(address: str = address, security: object = security) -> None:
            await Client(address, security=security, timeout=3, asynchronous=True)

        with pytest.raises(Exception, match=r"(?i)timed out|certificate|handshake|closed|connect"):
            asyncio.run(break_in())
    with pytest.raises(UserError) as caught:
        list(DaskExecutor(scheduler, other_keys).play([request("a")], Limits()))
    assert str(caught.value).startswith(f"scheduler {scheduler}: ")


@pytest.mark.slow
def test_runs_are_played_by_those_who_have_the_certificates(scheduler: str, keys: Path) -> None:
    """Neither they nor the scheduler answer a plain request beyond the loopback interface."""
    worker = start(keys, "worker", int(scheduler.rpartition(":")[2]))
    try:
        asked = [request("a"), request("b", seed=1)]
        played = {
            one.run_id: one.played.value
            for one in DaskExecutor(scheduler, keys).play(asked, Limits())
        }
        places = listening(worker)
        assert {address for address, _ in places} == {WORKER, "127.0.0.1"}
        assert not any(b"HTTP" in answer_to_http(one) for one in places if one[0] == WORKER)
        assert not (keys.parent / "ran").exists()
    finally:
        worker.terminate()
        worker.wait()
    assert played == {
        one.run_id: one.played.value for one in LocalExecutor(1).play(asked, Limits())
    }
