"""Runs on a real Dask cluster: a scheduler and workers as users start them, and as they fail."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import psutil
import pytest
from distributed.versions import get_versions
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs import dask_cluster
from faultline.experiments.runs.dask_cluster import DaskExecutor
from faultline.experiments.runs.local import LocalExecutor
from faultline.experiments.runs.point import Limits, Request

from tests.experiments.runs.processes import (
    ENDLESS,
    PATIENCE_S,
    free_port,
    gone,
    is_listening,
    request,
    running,
    start_python,
    wait_for,
    with_tests,
)

pytestmark = pytest.mark.system

LIMITS = Limits(time_s=60.0)


class Cluster:
    """A scheduler on a free port of this machine, and workers with nannies."""

    def __init__(self, directory: Path, allowed_failures: int = 3) -> None:
        self._directory = directory
        self._allowed_failures = allowed_failures
        self._started: list[subprocess.Popen[bytes]] = []
        self._port = free_port()
        self.address = f"tcp://127.0.0.1:{self._port}"
        self.start_scheduler()

    def start_scheduler(self) -> None:
        """Start the scheduler, again where it was killed."""
        port = str(self._port)
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", port)
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
        """Kill everything; a fork server ends by itself when its worker does."""
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
    """A process and all it started: nanny, worker, fork server, run."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(started.pid)
        return running([process, *process.children(recursive=True)])
    return []


def kill(started: subprocess.Popen[bytes]) -> None:
    """Kill a scheduler, or a nanny and its worker; a fork server has to notice that by itself."""
    for process in tree(started):
        command = " ".join(_command(process))
        if "fork_server" not in command and "resource_tracker" not in command:
            with suppress(psutil.NoSuchProcess):
                process.kill()
    started.wait(PATIENCE_S)


def is_simulating(worker: subprocess.Popen[bytes]) -> bool:
    """Whether a fork server of the worker has forked a run."""
    servers = [process for process in tree(worker) if "fork_server" in " ".join(_command(process))]
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

    def start(**settings: int) -> Cluster:
        clusters.append(Cluster(tmp_path, **settings))
        return clusters[-1]

    yield start
    for cluster in clusters:
        cluster.close()


@pytest.mark.slow
def test_records_are_those_of_this_machine_though_a_worker_is_lost(
    start_cluster: Callable[..., Cluster],
) -> None:
    requests = [request(f"run {seed}", "job.steps=200", seed=seed) for seed in range(40)]
    requests.append(request("no platform", "platform.file=nowhere.xml"))
    cluster = start_cluster()
    victim, _ = cluster.add_worker(), cluster.add_worker()
    results = {}
    lost: list[psutil.Process] = []
    for result in DaskExecutor(cluster.address).simulate(requests, LIMITS):
        assert result.run_id not in results
        results[result.run_id] = (result.value, result.error)
        if len(results) == 10:
            lost = tree(victim)
            kill(victim)
    assert len(lost) >= 3
    assert gone(lost)
    assert results == {
        result.run_id: (result.value, result.error)
        for result in LocalExecutor(1).simulate(requests, LIMITS)
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
    (deadly,) = DaskExecutor(cluster.address).simulate([request("deadly", ENDLESS)], Limits())
    killer.join(PATIENCE_S)
    assert (deadly.run_id, deadly.value) == ("deadly", None)
    assert deadly.error == "its workers failed, 1 in a row"


CLIENT = """
import sys
from faultline.experiments.runs.dask_cluster import DaskExecutor
from faultline.experiments.runs.point import Limits, Request
from tests.experiments.runs.processes import ENDLESS, request

list(DaskExecutor(sys.argv[1]).simulate([request("endless", ENDLESS)], Limits()))
"""


@pytest.mark.slow
def test_a_run_without_its_sweep_is_ended(healthy_cluster: Cluster) -> None:
    cluster, worker = healthy_cluster, healthy_cluster.worker
    sweep = start_python("-c", CLIENT, cluster.address)
    assert wait_for(lambda: is_simulating(worker))
    sweep.kill()
    sweep.wait(PATIENCE_S)
    assert wait_for(lambda: not is_simulating(worker))

    class EnoughError(Exception):
        pass

    def requests() -> Iterator[Request]:
        yield request("endless", ENDLESS)
        assert wait_for(lambda: is_simulating(worker))
        raise EnoughError

    with pytest.raises(EnoughError):
        list(DaskExecutor(cluster.address).simulate(requests(), LIMITS))
    assert wait_for(lambda: not is_simulating(worker))


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
    (result,) = DaskExecutor(cluster.address).simulate([request("it")], LIMITS)
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
    monkeypatch.setattr(dask_cluster, "_CONNECT_S", 2.0)
    # One after the other.
    monkeypatch.setattr(dask_cluster, "_IN_FLIGHT", 1)
    cluster = start_cluster()
    worker = cluster.add_worker()
    requests = [request("short"), request("endless", ENDLESS)]
    results = DaskExecutor(cluster.address).simulate(requests, LIMITS)
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
    # What was under way is of no use any more.
    assert wait_for(lambda: not is_simulating(worker))


@pytest.mark.slow
def test_a_scheduler_that_comes_back_is_given_the_runs_again(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster()
    worker = cluster.add_worker()

    def requests() -> Iterator[Request]:
        yield request("long", "job.groups=200", "job.steps=20000")
        assert wait_for(lambda: is_simulating(worker))
        kill(cluster.scheduler)
        kill(worker)
        cluster.start_scheduler()
        yield request("later")
        cluster.add_worker()

    results = {
        result.run_id: result.error
        for result in DaskExecutor(cluster.address).simulate(requests(), LIMITS)
    }
    assert results == {"long": None, "later": None}


@pytest.mark.parametrize("package", ["python", "distributed"])
def test_another_version_of_the_scheduler_is_refused(
    healthy_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    ours = {"packages": get_versions()["packages"] | {package: "3.9.1"}}
    monkeypatch.setattr(dask_cluster, "get_versions", lambda: ours)
    with pytest.raises(UserError, match=rf"has {package} .*, and 3\.9\.1 is here"):
        list(DaskExecutor(healthy_cluster.address).simulate([request("it")], LIMITS))


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
            "tcp://no-such-host.invalid:8786",
            "",
        ):
            with pytest.raises(UserError) as refusal:
                list(DaskExecutor(address).simulate([request("it")], LIMITS))
            line = str(refusal.value)
            assert line.startswith(f"scheduler {address}: ")
            assert "\n" not in line
            assert "dask scheduler" in line or "certificates" in line
    assert capfd.readouterr().err == ""
