"""Each published table is what the code gives now: all of its rows, or a stated sample of them.

A sample is simulated with the seeds and settings of `.ci/publish`, so rows are the same to six
digits and more. A table that differs is made anew: ``make publish ARGS=RECIPE``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from math import inf
from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments.studies.base import Results
from faultline.experiments.studies.catalogue import load_study
from faultline.experiments.studies.claims import judged_rows
from faultline.experiments.studies.collectives.study import CollectivesStudy
from faultline.experiments.studies.head_to_head.comparison import HeadToHead, map_table, plan_cell
from faultline.experiments.studies.head_to_head.grids import (
    JOBS,
    LISTS,
    MAPS_OF,
    listed_cells,
    map_cells,
)
from faultline.experiments.studies.mecefo_convergence import study as convergence
from faultline.experiments.studies.spare import cells, rates
from faultline.experiments.studies.spare import study as spare
from faultline.experiments.studies.stage import Stage
from faultline.experiments.studies.step_time import study as step_time
from faultline.experiments.studies.step_time.predicting import Group, simulate
from faultline.experiments.studies.step_time.published import cases
from pandas.testing import assert_frame_equal
from rich.console import Console

PUBLISHED = Path(__file__).parents[1] / "results" / "published"
NAMES = sorted(path.stem for path in PUBLISHED.glob("*.csv"))

_WITHIN = 1e-6
"""Relative difference that is none: SimGrid's times differ by 1e-10, by what else was simulated."""
_OVERVIEW = ("spare-sound", "weibull", 200)
_JOB = ["rules", "distribution", "groups"]


def read_published(name: str) -> pd.DataFrame:
    return pd.read_csv(PUBLISHED / f"{name}.csv")


@dataclass(frozen=True)
class Table:
    """How a published table is simulated again."""

    recipe: str  # That of `.ci/publish`.
    keys: list[str]  # Columns that name a row.
    now: Callable[[Stage], pd.DataFrame]  # Returns rows of the table, with some of its columns.
    float_format: str | None = None  # How the study writes numbers.


def compare(name: str, published: pd.DataFrame, now: pd.DataFrame) -> None:
    """Fail where rows that the code gives now are not those of the published table."""
    table = TABLES[name]
    written = pd.read_csv(StringIO(now.to_csv(index=False, float_format=table.float_format)))
    kept = published.merge(written[table.keys]).reindex(columns=written.columns)
    order = {"by": table.keys, "ignore_index": True}
    assert_frame_equal(
        kept.sort_values(**order),
        written.sort_values(**order),
        check_dtype=False,
        rtol=_WITHIN,
        atol=1e-15,
        obj=f"{name}.csv, make publish ARGS={table.recipe}",
    )


def predicted_steps(stage: Stage) -> pd.DataFrame:
    """Three kinds of software; rows of at most 8 stages and 1,024 GPUs."""
    mine = [case for case in cases() if case.layout.pipeline <= 8 and case.gpus <= 1024]
    fitted = {case.label: case for case in mine if case.is_fitted}
    rows = []
    for label in ("A1 7.5B", "A7 175B 128", "A8 torchtitan 8B 8"):
        of_software = tuple(case for case in mine if case.software.fitted_on == label)
        rows.append(
            step_time.predictions(of_software, simulate(Group(of_software, fitted[label])).rows)
        )
    return pd.concat(rows, ignore_index=True)


def headline_runs(stage: Stage) -> pd.DataFrame:
    """The published redundancies, and those around the best under sound rules."""
    known = cells.headline()
    published = [
        cells.cell_of("spare-study", row.scheme, row.groups, row.redundancy)
        for row in known.itertuples()
    ]
    around = {"replication": (2, 3), "spare": (7, 8, 9)}
    sound = [
        cells.cell_of("spare-sound", scheme, groups, redundancy)
        for groups in cells.GROUPS
        for scheme, redundancies in around.items()
        for redundancy in redundancies
    ]
    return stage.runs("headline", cells.cell_points([*published, *sound], stage.seeds))


def savings(stage: Stage) -> pd.DataFrame:
    """All rows."""
    runs = headline_runs(stage)
    return spare.savings_of(runs, spare.headline_of(runs))


def sensitivity(stage: Stage) -> pd.DataFrame:
    """All rows."""
    runs = stage.runs(
        "sensitivity", cells.cell_points(cells.variants("assumption"), stage.seeds, "assumption")
    )
    return spare.best_of_sensitivity(runs)


def failure_rates(stage: Stage) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The job of the overview at all rates."""
    mine = [
        one for one in rates.settings() if (one.rules, one.distribution, one.groups) == _OVERVIEW
    ]
    return rates.sweep(stage, mine)


def rate_crossings(stage: Stage) -> pd.DataFrame:
    """The job of the overview."""
    runs, curves = failure_rates(stage)
    return rates.crossings(rates.best_runs(runs), curves)


def first_cell(plane: str) -> Callable[[Stage], pd.DataFrame]:
    """Return a planner of the first cell of a list."""

    def now(stage: Stage) -> pd.DataFrame:
        return pd.DataFrame(plan_cell(HeadToHead().plan(listed_cells(plane)[0])))

    return now


def first_of_a_map(stage: Stage) -> pd.DataFrame:
    """The first cell of the map of restarts."""
    cell = map_cells("head-to-head", "restart")[0]
    return map_table(pd.DataFrame(plan_cell(HeadToHead().plan(cell))))


def convergence_plans(stage: Stage) -> pd.DataFrame:
    """Failures and lost shares of all rows; losses are trained, which takes JAX and an hour."""
    rows = []
    for row in read_published("mecefo-convergence").itertuples():
        cell = convergence.TrainingCell(row.loss, str(row.rate), row.seed, 300, small=True)
        plans, failures = convergence.plans_of(cell)
        approximate = sum(plan.approximate_share for plan in plans)
        missing = sum(1.0 - plan.batch_share for plan in plans)
        share = (approximate + missing) / len(plans)
        rows.append((row.loss, row.rate, row.seed, failures, share))
    return pd.DataFrame(rows, columns=["loss", "rate", "seed", "failures", "final_share"])


def all_reduces(stage: Stage) -> Results:
    return CollectivesStudy().simulate(stage)


def rows_of(name: str) -> Callable[[Stage], pd.DataFrame]:
    """Return a simulation of all rows of a study."""

    def now(stage: Stage) -> pd.DataFrame:
        study = load_study(name)
        seeds = study.default_seeds
        own = Stage(stage.folder(name), Console(quiet=True), seeds=seeds)
        with own:
            rows = study.compared(study.simulate(own))
        return judged_rows(study.claims(), rows, study.within)

    return now


_CELL = ["plane", "x", "y", "scheme"]
_PREFIX = "head-to-head-"
TABLES = {
    **{
        f"{_PREFIX}{plane}": Table("head-to-head", _CELL, first_cell(plane), "%.5g")
        for plane in LISTS
    },
    f"{_PREFIX}maps": Table("head-to-head", ["job", "map", "x", "y"], first_of_a_map, "%.5g"),
    "collectives": Table(
        "collectives", ["setting", "size"], lambda stage: all_reduces(stage)["large"]
    ),
    "collectives-small": Table(
        "collectives", ["setting", "size"], lambda stage: all_reduces(stage)["small"]
    ),
    "step-time": Table("step-time", ["case", "unit"], predicted_steps),
    "step-time-errors": Table(
        "step-time", ["section"], lambda _: step_time.errors(read_published("step-time"))
    ),
    **{
        f"{name}-rows": Table(name, ["quantity", "scheme", "setting"], rows_of(name))
        for name in ("greyhound", "mecefo", "ntp", "operators", "recovery", "reft")
    },
    "spare-headline": Table(
        "spare", ["groups", "scheme"], lambda stage: spare.headline_of(headline_runs(stage))
    ),
    "spare-savings": Table("spare", ["groups", "rules"], savings),
    "spare-sound-sensitivity": Table("spare", ["assumption", "scheme"], sensitivity),
    "failure-rates": Table(
        "spare", [*_JOB, "mtbf_s", "strategy"], lambda stage: failure_rates(stage)[1]
    ),
    "failure-rates-crossings": Table("spare", [*_JOB, "often", "seldom"], rate_crossings),
    "mecefo-convergence": Table("mecefo-convergence", ["loss", "rate", "seed"], convergence_plans),
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Three seeds as published; runs are kept, as several tables are made of the same."""
    return Stage(tmp_path_factory.mktemp("tables"), Console(quiet=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_published_table_is_what_the_code_gives_now(name: str, stage: Stage) -> None:
    compare(name, read_published(name), TABLES[name].now(stage))


def test_each_published_table_is_simulated_again() -> None:
    assert sorted(TABLES) == NAMES


def test_every_map_has_all_its_cells() -> None:
    cells = read_published("head-to-head-maps")
    of_maps = cells.groupby(["job", "map"])
    sides = of_maps["x"].nunique() * of_maps["y"].nunique()
    assert of_maps.size().to_dict() == sides.to_dict()
    assert set(sides.index) == {(job, name) for job in JOBS for name in MAPS_OF[job]}
    assert cells["probability"].between(0.0, 1.0).all()
    assert (cells["cost"] <= cells["plain_cost"].fillna(inf) + 0.02).all()
    assert (cells["regret"] >= 0.0).all()
