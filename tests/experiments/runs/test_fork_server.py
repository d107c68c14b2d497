"""A run in a process of its own: what it may do to itself without harm to the others."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import psutil
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario, shipped_scenarios
from faultline.experiments.job.durations import durations_of
from faultline.experiments.runs import local
from faultline.experiments.runs.fork_server import Assignment, supervise
from faultline.experiments.runs.local import ForkServer, RunAbandonedError
from faultline.experiments.runs.point import (
    KnownDurations,
    Limits,
    Request,
    RunOutcome,
    attempt,
    explain,
)
from faultline.experiments.runs.provenance import environment
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.job.durations import Durations
from faultline.strategies.interface.errors import StrategyError

from tests.experiments.runs.processes import (
    ENDLESS,
    PATIENCE_S,
    gone,
    request,
    running,
    simulated_by,
    wait_for,
)

pytestmark = pytest.mark.system

MEBIBYTE = 2**20
PATIENT = Limits(time_s=60.0)


def supervised(what: Callable[[], object], limits: Limits = PATIENT) -> RunOutcome:
    """Supervise some function in place of a run; what it returns is its record."""

    def in_place_of_a_run() -> RunOutcome:
        faulthandler.disable()  # pytest's, which would report every intended failure.
        return RunOutcome({"returned": what()}, None)

    owner, other_end = Pipe()
    with owner, other_end:
        return supervise(in_place_of_a_run, limits, owner)


@pytest.fixture(scope="module")
def kept() -> Iterator[list[ForkServer]]:
    """Keep a fork server for tests after which it goes on: each takes a second to start."""
    servers: list[ForkServer] = []
    yield servers
    for server in servers:
        server.stop()


@pytest.fixture
def kept_server(kept: list[ForkServer]) -> ForkServer:
    if not kept:
        kept.append(ForkServer(environment()))
    return kept[0]


@pytest.fixture
def server(kept: list[ForkServer]) -> Iterator[ForkServer]:
    """Start one that may be killed; there is no other meanwhile."""
    while kept:
        kept.pop().stop()
    server = ForkServer(environment())
    yield server
    server.stop()


def assigned(requested: Request, limits: Limits = PATIENT) -> Assignment:
    return Assignment(requested, limits, str(Path.cwd()))


# --- Supervision ----------------------------------------------------------------------------------


def test_what_a_run_prints_does_not_get_into_its_result(capfd: pytest.CaptureFixture[str]) -> None:
    def noisy() -> bytes:
        os.write(1, b"x" * 100_000)
        os.write(2, b"from C")
        subprocess.run(["echo", "from a program"], check=True, timeout=60)
        return os.read(0, 10)

    assert supervised(noisy) == RunOutcome({"returned": b""}, None)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (os.abort, "ended by SIGABRT"),
        (
            lambda: os.kill(os.getpid(), signal.SIGKILL),
            "ended by SIGKILL: perhaps the machine ran out of memory",
        ),
        (lambda: os._exit(3), "ended with exit status 3 and no result"),
        (lambda: {}[0], "ended with exit status 1 and no result"),
    ],
    ids=["abort", "killed", "exit", "unforeseen"],
)
def test_a_failure_is_reported_with_its_cause(end: Callable[[], object], error: str) -> None:
    assert supervised(end) == RunOutcome(None, error)


def test_time_over_ends_a_run_and_what_it_started(tmp_path: Path) -> None:
    def starts_another() -> None:
        other = subprocess.Popen(["sleep", "600"])
        (tmp_path / "number").write_text(str(other.pid))
        time.sleep(600)

    simulated = supervised(starts_another, Limits(time_s=0.7))
    assert simulated == RunOutcome(None, "exceeded its time limit of 0.7 s")
    number = int((tmp_path / "number").read_text())
    assert gone([psutil.Process(number)] if psutil.pid_exists(number) else [])


@pytest.mark.parametrize("by_child", [False, True], ids=["itself", "what it started"])
def test_too_much_memory_ends_a_run(by_child: bool) -> None:
    hog = "import time; held = b'x' * (500 * 2**20); time.sleep(600)"

    def hungry() -> None:
        if by_child:
            subprocess.run([sys.executable, "-c", hog], check=False, timeout=600)
        else:
            exec(hog)

    # A forked child begins with the pages of its parent.
    limit = psutil.Process().memory_info().rss // MEBIBYTE + 200
    simulated = supervised(hungry, Limits(time_s=60.0, memory_bytes=limit * MEBIBYTE))
    assert simulated.error is not None
    assert simulated.error.startswith("exceeded its memory limit of ")


# --- Running --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("job.groups:\n  too many"), "job.groups: too many"),
        (
            StrategyError("r = 9", "is too much", "use 8"),
            str(StrategyError("r = 9", "is too much", "use 8")),
        ),
        (ValueError("what\nis this"), "ValueError: what is this"),
        (MemoryError(), "MemoryError"),
        (SystemExit(3), "SystemExit: 3"),
        (TypeError("<function f at 0x7f12ab>"), "TypeError: <function f>"),
    ],
)
def test_an_error_is_one_line_without_what_differs_from_run_to_run(
    error: BaseException, line: str
) -> None:
    assert explain(error) == line


def test_durations_depend_on_nothing_that_they_are_known_without() -> None:
    """Else a run would be simulated with the durations of another scenario."""
    read: set[str] = set()

    class Watched:
        def __init__(self, scenario: Scenario) -> None:
            self._scenario = scenario

        def __getattr__(self, table: str) -> object:
            read.add(table)
            return getattr(self._scenario, table)

    for name in shipped_scenarios():
        durations_of(Watched(load_scenario(name, ["job.groups=8"])))  # type: ignore[arg-type]
    assert "job" in read
    assert not read & KnownDurations.WITHOUT
    assert set(Scenario.model_fields) >= KnownDurations.WITHOUT


def durations_known_of(scenario: Scenario) -> tuple[KnownDurations, Durations]:
    known, durations = KnownDurations(), durations_of(scenario)
    known.learn(scenario, durations)
    return known, durations


def test_durations_are_known_for_other_schemes_and_failures_of_the_same_job() -> None:
    known, durations = durations_known_of(load_scenario("spare-sound", ["job.groups=12"]))
    same = load_scenario(
        "spare-sound", ["job.groups=12", "strategy.name=replication", "failures.mtbf_s=900"]
    )
    assert known.of(same) is durations
    for other in ("job.groups=24", "times.restart_s=60", "times.checkpoint_write_s=58.8"):
        assert known.of(load_scenario("spare-sound", ["job.groups=12", other])) is None


def test_known_durations_change_no_record() -> None:
    known = KnownDurations()
    requested = request("it", of="spare-sound").task
    first = attempt(requested, known)
    assert first.learned is not None
    known.learn(*first.learned)
    assert attempt(requested, known) == RunOutcome(first.value)


def test_an_edited_platform_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "servers.xml"
    write_xml(load_preset("hgx-h100"), path)
    scenario = load_scenario("spare-study", [f"platform.file={path}"])
    known, durations = durations_known_of(scenario)
    assert known.of(scenario) is durations
    path.write_text(path.read_text() + "\n")
    assert known.of(scenario) is None


# --- A server ------------------------------------------------------------------------------------


def servers_among(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those with the command line of a server; a run has it too, since it is forked."""
    found = []
    for process in running(processes):
        with suppress(psutil.NoSuchProcess):
            command = " ".join(process.cmdline())
            if "fork_server" in command and "multiprocessing.forkserver" not in command:
                found.append(process)
    return found


def server_process() -> psutil.Process:
    (process,) = wait_for(lambda: servers_among(psutil.Process().children()))
    return process


def simulating_process() -> psutil.Process | None:
    """The process that runs a run, if there is one: it leads a group, as no helper does."""
    for process in servers_among(server_process().children()):
        with suppress(ProcessLookupError):
            if os.getpgid(process.pid) == process.pid:
                return process
    return None


def test_a_killed_run_is_reported_and_the_server_goes_on(kept_server: ForkServer) -> None:
    with ThreadPoolExecutor(1) as thread:
        endless = thread.submit(kept_server.simulate, assigned(request("endless", ENDLESS)))
        server_number = server_process().pid
        # A fork copies one thread, and the locks of all.
        assert server_process().num_threads() == 1
        victim = wait_for(simulating_process)
        assert victim is not None
        victim.send_signal(signal.SIGBUS)
        assert endless.result(PATIENCE_S).error == "ended by SIGBUS"
    assert kept_server.simulate(assigned(request("next"))).error is None
    assert server_process().pid == server_number


def test_a_run_is_tried_again_when_its_fork_server_is_killed(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_ATTEMPTS", 2)
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(server.simulate, assigned(request("it", ENDLESS)))
        for _ in range(2):
            assert wait_for(simulating_process)
            session = [server_process(), *server_process().children(recursive=True)]
            session[0].kill()
            assert gone(session)
        result = future.result(PATIENCE_S)
    printed = "its supervising process failed 2 times"
    assert replace(result, wall_s=0.0) == RunOutcome(None, printed, run_id=result.run_id)


def test_a_fork_server_that_is_killed_at_each_start_is_reported(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen

    def start_and_kill(*words: Any, **named: Any) -> subprocess.Popen[bytes]:
        process = start(*words, **named)
        process.kill()
        return process

    monkeypatch.setattr(subprocess, "Popen", start_and_kill)
    with pytest.raises(UserError, match="ended at its start, by signal 9"):
        server.simulate(assigned(request("it")))


def test_an_unwanted_run_is_ended(kept_server: ForkServer) -> None:
    seen: list[psutil.Process] = []

    def wanted() -> bool:
        seen.extend(simulated_by())
        return False

    with pytest.raises(RunAbandonedError):
        kept_server.simulate(assigned(request("it", ENDLESS)), wanted)
    assert seen
    assert gone(seen)
    assert kept_server.simulate(assigned(request("next"))).error is None


def test_another_environment_is_refused() -> None:
    before = simulated_by()
    server = ForkServer(environment() | {"numpy": "1.0.0"})
    with pytest.raises(UserError, match=r"numpy is .* there, but 1\.0\.0 on the") as refusal:
        server.simulate(assigned(request("it")))
    assert "\n" not in str(refusal.value)
    assert simulated_by() == before


def test_relative_paths_start_where_the_sweep_was_started(
    kept_server: ForkServer, tmp_path: Path
) -> None:
    write_xml(load_preset("hgx-h100"), tmp_path / "servers.xml")
    requested = request("it", "platform.file=servers.xml")

    def simulated_in(directory: Path) -> RunOutcome:
        return kept_server.simulate(Assignment(requested, Limits(), str(directory)))

    assert simulated_in(tmp_path).error is None
    for elsewhere in (tmp_path / "nowhere", Path.cwd()):
        error = simulated_in(elsewhere).error
        assert error is not None
        assert error.startswith("platform.file = 'servers.xml': no such file")
