"""Closed forms of Lee et al. 2026 (SPARe, arXiv 2603.00357) beside Monte Carlo and the simulator.

Mean failures masked, work of a step, time to a wipe-out, best redundancy: the paper's forms, the
forms derived here, and what random failures and simulated jobs say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import ClassVar

import pandas as pd
from faultline.experiments.analysis.printing import Columns, Printed, columns_of
from faultline.experiments.studies.base import Results, Row, Study, Tables, row_of, rows_by
from faultline.experiments.studies.stage import Stage
from faultline.experiments.studies.theory import comparisons, figures

PAPER_MEAN_FAILURES_ERROR = 0.0113
PAPER_LEAST_WORK_ERROR = 0.0060
PAPER_WORK_ERROR = 0.04
PAPER_GROUPS = (200, 600, 1000)
_PERCENT, _STACKS = "{:+.1%}", "{:.3f}"
_WORK: Columns = {
    "groups": "N",
    "redundancy": "r",
    "stacks": ("S", _STACKS),
    "closed_stacks": ("closed", _STACKS),
    "one_stack": ("ρ", _STACKS),
    "closed_one_stack": ("closed", _STACKS),
    "one_stack_error": ("±", _PERCENT),
    "as_needed": ("as-needed", _STACKS),
    "as_needed_error": ("±", _PERCENT),
    "work_error": ("S + ρ ±", _PERCENT),
}
_REDUNDANCIES: Columns = {
    "scheme": "scheme",
    "groups": "N",
    "rule": "rule",
    "objective": "least J(r)",
    "predicted": "predicted",
    "near": ("within 1 %", str),
    "published": "published",
}
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

    charts: ClassVar = {
        "errors.png": (figures.draw_errors, "counts"),
        "replication.png": (figures.draw_replication, "counts"),
        "patch-compute.png": (figures.draw_work, "curves"),
        "stacks.png": (figures.draw_stacks, "jobs"),
        "times.png": (figures.draw_times, "times"),
    }

    def play(self, stage: Stage) -> Results:
        """Draw failures, match stacks, run jobs, and work out the closed forms of all that."""
        cells = stage.pick(comparisons.fewer_cells(), comparisons.all_cells())
        asked = [(cell, comparisons.STANDARD_ERROR, 0) for cell in cells]
        counts = stage.calls("failures to a wipe-out", comparisons.compare_counts, asked)
        works = stage.calls("matching", comparisons.compare_work, comparisons.PUBLISHED)
        curves = stage.calls("patch compute", comparisons.patch_by_failure, _CURVES)
        chosen = stage.pick(comparisons.published_jobs(), comparisons.all_jobs())
        runs = comparisons.compare_jobs(stage, chosen)
        lives = stage.calls("times", comparisons.compare_times, comparisons.TIMES)
        with stage.step("best redundancy"):
            best = comparisons.compare_redundancies()
        return {
            "counts": comparisons.with_errors(counts),
            "work": pd.DataFrame(works),
            "curves": dict(zip(_CURVES, curves, strict=True)),
            "runs": runs,
            "jobs": comparisons.by_cell(runs),
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

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterable[Printed | str]:
        """Return the tables, and how the columns are to be read."""
        lives = results["times"]
        yield counts_table(results["counts"])
        yield _READ_AS
        yield replication_table(results["counts"], 200)
        title = "SPARe a failure: stacks S, patch compute ρ (one-stack, as-needed)"
        yield columns_of(title, results["work"], _WORK)
        yield from jobs_tables(results["jobs"])
        yield times_table(lives)
        yield (
            f"T_f is within {_worst(lives.closed_s / lives.simulated_s - 1):.1%} of Monte Carlo "
            f"(standard error up to {_worst(lives.standard_error_s / lives.simulated_s):.1%}).\n"
        )
        title = "Best redundancy, rules of the study, Weibull failures"
        yield columns_of(title, results["redundancies"], _REDUNDANCIES)

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
    jobs_of_spare = cells[cells.strategy == "spare"]
    where = "N=200, 600, 1000, all r"
    claims = (
        ("plain_error_middle", where, PAPER_MEAN_FAILURES_ERROR, paper),
        ("plain_error_outlived", where, PAPER_MEAN_FAILURES_ERROR, paper),
        ("plain_work_error", where, PAPER_LEAST_WORK_ERROR, paper),
        ("closed_error", "all N, all r", None, spare),
        ("closed_work_error", "all N, all r", None, spare),
        ("stacks_error", "simulated jobs", PAPER_WORK_ERROR, jobs_of_spare),
    )
    return [
        row_of(f"largest_{name}", "spare", setting, reported, [_worst(table[name])], "1")
        for name, setting, reported, table in claims
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
    half = 1.96 * standard_error
    return Row(quantity, scheme, setting, published, mean, mean - half, mean + half, unit)


def _job_rows(runs: pd.DataFrame) -> Iterator[Row]:
    quantities = {"mean_stacks": "stacks", "time_to_train_ratio": "1"}
    errors = {f"{name}_error": runs[f"predicted_{name}"] / runs[name] - 1 for name in quantities}
    measured = {name: unit for each, unit in quantities.items()
                for name, unit in ((each, unit), (f"{each}_error", "1"))}  # fmt: skip
    keys = ["rules", "distribution", "strategy", "groups", "redundancy"]
    setting = "N={groups} r={redundancy} {distribution} {rules}"
    return rows_by(runs.assign(**errors), keys, measured, setting)


def counts_table(counts: pd.DataFrame) -> Printed:
    """Return the largest errors of SPARe's closed forms over all redundancies, a row an N."""
    columns = {
        "plain_error_outlived": "μ: E[X]-1",
        "plain_error_middle": "E[X]-1/2",
        "plain_error_fatal": "E[X]",
        "closed_error": "here",
        "plain_work_error": "least S̄",
        "closed_work_error": "here",
    }
    rows = [
        {"N": groups, **{column: _largest(mine, column) for column in columns}}
        for groups, mine in counts[counts.scheme == "spare"].groupby("groups")
    ]
    title = "SPARe: largest error of closed forms against Monte Carlo over all r (worst)"
    return Printed(title, pd.DataFrame(rows), dict.fromkeys(columns, str), columns)


def _largest(rows: pd.DataFrame, column: str) -> str:
    worst = rows.loc[rows[column].abs().idxmax()]
    return f"{worst[column]:+.1%} ({worst.redundancy})"


def replication_table(counts: pd.DataFrame, groups: int) -> Printed:
    """Return failures to the wipe-out of replication: simulated, exact, and the paper's form."""
    mine = counts[(counts.scheme == "replication") & (counts.groups == groups)]
    both = zip(mine.simulated, mine.standard_error, strict=True)
    shown = mine.assign(
        last_set=[groups % r or r for r in mine.redundancy],
        simulated=[f"{mean:.2f} ± {error:.2f}" for mean, error in both],
    )
    columns: Columns = {
        "redundancy": "r",
        "last_set": "last set",
        "simulated": ("simulated", str),
        "closed": ("exact", "{:.2f}"),
        "closed_error": ("difference", "{:+.2%}"),
        "plain": ("paper", "{:.2f}"),
        "plain_error_fatal": ("difference", _PERCENT),
    }
    title = f"Replication, N = {groups}: mean failures up to and with the wipe-out"
    return columns_of(title, shown, columns)


def jobs_tables(cells: pd.DataFrame) -> Iterator[Printed]:
    """Yield simulated jobs beside their prediction, a table for each set of rules and failures."""
    columns: Columns = {
        "strategy": "scheme",
        "groups": "N",
        "redundancy": "r",
        "mean_stacks": ("S̄", _STACKS),
        "predicted_mean_stacks": ("closed", _STACKS),
        "stacks_error": ("±", _PERCENT),
        "plain_work_error": ("bound ±", _PERCENT),
        "time_to_train_ratio": ("ratio", "{:.2f}"),
        "predicted_time_to_train_ratio": ("closed", "{:.2f}"),
        "ratio_error": ("±", _PERCENT),
    }
    for (rules, distribution), mine in cells.groupby(["rules", "distribution"], sort=False):
        title = f"Whole jobs, {rules}, {distribution}: simulated, and closed forms"
        yield columns_of(title, mine, columns)


def times_table(times: pd.DataFrame) -> Printed:
    """Return T_f / (mu m) by Weibull shape, and the best checkpoint period at the study's 0.78."""
    rows = []
    for (age, scheme, redundancy), mine in times.groupby(["age", "scheme", "redundancy"]):
        study = mine[mine["shape"] == 0.78].iloc[0]
        ratios = mine.closed_s / mine.plain_s
        shapes = dict(zip(mine["shape"].map("{:g}".format), ratios, strict=True))
        best = {"T_c*": study.plain_period_s, "best": study.best_period_s}
        best["A of both"] = f"{study.availability:.1%}, {study.best_availability:.1%}"
        rows.append({"groups": age, "scheme": scheme, "r": redundancy, **shapes, **best})
    frame = pd.DataFrame(rows)
    periods = dict.fromkeys(("T_c*", "best"), "{:,.0f} s")
    return Printed(
        "T_f / (μ m) by Weibull shape, N = 200; best period at shape 0.78",
        frame,
        {**dict.fromkeys(frame.columns[3:-3], "{:.2f}"), **periods, "A of both": str},
    )
