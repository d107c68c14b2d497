"""A share of the optimizer's state that nobody else has is lost with its group."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.grid import EngineName
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.recoveries import ExplainedRecovery, explained_recoveries
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run

from tests.simulator.helpers import traced

JOB = ["job.steps=12", "checkpoint.interval_steps=4", "times.restart_s=50", "job.compute_jitter=0"]


@pytest.fixture(scope="module")
def step_s() -> float:
    return float(run(load_scenario("llama3-70b-hgx", [*JOB, "failures.mtbf_s=1e12"]), 0)["step_s"])


ENGINES = ["replay", pytest.param("simgrid", marks=pytest.mark.slow)]


def played(rows: list[str], folder: Path, engine: EngineName, *changes: str) -> Record:
    failures = [*traced(folder, *rows, "1e7,job,software"), "~failures.mtbf_s"]
    scenario = load_scenario("llama3-70b-hgx", [*JOB, *failures, *changes])
    return run(scenario, 0, engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("scheme", ["replica-drop", "mecefo"])
@pytest.mark.parametrize(
    ("lost", "keys", "restarts"),
    [
        pytest.param([2], [], 0, id="one, and its neighbour has its share"),
        pytest.param([2, 3], [], 1, id="both who keep each other's"),
        pytest.param([1, 2], [], 0, id="two who do not"),
        pytest.param([2], ["model.optimizer_backup=none"], 1, id="one, and nobody has its share"),
        pytest.param([2, 3], ["model.shard_optimizer=false"], 0, id="two of whom all have all"),
    ],
)
def test_who_is_lost_takes_its_share_along(
    scheme: str,
    lost: list[int],
    keys: list[str],
    restarts: int,
    engine: EngineName,
    step_s: float,
    tmp_path: Path,
) -> None:
    rows = [f"{2.5 * step_s},group-{group},hardware" for group in lost]
    if scheme == "mecefo":
        gpus = 32
        rows = [f"{2.5 * step_s},gpu-{gpus * group},hardware" for group in lost]
    record = played(rows, tmp_path, engine, f"strategy.name={scheme}", *keys)
    assert record["restarts"] == restarts
    assert record["failures"] == len(lost)


@pytest.mark.parametrize("engine", ENGINES)
def test_survivors_save_only_what_they_have(
    engine: EngineName, step_s: float, tmp_path: Path
) -> None:
    """Just in time: nothing but the step, or all since the last checkpoint on storage."""
    rows = [f"{2.5 * step_s},group-2,hardware"]
    kept = ["strategy.name=checkpoint", "protection.name=just-in-time"]
    with_it = played(rows, tmp_path, engine, *kept)
    without = played(rows, tmp_path, engine, *kept, "model.optimizer_backup=none")
    assert (with_it["restarts_from_peers"], without["restarts_from_peers"]) == (1, 0)
    assert without["repeated_s"] > with_it["repeated_s"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("lost", "from_peers"),
    [
        # Of 0, 2, 3, 4 ... the second two keep each other's, whoever did before one had left.
        pytest.param([(2.5, 1), (4.5, 3), (4.5, 4)], 0, id="both who do since one has left"),
        pytest.param([(2.5, 2), (8.5, 3), (12.5, "job")], 1, id="one after the other, made good"),
        pytest.param([(2.5, 2), (4.5, 3)], 0, id="the other before that"),
    ],
)
def test_shares_are_dealt_anew_for_survivors_too(
    lost: list[tuple[float, int | str]],
    from_peers: int,
    engine: EngineName,
    step_s: float,
    tmp_path: Path,
) -> None:
    """Nobody saves just in time what the rest of the job takes for lost, and all else is saved."""
    rows = [
        f"{at * step_s},job,software" if group == "job" else f"{at * step_s},group-{group},hardware"
        for at, group in lost
    ]
    kept = ["strategy.name=replica-drop", "protection.name=just-in-time"]
    record = played(rows, tmp_path, engine, *kept)
    assert (record["restarts"], record["restarts_from_peers"]) == (1, from_peers)


def test_what_a_failure_needs_is_a_restart() -> None:
    """Also where it is explained."""
    for backup, recoveries in (("neighbour", ["shrink", "restart"]), ("none", ["restart"])):
        scenario = load_scenario("llama3-70b-hgx", [f"model.optimizer_backup={backup}"])
        told = explained_recoveries(scenario, ["replica-drop"])
        found = [one.recovery for one in told if isinstance(one, ExplainedRecovery)]
        assert [one for one in found if one != "rejoin"] == recoveries
