"""The study of dynamic checkpoints and returning groups: cells, effects, tables and figures."""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

import pandas as pd
import pytest
from faultline.experiments.cli import main
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies import all_reproductions
from faultline.experiments.studies.adaptive import effects, figures, tables, variants
from faultline.experiments.studies.adaptive.study import cell_rows, change_rows
from faultline.experiments.studies.adaptive.variants import (
    REDUNDANCIES,
    SCHEMES,
    VARIANTS,
    number_of_runs,
    run_variants,
    settings_of,
)
from faultline.simulator.badput import CAUSES

SEEDS = 3


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variants, "REDUNDANCIES", {"spare": (2, 3, 9), "replication": (3,)})
        table = run_variants([200], 200, SEEDS, 1)
        assert len(table) == number_of_runs([200], SEEDS)
    return table


def test_it_is_registered_with_five_seeds() -> None:
    assert all_reproductions()["adaptive"].default_seeds == 5
    assert all_reproductions()["spare"].default_seeds == 3


def test_names_are_unique_and_spares_scale_with_the_job() -> None:
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)
    assert [variant.spare_groups(200) for variant in VARIANTS if variant.spare_share] == [
        10,
        20,
        40,
        40,
    ]
    assert VARIANTS[0].settings == ()
    assert VARIANTS[0].spare_share == 0


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_variant_keeps_the_books(scheme: str, variant: variants.Variant) -> None:
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
    assert record["compute_s"] == pytest.approx(200 * asked.job.compute_s)


def test_seeds_are_paired_and_the_interval_is_students(runs: pd.DataFrame) -> None:
    """One seed, one sequence of failures: without dropped groups in the way they are the same."""
    table = effects.changes(runs)
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
    best = effects.best_redundancies(runs)
    assert len(best) == len(SCHEMES) * len(VARIANTS)
    assert list(best.variant[: len(VARIANTS)]) == [variant.name for variant in VARIANTS]
    means = runs.groupby(["strategy", "variant", "redundancy"]).time_to_train_ratio.mean()
    for row in best.itertuples():
        of_this = means[row.strategy, row.variant]
        assert row.redundancy == of_this.idxmin()
        assert row.time_to_train_ratio == pytest.approx(of_this.min())
    assert best[best.variant == "plain"].best_change.isna().all()


def test_rows_tables_and_figures(runs: pd.DataFrame, tmp_path: Path) -> None:
    table, best = effects.changes(runs), effects.best_redundancies(runs)
    rows = [*cell_rows(runs), *change_rows(table)]
    assert len(rows) == 4 * len(VARIANTS) * 3 + len(table)
    assert all(row.published is None and row.low <= row.simulated <= row.high for row in rows)
    json.dumps([row.as_dict() for row in rows], allow_nan=False)
    shown = tables.changes_table(table, 200, "spare")
    assert shown.row_count == len(VARIANTS) - 1
    assert tables.best_table(best, 200).row_count == len(best)
    assert "at r = 2" in tables.dynamic_sentence(table, 200)
    assert "GPU-hours" in tables.rejoin_sentence(best, 200)
    for path in (
        figures.draw_curves(runs, 200, tmp_path / "curves.png"),
        figures.draw_changes(table, 200, tmp_path / "changes.png"),
        figures.draw_causes(runs, best, 200, tmp_path / "badput.png"),
    ):
        assert path.stat().st_size > 10_000


def test_a_single_seed_has_no_interval(runs: pd.DataFrame) -> None:
    one = runs[runs.seed == 0]
    table = effects.changes(one)
    assert all(row.low == row.simulated == row.high for row in change_rows(table))
    assert "±" not in tables.dynamic_sentence(table, 200)
    assert "GPU-hours" in tables.rejoin_sentence(effects.best_redundancies(one), 200)


@pytest.mark.slow
def test_the_whole_study_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "adaptive", "--seeds", "2", "--json", "-o", str(tmp_path)]) == 0
    rows = {
        (row["quantity"], row["scheme"], row["setting"]): row
        for row in json.loads(capsys.readouterr().out)
    }
    cells = len(VARIANTS) * sum(len(REDUNDANCIES[scheme]) for scheme in SCHEMES)
    assert sum(quantity == "time_to_train_ratio" for quantity, _, _ in rows) == cells
    # Twenty per cent of spares hold more than is down for want of a repair on average: 36 of 200.
    spares = rows["time_to_train_ratio", "spare", "N=200 r=2 rejoin 3 h + 20 % spares"]
    plain = rows["time_to_train_ratio", "spare", "N=200 r=2 plain"]
    assert spares["simulated"] < 0.8 * plain["simulated"]
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        *(f"{table}.csv" for table in ("runs", "changes", "best")),
        *(f"{figure}-200.png" for figure in ("curves", "changes", "badput")),
    }
