"""Maps: their samples, what is unknown when a candidate is tuned, and the choice at each point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.cli import main
from faultline.experiments.config.errors import UserError
from faultline.experiments.studies.head_to_head.cell_runs import (
    CellTask,
    Prepared,
    SampledInputs,
    at_sampled_inputs,
    prepare,
    simulate_cell,
)
from faultline.experiments.studies.head_to_head.emulation import filled_map
from faultline.experiments.studies.head_to_head.maps import (
    JOBS,
    MAPS,
    SampledMap,
    remaining_candidates,
    sample_map,
)
from faultline.experiments.studies.head_to_head.setting import (
    Cell,
    MeasuredJob,
    all_candidates,
    measure_job,
)
from faultline.strategies.interface.recovery import SHRINK

_SAMPLES = 64


@pytest.fixture(scope="module")
def measured() -> MeasuredJob:
    return measure_job({"reft"})


@pytest.fixture(scope="module")
def sampled_map(measured: MeasuredJob) -> SampledMap:
    return sample_map("head-to-head", "restart", measured, all_candidates(["spare/reft"]), _SAMPLES)


@pytest.mark.parametrize("job", JOBS)
def test_all_jobs_fit_their_gpus_and_have_all_maps(job: str) -> None:
    measured = measure_job({"reft"}, name=job)
    assert measured.held_bytes(1.0) < measured.memory_bytes
    for name, chosen in MAPS.items():
        sampled_map = sample_map(job, name, measured, all_candidates(["spare/reft"]), 16)
        cells = [task.cell for task in sampled_map.tasks((), measured, range(16))]
        assert min(cell.mtbf_s for cell in cells) > 250.0
        assert all(chosen.x.low <= cell.x <= chosen.x.high for cell in cells)
        assert all(chosen.y.low <= cell.y <= chosen.y.high for cell in cells)
        groups = {cell.groups for cell in cells}
        assert (len(groups) > 8) == (name in ("queue", "standbys"))


def test_what_an_axis_states_has_no_prior(sampled_map: SampledMap, measured: MeasuredJob) -> None:
    assert "failures.mtbf_s" not in sampled_map.design.names
    assert "recovery.time_factor of spare" in sampled_map.design.names
    sizes = sample_map("head-to-head", "queue", measured, all_candidates(["spare/reft"]), 16)
    place = sizes.design.names.index("failures.mtbf_s")
    for task in sizes.tasks((), measured, range(16)):
        assert task.sampled is not None
        factor = task.sampled.mtbf_s / task.cell.mtbf_s
        assert factor == pytest.approx(sizes.design.values[task.seeds[0], place])


def test_a_candidate_is_tuned_before_the_truth_is_known(measured: MeasuredJob) -> None:
    (spare,) = all_candidates(["spare/reft"])
    cell = Cell("restart", 5000.0, 600.0, 5000.0, 600.0)
    prepared = prepare(spare, cell, measured)
    assert isinstance(prepared, Prepared)
    sampled = SampledInputs(
        1000.0, {"recovery.time_factor of spare": 3.0, "recovery.time_factor of ntp": 9.0}
    )
    there = at_sampled_inputs(
        prepared, Cell("restart", 5000.0, 600.0, 1000.0, 600.0), sampled, measured
    )
    assert there.resolved.redundancy == prepared.resolved.redundancy
    assert there.resolved.snapshot_interval_steps == prepared.resolved.snapshot_interval_steps
    assert there.resolved.failures.mtbf_s == pytest.approx(1000.0)
    prices = [one.resolved.durations.recovery.duration_s(SHRINK) for one in (prepared, there)]
    assert prices[1] == pytest.approx(3.0 * prices[0])


def test_with_the_truth_as_foreseen_nothing_changes(measured: MeasuredJob) -> None:
    names = ["spare/reft", "checkpoint/reft", "ntp"]
    cell = Cell("restart", 5000.0, 600.0, 5000.0, 600.0)
    candidates = tuple(all_candidates(names))
    plain = simulate_cell(CellTask(cell, candidates, (0,), measured))
    foreseen = CellTask(cell, candidates, (0,), measured, sampled=SampledInputs(5000.0, {}))
    assert simulate_cell(foreseen) == plain


def test_a_job_has_the_steps_that_it_was_planned_with(measured: MeasuredJob) -> None:
    """Twice as many failures, or half as many, as foreseen: the overhead follows, and all end."""
    long = replace(measured, most_steps=10**6)
    cell = Cell("restart", 10_000.0, 600.0, 10_000.0, 600.0)
    candidates = tuple(all_candidates(["checkpoint/reft"]))
    overheads = {}
    for factor in (0.5, 1.0, 2.0):
        sampled = SampledInputs(10_000.0 * factor, {})
        (row,) = simulate_cell(CellTask(cell, candidates, (0,), long, sampled=sampled))
        assert row["steps"] == long.steps_in(cell)
        overheads[factor] = row["ratio"] - 1.0
    assert overheads[0.5] == pytest.approx(2 * overheads[1.0], rel=0.3)
    assert overheads[2.0] == pytest.approx(overheads[1.0] / 2, rel=0.3)


def _rows(sampled_map: SampledMap, costs: Callable[[str, np.ndarray], np.ndarray]) -> pd.DataFrame:
    """Return rows of three candidates, of which SPARe has twice the GPUs."""
    frames = []
    for name in ("checkpoint/storage", "spare/reft", "warm-standby/reft"):
        scheme = name.partition("/")[0]
        frames.append(
            pd.DataFrame(
                {
                    "seed": range(len(sampled_map.design)),
                    "candidate": name,
                    "scheme": scheme,
                    "ratio": costs(scheme, sampled_map.design.unit),
                    "gpus": 512.0,
                    "spare_gpus": 512.0 if scheme == "spare" else 0.0,
                    "availability": 1.0,
                    "raised_power": 0.0,
                    "batch_share": 1.0,
                    "fits_memory": scheme != "warm-standby",
                    "absent": "",
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def _crossing(scheme: str, unit: np.ndarray) -> np.ndarray:
    """Return costs that cross at the middle of the x axis, and a candidate that is always best."""
    slopes = {"checkpoint": 0.4, "spare": -0.4, "warm-standby": 0.0}
    base = 1.0 if scheme == "warm-standby" else 1.3
    return np.asarray(base * np.exp(slopes[scheme] * (unit[:, 0] - 0.5)))


def test_the_choice_changes_where_costs_cross(sampled_map: SampledMap) -> None:
    """Half of the cells each by time; by GPU-hours SPARe costs twice as much, and never leads."""
    cells, errors = filled_map((sampled_map, _rows(sampled_map, _crossing)))
    assert len(cells) == 1600
    left = cells["x"] < np.sqrt(300.0 * 86_400.0)
    assert (cells.loc[left, "best"] == "checkpoint/storage").all()
    assert (cells.loc[~left, "best"] == "spare/reft").all()
    assert (cells["gpu_best"] == "checkpoint/storage").all()
    # Nothing else decides: the choice is certain, and no time is lost.
    assert cells["probability"].min() == 1.0
    assert cells["regret"].max() < 1e-6
    exact = 1.3 * np.exp(
        -0.4 * np.abs(np.log(cells["x"] / cells["x"].min()) / np.log(288) - 0.4875)
    )
    assert cells["cost"].to_numpy() == pytest.approx(exact.to_numpy(), rel=5e-3)
    assert errors["median"].max() < 2e-3
    # The fastest does not fit, and is not drawn.
    assert set(errors["candidate"]) == {"checkpoint/storage", "spare/reft"}


def test_an_unknown_input_shares_a_cell(sampled_map: SampledMap) -> None:
    """SPARe's own factor decides everywhere: it leads in the half of samples with a small one."""
    own = sampled_map.design.names.index("recovery.time_factor of spare")

    def costs(scheme: str, unit: np.ndarray) -> np.ndarray:
        if scheme == "spare":
            return np.asarray(1.3 + 0.2 * (unit[:, own] - 0.5))
        return np.full(len(unit), 1.0 if scheme == "warm-standby" else 1.3)

    cells = filled_map((sampled_map, _rows(sampled_map, costs)))[0]
    assert cells["probability"].between(0.35, 0.65).all()
    # The expected loss of either choice: 0.2 times the mean of max(u - 1/2, 0).
    assert cells["regret"].mean() == pytest.approx(0.2 / 8, rel=0.25)


def test_a_candidate_that_does_not_fit_or_is_hopeless_gets_no_more_samples(
    sampled_map: SampledMap,
) -> None:
    rows = _rows(sampled_map, _crossing)
    candidates = all_candidates(["checkpoint/storage", "spare/reft", "warm-standby"])
    kept = remaining_candidates(rows, candidates, drops_hopeless=False)
    assert [one.name for one in kept] == ["checkpoint/storage", "spare/reft"]
    rows.loc[rows["scheme"] == "spare", "ratio"] = inf
    rows.loc[rows["scheme"] == "checkpoint", "ratio"] = inf
    # The control stays, however slow it is.
    kept = remaining_candidates(rows, candidates, drops_hopeless=True)
    assert [one.name for one in kept] == ["checkpoint/storage"]


def test_a_map_without_candidates_is_refused(sampled_map: SampledMap) -> None:
    rows = _rows(sampled_map, _crossing)
    unfit = rows[rows["scheme"] == "warm-standby"]
    with pytest.raises(UserError, match="none of these trains head-to-head in the memory"):
        filled_map((sampled_map, unfit))


@pytest.mark.slow
def test_the_command_draws_a_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--schemes", "checkpoint", "replica-drop", "--only", "maps", "--quick"]
    assert main(["head-to-head", *chosen, "-o", str(tmp_path)]) == 0
    cells = pd.read_csv(tmp_path / "head-to-head-maps.csv")
    assert len(cells) == 1600
    # Where a restart takes two hours and something fails every five minutes, no scheme restarts.
    harsh = cells[(cells["x"] < 1000) & (cells["y"] > 3000)]
    assert (harsh["best"] == "replica-drop/reft").all()
    assert "least expected time" in capsys.readouterr().out
