"""`faultline reproduce mecefo`: its setting, a drop by hand, the headline, and the ablation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies.mecefo import ablation, study
from faultline.experiments.studies.mecefo.runs import (
    MODELS,
    SCENARIOS,
    ThroughputCell,
    all_reduce_s,
    cells,
    doubled_cost,
    hours_of,
    plateau_table,
    resilience_table,
    scenario_of,
    with_drops,
)
from faultline.strategies.schemes.mecefo.node_costs import measured_cost
from matplotlib.figure import Figure

from tests.experiments.command_line import Cli

GPU_GB = 80.0


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    """A table of two seeds as `drop_table` returns it, with drops that are made up."""
    rows = [{**cell._asdict(), "drop": 0.01} for cell in cells() for _ in range(2)]
    table = pd.DataFrame(rows)
    high = (table.model == "7B") & (table.scenario_name == "high")
    return table.assign(drop=table["drop"].where(~high, 0.05))


def test_steps_follow_from_throughput() -> None:
    """A step of 1024 sequences of 256 tokens at 111.12k tokens/s takes 2.36 s."""
    assert MODELS["7B"].step_s("mecefo") == pytest.approx(1024 * 256 / 111_120)
    for cell in (ThroughputCell("mecefo", "350M", "low"), ThroughputCell("bamboo", "7B", "high")):
        resolved = resolve(scenario_of(cell))
        whole_s = resolved.compute_s + resolved.durations.all_reduce_s(4)
        assert whole_s == pytest.approx(MODELS[cell.model].step_s(cell.system), rel=1e-9)
        assert resolved.scenario.failures.mtbf_s == SCENARIOS[cell.scenario_name].mtbf_s
    assert 0 < all_reduce_s(MODELS["7B"]) < 0.02 * MODELS["7B"].step_s("mecefo")


def test_the_shipped_scenario_is_the_7b_model_with_frequent_failures() -> None:
    shipped, studied = (
        load_scenario("mecefo-7b"),
        scenario_of(ThroughputCell("mecefo", "7B", "high")),
    )
    assert shipped.failures == studied.failures
    assert shipped.rejoin == studied.rejoin
    assert shipped.times.compute_s == pytest.approx(studied.times.compute_s, rel=1e-6)
    assert shipped.times.all_reduce_s == pytest.approx(studied.times.all_reduce_s or 0, rel=1e-5)


def test_costs_of_other_models_come_from_no_fault_throughput_alone() -> None:
    costs = [doubled_cost(MODELS[name]) for name in ("350M", "1B", "7B")]
    assert costs[2] == pytest.approx(measured_cost())
    assert 2 / 3 < costs[0] < costs[1] < costs[2]


@pytest.mark.paper("MeCeFO", "ablation of its techniques", "reproduce-mecefo")
def test_the_ablation() -> None:
    found = ablation.slowdown_table().set_index(["quantity", "setting"])
    naive = found.loc[("slowdown by FLOP", "7B naive doubling")]
    assert naive.slowdown == pytest.approx(22 / 15)
    assert naive.published == pytest.approx(1.4715, abs=1e-4)
    for name in ("naive doubling", "skip + recompute", "full"):
        row = found.loc[("slowdown, calibrated", f"7B {name}")]
        assert row.slowdown == pytest.approx(row.published)


def test_oobleck_s_drop_is_a_plateau() -> None:
    """By hand: two pipelines merge into one of 16 - k nodes, whose longest stage has 3 layers.

    Two pipelines of 8 nodes have stages of 4 layers. An iteration of 32 micro-batches takes
    (8 - 1) 4 + 32 = 60 with all. With 12 to 15 nodes T/S is 11.6 to 10.5 and 16.5 for the short
    ones: times vary least with 14, 9 and 9 of them, in (14 - 1) 3 + 32 = 71.
    """
    drops = plateau_table().query("down <= 4")
    assert list(drops.down) == [1, 2, 3, 4]
    for column in ("low", "drop", "high"):
        assert list(drops[column]) == pytest.approx([100 * (1 - 60 / 71)] * 4)


def test_each_published_drop_is_tried_alone(
    runs: pd.DataFrame, saved_bytes: Callable[[Figure], int]
) -> None:
    """Bamboo's 5 % for 20.84 is a factor of 4; MeCeFO's 5 % for 4.18 is one of 1.2."""
    assert saved_bytes(study.draw_drops(with_drops(runs))) > 10_000
    table = resilience_table(runs)
    found = table.set_index(["quantity", "system", "setting"])
    alone = "drop over MeCeFO's, one drop published"
    assert found.times[alone, "bamboo", "7B high, bamboo's published"] == pytest.approx(20.84 / 5)
    assert found.times[alone, "bamboo", "7B high, mecefo's published"] == pytest.approx(5 / 4.18)


def test_a_drop_of_bamboo_is_what_a_count_of_events_gives() -> None:
    """Stalls by the events of the run, and the pace by the time with k of 32 nodes down.

    Of 32 nodes one that is overloaded is too many: pipelines are formed anew at every loss.
    """
    cell = ThroughputCell("bamboo", "350M", "mid")
    record = run(scenario_of(cell), 2)
    failures = scenario_of(cell).failures
    down = 10_800 / failures.mtbf_s
    stalls = record["time_s"] / failures.mtbf_s * (30 + 30)
    # A stage that is hit twice before it is back counts once.
    k = 32 * (1 - np.exp(-down / 32))
    shared = MODELS["350M"].bamboo_work_share
    expected_s = record["time_s"] * shared * (1 - (32 - k) / 32) + stalls
    lost_s = record["time_s"] - record["completed_steps"] * MODELS["350M"].step_s("bamboo")
    assert lost_s == pytest.approx(expected_s, rel=0.25)


def test_the_ablation_s_memory_is_predicted() -> None:
    table = ablation.memory_table().query("batch == 256").set_index("technique")
    error = (table.predicted / table.measured - 1).abs()
    assert error["no fault"] == pytest.approx(0.0, abs=1e-12)  # calibrated on this one
    within = {"none": 0.06, "skip": 0.07, "skip + recompute": 0.02, "full": 0.02}
    for name, most in within.items():
        assert error[name] < most
    assert (table.predicted <= GPU_GB).all()


@pytest.mark.paper("MeCeFO", "memory of the ablation", "reproduce-mecefo")
def test_what_runs_out_of_memory_at_the_larger_batch() -> None:
    table = ablation.memory_table().query("batch == 512")
    assert list(table.predicted > GPU_GB) == list(table.ran_out)
    assert (table.least <= table.predicted).all()
    assert (table.predicted <= table.most).all()


@pytest.mark.paper("MeCeFO", "throughput drops of three systems", "reproduce-mecefo")
@pytest.mark.slow
def test_the_whole_reproduction_from_the_command_line(cli: Cli, tmp_path: Path) -> None:
    assert hours_of(ThroughputCell("mecefo", "7B", "low")) == 900
    results = cli.reproduced("mecefo", tmp_path)
    drops = {(row["scheme"], row["setting"]): row for row in results if row["quantity"] == "drop"}
    for (system, setting), row in drops.items():
        if system == "mecefo" and row["published"] is not None:
            assert row["simulated"] == pytest.approx(row["published"], abs=1.5), setting
        # Of 7B far more was lost than nodes that are down account for.
        if system == "bamboo" and setting.startswith("350M") and row["published"] is not None:
            assert 1 / 1.5 < row["simulated"] / row["published"] < 1.5, setting
    drawn = {path.stem for path in tmp_path.glob("*.png")}
    assert drawn == {"drops"}
