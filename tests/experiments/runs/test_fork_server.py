"""A run in a process of its own: what it may do to itself without harm to the others."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario, shipped_scenarios
from faultline.experiments.job import platform_files
from faultline.experiments.job.durations import durations_of
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs import fork_server, local
from faultline.experiments.runs.fork_server import Assignment, OwnerGoneError, supervise
from faultline.experiments.runs.local import ForkServer, RunAbandonedError
from faultline.experiments.runs.point import (
    Call,
    KnownDurations,
    Limits,
    Point,
    Request,
    RunOutcome,
    attempt,
    explain,
)
from faultline.experiments.runs.provenance import environment
from faultline.experiments.runs.single_run import run, scenario_hash
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.job import Durations
from faultline.simulator.simgrid_engine.process import call_over, other_with_platforms
from faultline.strategies.errors import StrategyError

from tests.experiments.runs.processes import (
    ENDLESS,
    PATIENCE_S,
    gone,
    request,
    running,
    simulated_by,
    wait_for,
)
from tests.stated_times import NOTHING_MEASURED

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


def test_the_server_keeps_platforms_for_runs_without_limits() -> None:
    """What a limited run measures counts as its own."""

    def keeper() -> int:
        keeps = other_with_platforms()
        return os.getpid() if keeps is None else int(call_over(keeps, os.getpid))

    assert supervised(keeper, Limits()) == RunOutcome({"returned": os.getpid()}, None)
    own = supervised(lambda: (keeper(), os.getpid())).value
    assert own is not None
    assert own["returned"][0] == own["returned"][1]


def test_a_run_is_in_a_process_group_of_its_own() -> None:
    simulated = supervised(lambda: (os.getpid(), os.getpgid(0)))
    assert simulated.value is not None
    process, group = simulated.value["returned"]
    assert process == group != os.getpgid(0)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "ended by SIGSEGV"),
        (os.abort, "ended by SIGABRT"),
        (
            lambda: os.kill(os.getpid(), signal.SIGKILL),
            "ended by SIGKILL: perhaps the machine ran out of memory",
        ),
        (lambda: os._exit(3), "ended with exit status 3 and no result"),
        (lambda: {}[0], "ended with exit status 1 and no result"),
    ],
    ids=["segmentation fault", "abort", "killed", "exit", "unforeseen"],
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


def test_a_run_within_its_memory_goes_on() -> None:
    limit = psutil.Process().memory_info().rss + 200 * MEBIBYTE
    simulated = supervised(partial(time.sleep, 0.8), Limits(memory_bytes=limit))
    assert simulated == RunOutcome({"returned": None}, None)


def test_a_run_ends_with_its_owner() -> None:
    owner, other_end = Pipe()
    other_end.close()
    with owner, pytest.raises(OwnerGoneError):
        supervise(lambda: RunOutcome({"slept": time.sleep(600)}, None), Limits(), owner)
    children = running(psutil.Process().children())
    assert all(os.getpgid(child.pid) == os.getpgid(0) for child in children)


# --- Running --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped_scenarios())
def test_a_request_is_the_scenario_it_was_made_of(name: str) -> None:
    scenario = load_scenario(name, ["job.groups=8", "job.steps=50"])
    simulated = attempt(pickle.loads(pickle.dumps(Point(scenario, 3))), KnownDurations())
    assert simulated.error is None
    assert simulated.value == run(scenario, 3)
    assert simulated.value["scenario_hash"] == scenario_hash(resolve(scenario))


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


def test_only_the_last_durations_are_kept() -> None:
    known = KnownDurations(size=2)
    scenarios = [load_scenario("spare-study", [f"job.groups={groups}"]) for groups in (4, 8, 12)]
    for scenario in scenarios:
        known.learn(scenario, durations_of(scenario))
    assert [known.of(scenario) is not None for scenario in scenarios] == [False, True, True]


# --- A server ------------------------------------------------------------------------------------


def servers_among(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those with the command line of a server; a run has it too, since it is forked.

    That of `multiprocessing`'s fork server lists modules, and this one may be among them.
    """
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


def test_a_server_simulates_one_run_after_the_other(kept_server: ForkServer) -> None:
    for seed in range(3):
        requested = request(f"run {seed}", seed=seed)
        result = kept_server.simulate(assigned(requested))
        scenario = requested.task.scenario
        assert (result.run_id, result.error) == (f"run {seed}", None)
        assert result.value == run(scenario, seed)
        assert result.wall_s > 0
    # A fork copies one thread, and the locks of all.
    assert server_process().num_threads() == 1


def test_a_killed_run_is_reported_and_the_server_goes_on(kept_server: ForkServer) -> None:
    with ThreadPoolExecutor(1) as thread:
        endless = thread.submit(kept_server.simulate, assigned(request("endless", ENDLESS)))
        server_number = server_process().pid
        victim = wait_for(simulating_process)
        assert victim is not None
        victim.send_signal(signal.SIGBUS)
        assert endless.result(PATIENCE_S).error == "ended by SIGBUS"
    assert kept_server.simulate(assigned(request("next"))).error is None
    assert server_process().pid == server_number


@pytest.mark.parametrize("proc", ["unmounted", "unreadable", "of others"])
def test_a_server_ends_with_its_run_where_no_process_is_listed(
    proc: str, server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(1) as thread:
        endless = thread.submit(server.simulate, assigned(request("endless", ENDLESS)))
        assert wait_for(simulating_process)
        started = simulated_by()
        with monkeypatch.context() as patch:
            if proc == "of others":
                (tmp_path / "self").symlink_to("1")
                patch.setattr(fork_server, "_OWN_ENTRY", tmp_path / "self")
            else:
                error = IndexError() if proc == "unmounted" else PermissionError()
                patch.setattr(psutil, "pids", Mock(side_effect=error))
            limited = assigned(request("limited"), Limits(memory_bytes=10**12))
            with pytest.raises(UserError, match="--memory-limit: the memory of runs is unknown"):
                server.simulate(limited)
            server.stop()
        assert gone(started)
        with pytest.raises(RunAbandonedError):
            endless.result(PATIENCE_S)


@pytest.mark.slow
def test_a_killed_server_is_replaced(server: ForkServer) -> None:
    assert server.simulate(assigned(request("before"))).error is None
    first = server_process()
    first.kill()
    assert server.simulate(assigned(request("after"))).error is None
    assert server_process().pid != first.pid


@pytest.mark.parametrize(("tries", "kills"), [pytest.param(4, 3, marks=pytest.mark.slow), (2, 2)])
def test_a_run_is_tried_again_when_its_fork_server_is_killed(
    server: ForkServer, tries: int, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_ATTEMPTS", tries)
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(server.simulate, assigned(request("it", ENDLESS)))
        for _ in range(kills):
            assert wait_for(simulating_process)
            session = [server_process(), *server_process().children(recursive=True)]
            session[0].kill()
            assert gone(session)
        if kills < tries:
            last = wait_for(simulating_process)
            assert last is not None
            last.terminate()
        result = future.result(PATIENCE_S)
    printed = "ended by SIGTERM" if kills < tries else "its supervising process failed 2 times"
    assert replace(result, wall_s=0.0) == RunOutcome(None, printed, run_id=result.run_id)


@pytest.mark.parametrize("kills", [pytest.param(3, marks=pytest.mark.slow), 4])
def test_a_fork_server_that_is_killed_at_its_start_is_started_again(
    server: ForkServer, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(range(kills))
    start = subprocess.Popen

    def start_and_kill(*words: Any, **named: Any) -> subprocess.Popen[bytes]:
        process = start(*words, **named)
        if next(left, None) is not None:
            process.kill()
        return process

    monkeypatch.setattr(subprocess, "Popen", start_and_kill)
    if kills == 3:
        assert server.simulate(assigned(request("it"))).error is None
    else:
        with pytest.raises(UserError, match="ended at its start, by signal 9"):
            server.simulate(assigned(request("it")))


def kill_itself_first(times: tuple[str, int, float]) -> int:
    """Kill this process N times, each after a while; return how often it was begun."""
    path, kills, after_s = times
    with open(path, "a+") as file:  # noqa: PTH123
        file.write("x")
        file.flush()
        file.seek(0)
        begun = len(file.read())
    if begun <= kills:
        time.sleep(after_s)
        os.kill(os.getpid(), signal.SIGKILL)
    return begun


@pytest.mark.parametrize(
    ("kills", "after_s", "begun"), [(3, 0.0, 4), (9, 0.0, 5), (9, 1.1, 1)], ids=str
)
def test_a_run_that_is_killed_at_its_start_is_simulated_again_a_few_times(
    kept_server: ForkServer, tmp_path: Path, kills: int, after_s: float, begun: int
) -> None:
    """Later it may be the machine that has no memory left, and it would be killed again."""
    path = tmp_path / "begun"
    requested = Request("it", Call(kill_itself_first, (str(path), kills, after_s)))
    result = replace(kept_server.simulate(assigned(requested)), wall_s=0.0)
    assert len(path.read_text()) == begun
    if kills < begun:
        assert result == RunOutcome(begun, run_id="it")
    else:
        error = "ended by SIGKILL: perhaps the machine ran out of memory"
        assert result == RunOutcome(None, error, run_id="it")


@pytest.mark.parametrize("engine", [pytest.param("replay", marks=pytest.mark.slow), "simgrid"])
def test_stopping_ends_what_is_under_way(server: ForkServer, engine: str) -> None:
    requested = request("it", ENDLESS, engine=engine)  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(server.simulate, assigned(requested))
        # ForkServer, resource tracker, the run, and the process of SimGrid.
        wanted = {"replay": 3, "simgrid": 4}[engine]
        assert wait_for(lambda: len(simulated_by()) >= wanted)
        started = simulated_by()
        server.stop()
        assert gone(started)
        with pytest.raises(RunAbandonedError):
            future.result(PATIENCE_S)
    with pytest.raises(RunAbandonedError):
        server.simulate(assigned(request("later")))


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


def test_packages_are_those_of_the_owner_whatever_the_working_directory(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("experiments", "numpy"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('not me')")
    monkeypatch.chdir(tmp_path)
    assert server.simulate(assigned(request("it"))).error is None


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


def test_a_platform_is_read_once_for_all_that_is_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run of a plan once read the XML again: 4 s of 5 at 2,048 GPUs."""
    path = tmp_path / "cluster.xml"
    write_xml(load_preset("hgx-h100"), path)
    settings = [f"platform.file={path}", "failures.model=mix", "job.gpus=256", "job.groups=32"]
    question = resolve(load_scenario("spare-sound", [*settings, *NOTHING_MEASURED]))
    point = Point.of(question, 0)

    def forked(*_: object) -> RunOutcome:
        monkeypatch.setattr(platform_files, "platform_at", not_again)
        platform_files.is_as_generated(question.scenario)
        return RunOutcome({})

    def not_again(path: Path) -> None:
        raise AssertionError(path)

    monkeypatch.setattr(fork_server, "supervise", forked)
    ours, theirs = Pipe()
    with ours, theirs:
        assignment = Assignment(Request("a", point), Limits(), str(tmp_path))
        simulated = fork_server._simulate(assignment, KnownDurations(), ours)
    assert simulated.error is None
