"""Runs on all processors: the same records however many there are, and nothing left behind."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.execution import open_executor
from faultline.experiments.runs.executor import ATTEMPTS, simulate_requests
from faultline.experiments.runs.local import LocalExecutor
from faultline.experiments.runs.point import Limits, Request, RunCall, RunOutcome
from faultline.experiments.runs.single_run import run
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml

from tests.experiments.runs import doings
from tests.experiments.runs.processes import (
    ENDLESS,
    PATIENCE_S,
    gone,
    request,
    simulated_by,
    start_python,
    wait_for,
)

pytestmark = pytest.mark.system

# Starts a sweep of endless runs: one on each engine.
SWEEP = """
from faultline.experiments.runs.executor import simulate_requests
from faultline.experiments.runs.local import LocalExecutor
from tests.experiments.runs.processes import ENDLESS, request

requests = [request("a", ENDLESS), request("b", ENDLESS, engine="simgrid")]
for result in simulate_requests(LocalExecutor(workers=2), requests):
    print(result)
"""
# Processes start from one that first imports a module, which interrupts them meanwhile.
INTERRUPTED_IMPORT = """
import os
os.environ["PYTHONPATH"] += os.pathsep + os.getcwd()
from faultline.simulator.processes.contexts import worker_context

process = worker_context("interrupting").Process(target=print, args=("imported",), daemon=True)
process.start()
process.join()
"""

# Two workers; the run on SimGrid has its own process.
PROCESSES_OF_THE_SWEEP = 3


@pytest.fixture(scope="module")
def two() -> Iterator[LocalExecutor]:
    """Two workers for tests after which they go on."""
    executor = LocalExecutor(2)
    yield executor
    executor.shutdown()


def all_new(before: set[psutil.Process]) -> set[psutil.Process]:
    """Return the processes of the sweep that were not there before, once all have started."""
    new = set(simulated_by()) - before
    return new if len(new) >= PROCESSES_OF_THE_SWEEP else set()


def called(
    executor: LocalExecutor, function: Any, argument: Any = None, limits: Limits | None = None
) -> RunOutcome:
    """Return the outcome of a call in a worker."""
    wanted = Request("it", RunCall(function, argument), limits or Limits(time_s=60.0))
    (outcome,) = simulate_requests(executor, [wanted])
    return outcome


def test_records_are_those_of_single_runs(two: LocalExecutor) -> None:
    requests = [
        *(request(f"study {seed}", seed=seed) for seed in range(4)),
        *(request(f"sound {seed}", seed=seed, of="spare-sound") for seed in range(2)),
        request("replication", "strategy.name=replication", "strategy.redundancy=2", seed=5),
        request("it", "job.groups=6", "job.steps=5", engine="simgrid"),
    ]
    results = {result.run_id: result for result in simulate_requests(two, requests)}
    assert sorted(results) == sorted(one.run_id for one in requests)
    for one in requests:
        point, result = one.task, results[one.run_id]
        assert result.error is None
        assert result.value == run(point.scenario, point.seed, point.engine)


def test_one_that_fails_does_not_hinder_the_others(two: LocalExecutor) -> None:
    limits = Limits(time_s=3.0)
    requests = [
        request("sound"),
        request("no platform", "platform.file=nowhere.xml"),
        request("too redundant", "strategy.redundancy=13"),
        request("never ends", ENDLESS, limits=limits),
        request("never ends on SimGrid", ENDLESS, engine="simgrid", limits=limits),
        request("sound too", seed=1),
    ]
    errors = {result.run_id: result.error for result in simulate_requests(two, requests)}
    assert errors["sound"] is errors["sound too"] is None
    assert errors["never ends"] == errors["never ends on SimGrid"]
    assert errors["never ends"] == "exceeded its time limit of 3 s"
    for name, word in (
        ("no platform", "platform.file = 'nowhere.xml': no such file"),
        ("too redundant", "strategy.redundancy"),
    ):
        error = errors[name]
        assert error is not None
        assert word in error
        assert "\n" not in error


def test_requests_are_taken_as_results_are(two: LocalExecutor) -> None:
    taken: list[str] = []

    def endless() -> Iterator[Request]:
        for number in count():
            taken.append(str(number))
            yield request(str(number), seed=number)

    with closing(simulate_requests(two, endless())) as results:
        for number in range(1, 7):
            next(results)
            assert len(taken) <= number + 4


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("abort", "its worker was ended by SIGABRT"),
        ("kill", "its worker was ended by SIGKILL (perhaps the machine ran out of memory)"),
        ("exit", "its worker ended with exit status 3"),
    ],
)
def test_a_run_that_ends_its_workers_is_reported(end: str, error: str, two: LocalExecutor) -> None:
    outcome = called(two, doings.end, end)
    assert outcome.error == f"{error}, {ATTEMPTS} times in a row"
    assert called(two, doings.double, 4).value == 8


def test_a_worker_that_is_killed_loses_only_time(two: LocalExecutor, tmp_path: Path) -> None:
    outcome = called(two, doings.end_once, str(tmp_path / "mark"))
    assert (outcome.value, outcome.error) == ("second", None)


def test_memory_is_limited_for_a_run_and_for_it_alone(two: LocalExecutor) -> None:
    limits = Limits(memory_bytes=400_000_000)
    assert called(two, doings.allocate, 2**30, limits).error == (
        "exceeded its memory limit of 400MB"
    )
    assert called(two, doings.allocate, 2**30).error is None


def test_what_a_run_prints_does_not_get_into_its_result(
    two: LocalExecutor, capfd: pytest.CaptureFixture[str]
) -> None:
    assert called(two, doings.print_much).value == ""
    assert capfd.readouterr() == ("", "")


def test_relative_paths_start_where_the_sweep_was_started(
    two: LocalExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_xml(load_preset("hgx-h100"), tmp_path / "servers.xml")

    def error() -> str | None:
        (outcome,) = simulate_requests(two, [request("it", "platform.file=servers.xml")])
        return outcome.error

    assert "no such file" in str(error())
    monkeypatch.chdir(tmp_path)
    assert error() is None


def test_closing_leaves_no_process_behind() -> None:
    requests = [request("short"), request("a", ENDLESS), request("b", ENDLESS, engine="simgrid")]
    before = set(simulated_by())
    with open_executor(2) as executor, closing(simulate_requests(executor, requests)) as results:
        assert next(results).run_id == "short"
        started = [*wait_for(lambda: all_new(before))]
    assert len(started) == PROCESSES_OF_THE_SWEEP
    assert gone(started)


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_nothing_outlives_a_sweep_that_is_killed(tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "sweep.py"  # Without a guard: a worker must not run it again.
    script.write_text(SWEEP)
    sweep = start_python(str(script), stderr=subprocess.PIPE)
    try:
        assert wait_for(lambda: len(simulated_by(sweep.pid)) >= PROCESSES_OF_THE_SWEEP)
        started = psutil.Process(sweep.pid).children(recursive=True)
        sweep.send_signal(how)
        assert sweep.wait(PATIENCE_S) != 0
        assert gone(started)
        if how == signal.SIGKILL:
            assert sweep.stderr is not None
            assert sweep.stderr.read() == b""
    finally:
        sweep.kill()
        sweep.wait(PATIENCE_S)


def test_ctrl_c_does_not_show_where_the_import_of_a_worker_stood(tmp_path: Path) -> None:
    (tmp_path / "interrupting.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)"
    )
    script = tmp_path / "start.py"
    script.write_text(INTERRUPTED_IMPORT)
    pipe = subprocess.PIPE
    started = start_python(str(script), cwd=tmp_path, stdout=pipe, stderr=pipe)
    assert started.communicate(timeout=PATIENCE_S) == (b"imported\n", b"")


def test_too_many_workers_are_refused() -> None:
    with pytest.raises(UserError, match="each is a process of some 100 MB; use at most"):
        LocalExecutor(5000)
