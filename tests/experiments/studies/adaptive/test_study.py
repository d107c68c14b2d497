"""The study of dynamic checkpoints and returning groups: cells, effects, tables and figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

import pandas as pd
import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.player import play
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies import load_study
from faultline.experiments.studies.adaptive import study
from faultline.experiments.studies.adaptive.study import (
    REDUNDANCIES,
    SCHEMES,
    VARIANTS,
    AdaptiveStudy,
    best_redundancies,
    changes_of,
    points,
    settings_of,
    with_spares,
)
from faultline.simulator.badput import CAUSES
from matplotlib.figure import Figure

from tests.experiments.asking import Ask

SEEDS = 3


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "REDUNDANCIES", {"spare": (2, 3, 9), "replication": (3,)})
        asked = list(points([200], 200, SEEDS))
    return with_spares(pd.DataFrame(play(asked, workers=1)))


def results_of(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {"runs": runs, "changes": changes_of(runs), "best": best_redundancies(runs)}


def test_it_is_registered_with_five_seeds() -> None:
    assert load_study("adaptive").default_seeds == 5
    assert load_study("spare").default_seeds == 3


def test_names_are_unique_and_spares_scale_with_the_job() -> None:
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)
    assert [variant.spare_groups(200) for variant in VARIANTS if variant.spare_share] == [
        10,
        20,
        40,
        40,
    ]
    assert VARIANTS[0].settings == {}
    assert VARIANTS[0].spare_share == 0


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_variant_keeps_the_books(scheme: str, variant: study.Variant) -> None:
    """Every second has a cause, all steps are done, and the last of them is saved."""
    checkpoints: list[int] = []
    asked = load_scenario("spare-sound", settings_of(variant, scheme, 60, 3, 200))
    record = run(asked, 3, on_checkpoint=lambda steps, now_s: checkpoints.append(steps))
    assert record["failures"] > 0
    assert sum(record[f"{cause}_s"] for cause in CAUSES) == pytest.approx(record["time_s"])
    assert record["completed_steps"] == 200
    assert checkpoints[-1] == 200
    assert record["checkpoints"] >= 1
    # Useful are all steps, each once, at nominal pace.
    assert record["compute_s"] == pytest.approx(200 * asked.compute_s)


def test_seeds_are_paired_and_the_interval_is_students(runs: pd.DataFrame) -> None:
    """One seed, one sequence of failures: without dropped groups in the way they are the same."""
    table = changes_of(runs)
    chosen = table[
        (table.metric == "gpu_hours_ratio")
        & (table.variant == "rejoin 3 h + 20 % spares")
        & (table.strategy == "spare")
        & (table.redundancy == 2)
    ]
    cell = runs[(runs.strategy == "spare") & (runs.redundancy == 2)].set_index("seed")
    plain = cell[cell.variant == "plain"].time_to_train_ratio
    ours = cell[cell.variant == "rejoin 3 h + 20 % spares"].time_to_train_ratio
    differences = [1.2 * ours[seed] - plain[seed] for seed in range(SEEDS)]
    row = chosen.iloc[0]
    assert row.change == pytest.approx(mean(differences) / plain.mean())
    # Student's t for 2 degrees of freedom is 4.303.
    half = 4.303 * stdev(differences) / sqrt(SEEDS) / plain.mean()
    assert row.change_high - row.change == pytest.approx(half, rel=1e-3)
    assert len(table) == 2 * (len(VARIANTS) - 1) * 4


def test_spares_cost_gpu_hours(runs: pd.DataFrame) -> None:
    shares = runs.variant.map({variant.name: variant.spare_share for variant in VARIANTS})
    expected = runs.time_to_train_ratio * (1 + shares)
    assert runs.gpu_hours_ratio.to_list() == pytest.approx(expected.to_list())


def test_the_best_redundancy_is_that_of_the_least_mean(runs: pd.DataFrame) -> None:
    best = best_redundancies(runs)
    assert len(best) == len(SCHEMES) * len(VARIANTS)
    assert list(best.variant[: len(VARIANTS)]) == [variant.name for variant in VARIANTS]
    means = runs.groupby(["strategy", "variant", "redundancy"]).time_to_train_ratio.mean()
    for row in best.itertuples():
        of_this = means[row.strategy, row.variant]
        assert row.redundancy == of_this.idxmin()
        assert row.time_to_train_ratio == pytest.approx(of_this.min())
    assert best[best.variant == "plain"].best_change.isna().all()


@pytest.mark.slow
def test_rows_tables_and_figures(runs: pd.DataFrame, saved_bytes: Callable[[Figure], int]) -> None:
    results, asked = results_of(runs), AdaptiveStudy()
    rows = list(asked.rows(results))
    assert len(rows) == 4 * len(VARIANTS) * 3 + len(results["changes"])
    assert all(row.published is None and row.low <= row.simulated <= row.high for row in rows)
    json.dumps([row.as_dict() for row in rows], allow_nan=False)
    shown = [table.frame for table in asked.shown(results, rows)]
    assert [len(frame) for frame in shown] == [len(VARIANTS) - 1] * 2 + [2 * len(VARIANTS)]
    dynamic, rejoin = asked.headline(results, rows)
    assert "at r = 2" in dynamic
    assert "GPU-hours" in rejoin
    for draw in asked.figures(results).values():
        assert len(draw().axes) <= 4
        assert saved_bytes(draw()) > 10_000


def test_a_single_seed_has_no_interval(runs: pd.DataFrame) -> None:
    results = results_of(runs[runs.seed == 0])
    changed = [row for row in AdaptiveStudy().rows(results) if row.quantity.startswith("change_of")]
    assert all(row.low == row.simulated == row.high for row in changed)
    assert "±" not in study.dynamic_sentence(results["changes"], 200)
    assert "GPU-hours" in study.rejoin_sentence(results["best"], 200)


@pytest.mark.slow
def test_the_whole_study_from_the_command_line(ask: Ask, tmp_path: Path) -> None:
    rows = {
        (row["quantity"], row["scheme"], row["setting"]): row
        for row in ask.reproduced("adaptive", tmp_path, "--seeds", "2")
    }
    cells = len(VARIANTS) * sum(len(REDUNDANCIES[scheme]) for scheme in SCHEMES)
    assert sum(quantity == "time_to_train_ratio" for quantity, _, _ in rows) == cells
    # Twenty per cent of spares hold more than is down for want of a repair on average: 36 of 200.
    spares = rows["time_to_train_ratio", "spare", "N=200 r=2 rejoin 3 h + 20 % spares"]
    plain = rows["time_to_train_ratio", "spare", "N=200 r=2 plain"]
    assert spares["simulated"] < 0.8 * plain["simulated"]
    names = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert names == {
        *(f"{table}.csv" for table in ("runs", "changes", "best", "rows")),
        "badput-200.png",
        *(f"{figure}-{scheme}-200.png" for figure in ("curves", "changes") for scheme in SCHEMES),
    }
