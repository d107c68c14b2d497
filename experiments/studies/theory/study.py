"""Closed forms of Lee et al. 2026 (SPARe, arXiv 2603.00357) beside Monte Carlo and the simulator.

Mean failures masked, work of a step, time to a wipe-out, best redundancy: the paper's forms, the
forms derived here, and what random failures and simulated jobs say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.studies.base import Draw, Results, Row, Study, Tables, row_of, rows_by
from faultline.experiments.studies.stage import Stage
from faultline.experiments.studies.theory import comparisons, figures, jobs, tables

PAPER_MEAN_FAILURES_ERROR = 0.0113
PAPER_LEAST_WORK_ERROR = 0.0060
PAPER_WORK_ERROR = 0.04
PAPER_GROUPS = (200, 600, 1000)
_CURVES = ((200, 9), (1000, 9))
_READ_AS = (
    "X is the number of the failure that ends a life. μ is read as E[X] - 1 (failures outlived), "
    "as E[X] - 1/2, which its integral estimates, and as E[X]; 'here' are the forms that count "
    "hosts shared by types, and lives of all lengths.\n"
)


class TheoryStudy(Study):
    """The closed forms beside simulation, cell by cell.

    A `published` value is the paper's closed form or stated accuracy.
    """

    def play(self, stage: Stage) -> Results:
        """Draw failures, match stacks, run jobs, and work out the closed forms of all that."""
        cells = stage.pick(comparisons.fewer_cells(), comparisons.all_cells())
        asked = [(cell, comparisons.STANDARD_ERROR, 0) for cell in cells]
        counts = stage.calls("failures to a wipe-out", comparisons.compare_counts, asked)
        works = stage.calls("matching", comparisons.compare_work, comparisons.PUBLISHED)
        curves = stage.calls("patch compute", comparisons.patch_by_failure, _CURVES)
        chosen = stage.pick(jobs.published_cells(), jobs.all_cells())
        runs = jobs.compare_jobs(stage, chosen)
        lives = stage.calls("times", comparisons.compare_times, comparisons.TIMES)
        with stage.step("best redundancy"):
            best = jobs.compare_redundancies()
        return {
            "counts": comparisons.with_errors(counts),
            "work": pd.DataFrame(works),
            "curves": dict(zip(_CURVES, curves, strict=True)),
            "runs": runs,
            "jobs": jobs.by_cell(runs),
            "times": pd.DataFrame(list(chain.from_iterable(lives))),
            "redundancies": best,
        }

    def tables(self, results: Results) -> Tables:
        """Return all tables but that of the single runs."""
        return {name: each for name, each in super().tables(results).items() if name != "runs"}

    def rows(self, results: Results) -> Iterator[Row]:
        """Return the cells of Monte Carlo, matching, jobs and times, each with its form's error."""
        yield from _accuracy_rows(results["counts"], results["jobs"])
        for cell in results["counts"].itertuples():
            where = cell.scheme, f"N={cell.groups} r={cell.redundancy}"
            spread = cell.simulated, cell.standard_error
            yield _estimate("mean_failures", *where, cell.plain, *spread, "failures")
            error = cell.closed_error, cell.standard_error / cell.simulated
            yield _estimate("mean_failures_closed_error", *where, None, *error, "1")
        patch = {"one_stack": "stacks", "one_stack_error": "1",
                 "as_needed": "stacks", "as_needed_error": "1"}  # fmt: skip
        names = {column: f"patch_{column}" for column in patch}
        cell_of_work = "N={groups:.0f} r={redundancy:.0f}"
        yield from rows_by(
            results["work"].rename(columns=names), ["groups", "redundancy"],
            {names[column]: unit for column, unit in patch.items()}, cell_of_work, "spare",
        )  # fmt: skip
        yield from _job_rows(results["runs"])
        for life in results["times"].itertuples():
            setting = f"N=200 r={life.redundancy} shape={life.shape:g} {life.age} groups"
            where = life.scheme, setting
            spread = life.simulated_s, life.standard_error_s
            yield _estimate("time_to_wipe_out", *where, life.plain_s, *spread, "s")
            error = life.closed_s / life.simulated_s - 1, life.standard_error_s / life.simulated_s
            yield _estimate("time_to_wipe_out_error", *where, None, *error, "1")

    def figures(self, results: Results) -> Mapping[str, Draw]:
        """Return the figures: errors, replication, patch compute, stacks, times."""
        return {
            "errors.png": partial(figures.draw_errors, results["counts"]),
            "replication.png": partial(figures.draw_replication, results["counts"]),
            "patch-compute.png": partial(figures.draw_work, results["curves"]),
            "stacks.png": partial(figures.draw_stacks, results["jobs"]),
            "times.png": partial(figures.draw_times, results["times"]),
        }

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterable[Printed | str]:
        """Return the tables, and how the columns are to be read."""
        lives = results["times"]
        yield tables.counts_table(results["counts"])
        yield _READ_AS
        yield tables.replication_table(results["counts"], 200)
        yield tables.work_table(results["work"])
        yield from tables.jobs_tables(results["jobs"])
        yield tables.times_table(lives)
        yield (
            f"T_f is within {_worst(lives.closed_s / lives.simulated_s - 1):.1%} of Monte Carlo "
            f"(standard error up to {_worst(lives.standard_error_s / lives.simulated_s):.1%}).\n"
        )
        yield tables.redundancies_table(results["redundancies"])

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say how far the closed forms can be trusted."""
        return (closing_sentence(results["counts"], results["jobs"]),)


def closing_sentence(counts: pd.DataFrame, cells: pd.DataFrame) -> str:
    """Say how far the closed forms can be trusted, the paper's and those derived here."""
    spare = counts[counts.scheme == "spare"]
    paper = spare[spare.groups.isin(PAPER_GROUPS)]
    sets = counts[(counts.scheme == "replication") & (counts.groups % counts.redundancy == 0)]
    jobs_of_spare = cells[cells.strategy == "spare"]
    return (
        f"Failures to a wipe-out: the paper's μ is within {_worst(paper.plain_error_middle):.2%} "
        f"of Monte Carlo for its N (it reports {PAPER_MEAN_FAILURES_ERROR:.2%}), the form derived "
        f"here within {_worst(spare.closed_error):.2%} for all N; for replication μ is "
        f"{_worst(sets.plain_error_fatal):.0%} off, and the exact form within "
        f"{_worst(counts[counts.scheme == 'replication'].closed_error):.2%}. Mean stacks of "
        f"simulated jobs: predicted within {_worst(jobs_of_spare.stacks_error):.1%} "
        f"(the paper reports {PAPER_WORK_ERROR:.0%})."
    )


def _worst(errors: pd.Series) -> float:
    return float(errors.abs().max())


def _accuracy_rows(counts: pd.DataFrame, cells: pd.DataFrame) -> list[Row]:
    spare = counts[counts.scheme == "spare"]
    paper = spare[spare.groups.isin(PAPER_GROUPS)]
    where = "N=200, 600, 1000, all r"
    claims = (
        ("plain_error_middle", where, PAPER_MEAN_FAILURES_ERROR, paper.plain_error_middle),
        ("plain_error_outlived", where, PAPER_MEAN_FAILURES_ERROR, paper.plain_error_outlived),
        ("plain_work_error", where, PAPER_LEAST_WORK_ERROR, paper.plain_work_error),
        ("closed_error", "all N, all r", None, spare.closed_error),
        ("closed_work_error", "all N, all r", None, spare.closed_work_error),
        (
            "stacks_error",
            "simulated jobs",
            PAPER_WORK_ERROR,
            cells[cells.strategy == "spare"].stacks_error,
        ),
    )
    return [
        row_of(f"largest_{name}", "spare", setting, reported, [_worst(errors)], "1")
        for name, setting, reported, errors in claims
    ]


def _estimate(
    quantity: str,
    scheme: str,
    setting: str,
    published: float | None,
    mean: float,
    standard_error: float,
    unit: str,
) -> Row:
    """Return the row of a Monte Carlo mean with its 95 % confidence interval."""
    half_width = 1.96 * standard_error
    return Row(
        quantity, scheme, setting, published, mean, mean - half_width, mean + half_width, unit
    )


def _job_rows(runs: pd.DataFrame) -> Iterator[Row]:
    quantities = {"mean_stacks": "stacks", "time_to_train_ratio": "1"}
    errors = {f"{name}_error": runs[f"predicted_{name}"] / runs[name] - 1 for name in quantities}
    measured = {name: unit for each, unit in quantities.items()
                for name, unit in ((each, unit), (f"{each}_error", "1"))}  # fmt: skip
    keys = ["rules", "distribution", "strategy", "groups", "redundancy"]
    setting = "N={groups} r={redundancy} {distribution} {rules}"
    return rows_by(runs.assign(**errors), keys, measured, setting)
