"""Clusters by certificates: who has none is turned away."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.certificates import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    make_certificates,
    security_for,
)
from faultline.experiments.runs.dask_cluster import DaskExecutor
from faultline.experiments.runs.local import LocalExecutor
from faultline.experiments.runs.point import Limits

from tests.experiments.asking import Ask
from tests.experiments.runs.processes import answers, free_port, request, wait_for, with_tests


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster") / "keys"
    make_certificates(folder)
    return folder


def start(keys: Path, *command: str) -> subprocess.Popen[bytes]:
    words = ["--tls-ca-file", AUTHORITY, "--tls-cert", CERTIFICATE, "--tls-key", KEY]
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *command, "--no-dashboard", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=with_tests(),
        cwd=keys,
    )


@pytest.fixture
def scheduler(keys: Path) -> Iterator[str]:
    """Return the address of a scheduler that was started as the documentation says."""
    port = free_port()
    place = ("--host", "127.0.0.1", "--port", str(port))
    process = start(keys, "scheduler", "--protocol", "tls", *place)

    try:
        assert wait_for(lambda: answers(port))
        yield f"tls://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_only_their_owner_reads_the_keys(keys: Path) -> None:
    assert {path.name for path in keys.iterdir()} == {AUTHORITY, CERTIFICATE, KEY}
    assert [stat.S_IMODE(path.stat().st_mode) for path in keys.iterdir()] == [0o600] * 3


def test_certificates_are_not_made_twice_into_one_folder(keys: Path, ask: Ask) -> None:
    before = {path: path.read_bytes() for path in keys.iterdir()}
    assert "not empty" in ask.refused("cluster", "certificates", keys)
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
    worker = start(keys, "worker", scheduler, "--nthreads", "1", "--no-nanny")
    try:
        asked = [request("a"), request("b", seed=1)]
        played = {
            one.run_id: one.played.value
            for one in DaskExecutor(scheduler, keys).play(asked, Limits())
        }
    finally:
        worker.kill()
        worker.wait()
    assert played == {
        one.run_id: one.played.value for one in LocalExecutor(1).play(asked, Limits())
    }
