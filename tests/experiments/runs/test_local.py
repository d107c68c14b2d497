"""Runs on all processors: the same records however many there are, and nothing left behind."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import psutil
import pytest
from faultline.experiments.runs.local import LocalExecutor
from faultline.experiments.runs.point import Limits, Request
from faultline.experiments.runs.single_run import run

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
import sys
from faultline.experiments.runs.local import LocalExecutor
from faultline.experiments.runs.point import Limits
from tests.experiments.runs.processes import ENDLESS, request

if __name__ == "__main__":
    requests = [request("a", ENDLESS), request("b", ENDLESS, engine="simgrid")]
    for result in LocalExecutor(workers=2).simulate(requests, Limits(memory_bytes=10**12)):
        print(result)
"""
# Two fork servers with a resource tracker and a run each; the run on SimGrid has its own process.
PROCESSES_OF_THE_SWEEP = 7


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_records_are_those_of_single_runs_whatever_the_workers(workers: int) -> None:
    requests = [
        *(request(f"study {seed}", seed=seed) for seed in range(4)),
        *(request(f"sound {seed}", seed=seed, of="spare-sound") for seed in range(2)),
        request("replication", "strategy.name=replication", "strategy.redundancy=2", seed=5),
    ]
    results = list(LocalExecutor(workers).simulate(requests, Limits(time_s=60.0)))
    assert sorted(result.run_id for result in results) == sorted(one.run_id for one in requests)
    assert {result.run_id: result.error for result in results} == {
        one.run_id: None for one in requests
    }
    records = {result.run_id: result.value for result in results}
    for one in requests:
        assert records[one.run_id] == run(one.task.scenario, one.task.seed)


def test_runs_on_simgrid_are_simulated_too() -> None:
    requested = request("it", "job.groups=6", "job.steps=5", engine="simgrid")
    (result,) = LocalExecutor(1).simulate([requested], Limits(time_s=120.0, memory_bytes=2 * 10**9))
    assert result.error is None
    assert result.value == run(requested.task.scenario, 0, "simgrid")


def test_one_that_fails_does_not_hinder_the_others() -> None:
    requests = [
        request("sound"),
        request("no platform", "platform.file=nowhere.xml"),
        request("too redundant", "strategy.redundancy=13"),
        request("never ends", ENDLESS),
        request("sound too", seed=1),
    ]
    errors = {
        result.run_id: result.error
        for result in LocalExecutor(2).simulate(requests, Limits(time_s=1.5))
    }
    assert errors["sound"] is errors["sound too"] is None
    assert errors["never ends"] == "exceeded its time limit of 1.5 s"
    for name, word in (
        ("no platform", "platform.file = 'nowhere.xml': no such file"),
        ("too redundant", "strategy.redundancy"),
    ):
        error = errors[name]
        assert error is not None
        assert word in error
        assert "\n" not in error


def test_requests_are_taken_as_results_are() -> None:
    taken: list[str] = []

    def endless() -> Iterator[Request]:
        for number in count():
            taken.append(str(number))
            yield request(str(number), seed=number)

    with closing(LocalExecutor(2).simulate(endless(), Limits())) as results:
        for number in range(1, 7):
            next(results)
            assert len(taken) <= number + 4


def test_closing_leaves_no_process_behind() -> None:
    requests = [request("short"), request("a", ENDLESS), request("b", ENDLESS, engine="simgrid")]
    with closing(LocalExecutor(2).simulate(requests, Limits())) as results:
        assert next(results).run_id == "short"
        assert wait_for(lambda: len(simulated_by()) >= PROCESSES_OF_THE_SWEEP)
        started = simulated_by()
    assert not simulated_by()
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
    script = tmp_path / "sweep.py"
    script.write_text(SWEEP)
    sweep = start_python(str(script), stderr=subprocess.DEVNULL)
    try:
        assert wait_for(lambda: len(simulated_by(sweep.pid)) >= PROCESSES_OF_THE_SWEEP)
        started = [*simulated_by(sweep.pid), *psutil.Process(sweep.pid).children(recursive=True)]
        sweep.send_signal(how)
        assert sweep.wait(PATIENCE_S) != 0
        assert gone(started)
    finally:
        sweep.kill()
        sweep.wait(PATIENCE_S)


def test_workers_stay_within_a_block_and_end_with_it() -> None:
    here = psutil.Process()
    before = set(here.children(recursive=True))

    def servers() -> set[psutil.Process]:
        return set(here.children()) - before

    with LocalExecutor(1) as executor:
        seen = []
        for seed in range(2):
            (result,) = executor.simulate([request("it", seed=seed)], Limits())
            assert result.error is None
            seen.append(servers())
        assert seen[0] == seen[1] != set()
    assert wait_for(lambda: not servers())
