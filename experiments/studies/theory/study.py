"""Closed forms of Lee et al. 2026 (SPARe, arXiv 2603.00357) beside Monte Carlo and the simulator.

Mean failures masked, work of a step, time to a wipe-out, best redundancy: the paper's forms, the
forms derived here, and what random failures and simulated jobs say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import pandas as pd
from faultline.experiments.analysis.printing import Columns, Printed, columns_of
from faultline.experiments.studies.base import Results, Row, Study, Tables
from faultline.experiments.studies.data import published_value, read_rows
from faultline.experiments.studies.stage import Stage
from faultline.experiments.studies.theory import comparisons, figures

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

    def simulate(self, stage: Stage) -> Results:
        """Match stacks, run jobs, and work out the closed forms beside all samples."""
        sampled = read_rows("theory", "counts"), read_rows("theory", "times")
        counts = stage.calls("failures to a wipe-out", comparisons.compare_counts, sampled[0])
        works = stage.calls("matching", comparisons.compare_work, comparisons.PUBLISHED)
        curves = stage.calls("patch compute", comparisons.patch_by_failure, _CURVES)
        chosen = stage.pick(comparisons.published_jobs(), comparisons.all_jobs())
        runs = comparisons.compare_jobs(stage, chosen)
        lives = stage.calls("times", comparisons.compare_times, sampled[1])
        with stage.step("best redundancy"):
            best = comparisons.compare_redundancies()
        return {
            "counts": comparisons.with_errors(counts),
            "work": pd.DataFrame(works),
            "curves": dict(zip(_CURVES, curves, strict=True)),
            "runs": runs,
            "jobs": comparisons.by_cell(runs),
            "times": pd.DataFrame(lives),
            "redundancies": best,
        }

    def tables(self, results: Results) -> Tables:
        """Return all tables but that of the single runs."""
        return {name: each for name, each in super().tables(results).items() if name != "runs"}

    def row_tables(self, results: Results) -> Results:
        """Return the results as ``data/rows.csv`` names them, estimates with their 95 % ends."""
        runs = results["runs"]
        errors = {
            f"{name}_error": runs[f"predicted_{name}"] / runs[name] - 1
            for name in ("mean_stacks", "time_to_train_ratio")
        }
        return {
            **results,
            "accuracy": largest_errors(results["counts"], results["jobs"]),
            "counts": estimated_counts(results["counts"]),
            "runs": runs.assign(**errors),
            "times": estimated_times(results["times"]),
        }

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
    reported, reported_work = (
        published_value("theory", f"largest_{name}", "spare", "")
        for name in ("plain_error_middle", "stacks_error")
    )
    return (
        f"Failures to a wipe-out: the paper's μ is within {_worst(paper.plain_error_middle):.2%} "
        f"of Monte Carlo for its N (it reports {reported:.2%}), the form derived "
        f"here within {_worst(spare.closed_error):.2%} for all N; for replication μ is "
        f"{_worst(sets.plain_error_fatal):.0%} off, and the exact form within "
        f"{_worst(counts[counts.scheme == 'replication'].closed_error):.2%}. Mean stacks of "
        f"simulated jobs: predicted within {_worst(jobs_of_spare.stacks_error):.1%} "
        f"(the paper reports {reported_work:.0%})."
    )


def _worst(errors: pd.Series) -> float:
    return float(errors.abs().max())


def largest_errors(counts: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return how far off the closed forms are at worst."""
    spare = counts[counts.scheme == "spare"]
    paper = spare[spare.groups.isin(PAPER_GROUPS)]
    where = "N=200, 600, 1000, all r"
    found = (
        ("plain_error_middle", where, paper),
        ("plain_error_outlived", where, paper),
        ("plain_work_error", where, paper),
        ("closed_error", "all N, all r", spare),
        ("closed_work_error", "all N, all r", spare),
        ("stacks_error", "simulated jobs", cells[cells.strategy == "spare"]),
    )
    return pd.DataFrame(
        {"quantity": f"largest_{name}", "setting": setting, "value": _worst(table[name])}
        for name, setting, table in found
    )


def estimated_counts(counts: pd.DataFrame) -> pd.DataFrame:
    """Return mean failures beside the paper's form, and how far the form used here is from them."""
    found = []
    for cell in counts.itertuples():
        where = {"scheme": cell.scheme, "setting": f"N={cell.groups} r={cell.redundancy}"}
        mean = {"quantity": "mean_failures", "unit": "failures", "published": cell.plain}
        found.append(where | mean | _estimate(cell.simulated, cell.standard_error))
        error = {"quantity": "mean_failures_closed_error", "unit": "1"}
        spread = cell.standard_error / cell.simulated
        found.append(where | error | _estimate(cell.closed_error, spread))
    return pd.DataFrame(found)


def estimated_times(times: pd.DataFrame) -> pd.DataFrame:
    """Return times to a wipe-out as `estimated_counts` returns failures."""
    found = []
    for life in times.itertuples():
        setting = f"N=200 r={life.redundancy} shape={life.shape:g} {life.age} groups"
        where = {"scheme": life.scheme, "setting": setting}
        mean = {"quantity": "time_to_wipe_out", "unit": "s", "published": life.plain_s}
        found.append(where | mean | _estimate(life.simulated_s, life.standard_error_s))
        error = {"quantity": "time_to_wipe_out_error", "unit": "1"}
        spread = life.standard_error_s / life.simulated_s
        found.append(where | error | _estimate(life.closed_s / life.simulated_s - 1, spread))
    return pd.DataFrame(found)


def _estimate(mean: float, standard_error: float) -> dict[str, float]:
    """Return a Monte Carlo mean with its 95 % confidence interval."""
    half = 1.96 * standard_error
    return {"value": mean, "low": mean - half, "high": mean + half}


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
