"""Runs on a real Dask cluster: a scheduler and workers as users start them, and as they fail."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import dask
import psutil
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs import dask_cluster
from faultline.experiments.runs.dask_cluster import DaskExecutor
from faultline.experiments.runs.execution import open_executor
from faultline.experiments.runs.executor import InThisProcess, simulate_requests
from faultline.experiments.runs.point import Limits, Request, RunOutcome
from faultline.experiments.runs.provenance import environment

from tests.experiments.runs.processes import (
    ENDLESS,
    PATIENCE_S,
    free_port,
    gone,
    is_listening,
    request,
    running,
    wait_for,
    with_tests,
)

pytestmark = pytest.mark.system


class Cluster:
    """A scheduler on a free port of this machine, and workers with nannies."""

    def __init__(self, directory: Path, protocol: str = "tcp", allowed_failures: int = 3) -> None:
        self._directory = directory
        self._protocol = protocol
        self._allowed_failures = allowed_failures
        self._started: list[subprocess.Popen[bytes]] = []
        self._port = free_port()
        self.address = f"{protocol}://127.0.0.1:{self._port}"
        self.start_scheduler()

    def start_scheduler(self) -> None:
        """Start the scheduler, again where it was killed."""
        port = str(self._port)
        at = ("--protocol", self._protocol, "--host", "127.0.0.1", "--port", port)
        self.scheduler = self._start("scheduler", *at)
        assert wait_for(lambda: is_listening(self._port))

    def add_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker with a thread, and wait until it has joined."""
        log = self._directory / f"{len(self._started)}.log"
        local = ("--local-directory", str(self._directory))
        self.worker = self._start("worker", self.address, "--nthreads", "1", *local)
        assert wait_for(lambda: "Registered to" in log.read_text())
        return self.worker

    def processes(self) -> list[psutil.Process]:
        """All that was started, with all that it started."""
        return [process for started in self._started for process in tree(started)]

    def close(self) -> None:
        """Kill everything; the workers of a worker end by themselves."""
        left = self.processes()
        for started in self._started:
            kill(started)
        assert gone(left)

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        log = self._directory / f"{len(self._started)}.log"
        with log.open("wb") as file:
            started = subprocess.Popen(
                [sys.executable, "-m", "dask", *command, "--no-dashboard"],
                stdout=file,
                stderr=file,
                env={
                    **with_tests(),
                    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(self._allowed_failures),
                },
            )
        self._started.append(started)
        return started


def tree(started: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """A process and all it started: nanny, worker, and the workers of that."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(started.pid)
        return running([process, *process.children(recursive=True)])
    return []


def kill(started: subprocess.Popen[bytes]) -> None:
    """Kill a scheduler, or a nanny and its worker; their own workers have to notice that."""
    for process in tree(started):
        command = " ".join(_command(process))
        if "forkserver" not in command and "resource_tracker" not in command:
            with suppress(psutil.NoSuchProcess):
                process.kill()
    started.wait(PATIENCE_S)


def is_simulating(worker: subprocess.Popen[bytes]) -> bool:
    """Whether a process of the cluster has started a worker."""
    servers = [process for process in tree(worker) if "forkserver" in " ".join(_command(process))]
    return len(servers) >= 2


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture(scope="module")
def healthy_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with one worker, for tests that do no harm to it."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.add_worker()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    clusters: list[Cluster] = []

    def start(**settings: Any) -> Cluster:
        clusters.append(Cluster(tmp_path, **settings))
        return clusters[-1]

    yield start
    for cluster in clusters:
        cluster.close()


def simulated(address: str, requests: Iterable[Request]) -> Iterator[RunOutcome]:
    with (
        open_executor(scheduler=address) as executor,
        closing(simulate_requests(executor, requests)) as results,
    ):
        yield from results


@pytest.mark.slow
def test_records_are_those_of_this_machine_though_a_worker_is_lost(
    start_cluster: Callable[..., Cluster],
) -> None:
    requests = [request(f"run {seed}", "job.steps=200", seed=seed) for seed in range(40)]
    requests.append(request("no platform", "platform.file=nowhere.xml"))
    requests.append(request("never ends", ENDLESS, limits=Limits(time_s=2.0)))
    requests.append(request("it", "job.groups=6", "job.steps=5", engine="simgrid"))
    cluster = start_cluster()
    victim, _ = cluster.add_worker(), cluster.add_worker()
    results: dict[str, tuple[Any, str | None]] = {}
    lost: list[psutil.Process] = []
    for result in simulated(cluster.address, requests):
        assert result.run_id not in results
        results[result.run_id] = (result.value, result.error)
        if len(results) == 10:
            lost = tree(victim)
            kill(victim)
    assert len(lost) >= 3
    assert gone(lost)
    assert results.pop("never ends") == (None, "exceeded its time limit of 2 s")
    del requests[-2]
    assert results == {
        result.run_id: (result.value, result.error)
        for result in simulate_requests(InThisProcess(), requests)
    }
    error = results["no platform"][1]
    assert error is not None
    assert error.startswith("platform.file = 'nowhere.xml': no such file")


@pytest.mark.slow
def test_a_run_that_takes_its_workers_along_is_an_error(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster(allowed_failures=0)
    victim = cluster.add_worker()
    killer = Thread(target=lambda: wait_for(lambda: is_simulating(victim)) and kill(victim))
    killer.start()
    (deadly,) = simulated(cluster.address, [request("deadly", ENDLESS)])
    killer.join(PATIENCE_S)
    assert (deadly.run_id, deadly.value) == ("deadly", None)
    assert deadly.error == "its workers failed, 1 in a row"


@pytest.mark.slow
def test_a_cluster_without_workers_is_waited_for(
    start_cluster: Callable[..., Cluster], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = start_cluster()
    printed: list[str] = []

    def join_when_called_for() -> None:
        wait_for(lambda: printed.append(capsys.readouterr().err) or "".join(printed))
        cluster.add_worker()

    helper = Thread(target=join_when_called_for)
    helper.start()
    (result,) = simulated(cluster.address, [request("it")])
    helper.join(PATIENCE_S)
    assert result.error is None
    (line,) = "".join(printed).splitlines()
    assert line.startswith(f"scheduler {cluster.address} has no workers; waiting for one")


@pytest.mark.slow
def test_a_lost_scheduler_ends_the_sweep_but_takes_no_results_along(
    start_cluster: Callable[..., Cluster],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(DaskExecutor, "in_flight", 1)  # One after the other.
    cluster = start_cluster()
    worker = cluster.add_worker()
    results = simulated(cluster.address, [request("short"), request("endless", ENDLESS)])
    assert next(results).run_id == "short"
    killer = Thread(
        target=lambda: wait_for(lambda: is_simulating(worker)) and kill(cluster.scheduler)
    )
    killer.start()
    with pytest.raises(UserError) as refusal:
        next(results)
    killer.join(PATIENCE_S)
    line = str(refusal.value)
    assert line.startswith(f"scheduler {cluster.address}: the connection was lost")
    assert "\n" not in line
    assert capfd.readouterr().err == ""


def test_another_version_of_the_scheduler_is_refused(
    healthy_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {"packages": {"distributed": "3.9.1"}}
    monkeypatch.setattr(dask_cluster, "get_versions", lambda: ours)
    with pytest.raises(UserError, match=r"has distributed .*, and 3\.9\.1 is here"):
        DaskExecutor(healthy_cluster.address)


def test_another_environment_of_a_worker_is_refused(
    healthy_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = environment() | {"numpy": "1.0.0"}
    monkeypatch.setattr(dask_cluster, "environment", lambda source: other)
    with pytest.raises(UserError, match=r"worker tcp.* numpy is .* there, but 1\.0\.0 on the"):
        list(simulated(healthy_cluster.address, [request("it")]))


def test_what_is_no_scheduler_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dask_cluster, "_CONNECT_S", 0.5)
    with socket.socket() as silent, socket.socket() as closed:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        closed.bind(("127.0.0.1", 0))
        for address in (
            f"tcp://127.0.0.1:{silent.getsockname()[1]}",
            f"127.0.0.1:{closed.getsockname()[1]}",
            "tls://127.0.0.1:8786",
            "tcp://192.0.2.1:8786",
            "",
        ):
            with pytest.raises(UserError) as refusal:
                DaskExecutor(address)
            line = str(refusal.value)
            assert line.startswith(f"scheduler {address}: ")
            assert "\n" not in line
            assert "docs/sweeps.md" in line
    assert capfd.readouterr().err == ""


def test_the_documented_certificates_let_in_only_who_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Path(__file__).parents[3] / "docs" / "examples" / "cluster_keys.sh"
    subprocess.run(["sh", "-e", script], cwd=tmp_path, check=True, timeout=60)
    keys = str(tmp_path / "cluster-keys")
    monkeypatch.setenv("DASK_CONFIG", keys)
    dask.config.refresh(paths=[keys])
    cluster = Cluster(tmp_path, "tls")
    try:
        cluster.add_worker()
        (result,) = simulated(cluster.address, [request("it")])
        assert result.error is None
        dask.config.refresh()
        with pytest.raises(UserError, match="TLS"):
            DaskExecutor(cluster.address)
    finally:
        cluster.close()
        dask.config.refresh()
