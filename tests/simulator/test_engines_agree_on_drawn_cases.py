"""Drawn cases: both engines run each, and every column of their records is compared.

A case that fails is printed as the files it is of.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.execution import open_executor
from faultline.experiments.runs.executor import simulate_requests
from faultline.experiments.runs.point import Limits, Request, RunCall, RunOutcome
from faultline.experiments.runs.single_run import run

from tests.simulator.drawn_cases import BothRuns, drawn, simulate, simulate_folded
from tests.simulator.helpers import EXACT

CASES, BATCH = 1000, 50
"""All cases, and those of a test."""
QUICK, SHARES = 20, 4
"""The cases of `make test`, others each day, and the tests that share them."""
LIMIT_S = 300.0
"""For one case, on a busy machine; half a second is usual."""
MOST_REFUSED = 0.25
"""Largest share of cases that are refused."""


def wrong(result: RunOutcome) -> str:
    """Return what is wrong with a case that was simulated; nothing if it is as it should be."""
    if result.error is not None:
        return result.trace or result.error
    both: BothRuns = result.value
    replayed, simulated = both.replayed, both.simulated
    if isinstance(replayed, str) or isinstance(simulated, str):
        return "" if replayed == simulated else f"replay: {replayed}\nSimGrid: {simulated}"
    columns = [f"{name} {replayed.get(name)} {simulated.get(name)}" for name in both.apart()]
    return "\n".join(("column, replay, SimGrid:", *columns)) if columns else ""


def day_of_the_commit() -> int:
    """Return the days of the last commit since 1970; 0 outside a repository."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return int(done.stdout or 0) // 86_400


TODAY = [(day_of_the_commit() * QUICK + place) % CASES for place in range(QUICK)]


@pytest.mark.parametrize(
    "numbers",
    [
        *(TODAY[place::SHARES] for place in range(SHARES)),
        *(
            pytest.param(range(first, first + BATCH), marks=pytest.mark.slow)
            for first in range(0, CASES, BATCH)
        ),
    ],
    ids=lambda numbers: f"{numbers[0]}-{numbers[-1]}",
)
def test_drawn_cases(numbers: Sequence[int], tmp_path: Path) -> None:
    requests = [
        Request(str(number), RunCall(simulate, (number, str(tmp_path))), Limits(LIMIT_S))
        for number in numbers
    ]
    mistakes, refused = [], 0
    with open_executor(1) as executor:
        results = list(simulate_requests(executor, requests))
    for result in results:
        case = drawn(int(result.run_id))
        mistake = wrong(result)
        if mistake:
            mistakes.append(f"{mistake}\n{case.printed()}")
        refused += result.value is not None and isinstance(result.value.replayed, str)
    assert not mistakes, "\n\n".join(mistakes)
    assert refused <= max(3, MOST_REFUSED * len(numbers))


@pytest.mark.parametrize("number", [142, 219, 344, 501, 776, 834])
def test_one_group_computes_for_all_that_are_alike(number: int, tmp_path: Path) -> None:
    assert simulate_folded(number, str(tmp_path)).apart() == {}


@pytest.mark.slow
def test_4096_ranks_with_failures() -> None:
    changes = {"job.groups": 128, "failures.mtbf_s": 100.0}
    job = resolve(load_scenario("llama3-70b-stress", changes))
    replayed, simulated = run(job, 1, "replay"), run(job, 1, "simgrid")
    assert simulated["events"] == replayed["events"] > 0
    assert simulated["time_s"] == pytest.approx(replayed["time_s"], rel=EXACT)


def test_a_case_is_the_same_each_time_it_is_drawn() -> None:
    assert drawn(17) == drawn(17)
    assert drawn(17).printed() != drawn(18).printed()


@pytest.mark.parametrize("number", [756, 778])
def test_a_restart_comes_at_the_moment_in_which_a_copy_begins(number: int, tmp_path: Path) -> None:
    """SimGrid aborts if a flow begins at a host that is turned off meanwhile."""
    both = simulate((number, str(tmp_path)))
    assert isinstance(both.replayed, dict)
    assert isinstance(both.simulated, dict)
    assert both.replayed["restarts"] == both.simulated["restarts"] > 0


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(116, id="slow links leave nothing of an exchange that hides"),
        pytest.param(115, id="a group fails in a wait while gradients are on their way"),
        pytest.param(650, id="all groups are back at the end of a repair"),
        pytest.param(888, id="what is left goes on at the moment of the failure"),
        pytest.param(3, id="all gradients are exchanged when an all-reduce is repeated"),
        pytest.param(43, id="all groups compute with fewer positions"),
        pytest.param(124, id="a pipeline loses a node that it has from another group"),
        pytest.param(162, id="two groups fail at the moment of a restart"),
        pytest.param(615, id="a group outlives an exchange whose watchdog has fired"),
        pytest.param(648, id="a step breaks beside a copy"),
        pytest.param(70, id="the flows of a copy end one after the other"),
        pytest.param(86, id="groups send state that do not write"),
        pytest.param(472, id="a group fails in an exchange that a copy slows"),
        pytest.param(745, id="a group that has lost no position finishes a broken step"),
        pytest.param(146, id="two copies and a checkpoint begin at once"),
        pytest.param(762, id="a group fails that others wait for with sharded weights, and copies"),
        pytest.param(549, id="a group sends state beside its copy to a slower storage"),
        pytest.param(69, id="a group fails whose hidden gradients slow the passes of the other"),
        pytest.param(836, id="a group fails that others wait for with hidden weights"),
        pytest.param(879, id="weights and gradients of a group that fails hide"),
    ],
)
def test_a_case_agrees(number: int, tmp_path: Path) -> None:
    """Cases to try alone: each has once differed, or never ended."""
    both = simulate((number, str(tmp_path)))
    assert isinstance(both.replayed, dict)
    assert both.apart() == {}
