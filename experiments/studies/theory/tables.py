"""The tables of closed forms beside simulation, for the screen."""

from __future__ import annotations

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table


def counts_table(counts: pd.DataFrame) -> Table:
    """Show the largest errors of SPARe's closed forms over all redundancies, a row an N."""
    table = _table("SPARe: largest error of closed forms against Monte Carlo over all r (worst)")
    columns = {
        "μ: E[X]-1": "plain_error_outlived",
        "E[X]-1/2": "plain_error_middle",
        "E[X]": "plain_error_fatal",
        "here": "closed_error",
        "least S̄": "plain_work_error",
        "here ": "closed_work_error",
    }
    for name in ("N", *columns):
        table.add_column(name, justify="right", no_wrap=True)
    for groups, mine in counts[counts.scheme == "spare"].groupby("groups"):
        table.add_row(str(groups), *(_largest(mine, column) for column in columns.values()))
    return table


def _largest(rows: pd.DataFrame, column: str) -> str:
    worst = rows.loc[rows[column].abs().idxmax()]
    return f"{worst[column]:+.1%} ({worst.redundancy})"


def replication_table(counts: pd.DataFrame, groups: int) -> Table:
    """Show mean failures to the wipe-out of replication: simulated, exact, and the paper's form."""
    table = _table(f"Replication, N = {groups}: mean failures up to and with the wipe-out")
    for name in ("r", "last set", "simulated", "exact", "difference", "paper", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    chosen = counts[(counts.scheme == "replication") & (counts.groups == groups)]
    for row in chosen.itertuples():
        table.add_row(
            str(row.redundancy),
            str(groups % row.redundancy or row.redundancy),
            f"{row.simulated:.2f} ± {row.standard_error:.2f}",
            f"{row.closed:.2f}",
            f"{row.closed_error:+.2%}",
            f"{row.plain:.2f}",
            f"{row.plain_error_fatal:+.1%}",
        )
    return table


def work_table(work: pd.DataFrame) -> Table:
    """Show stacks and patch compute over failures: real matching beside closed forms."""
    table = _table("SPARe a failure: stacks S, patch compute ρ (one-stack, as-needed)")
    names = ("N", "r", "S", "closed", "ρ", "closed", "±", "as-needed", "±", "S + ρ ±")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in work.itertuples():
        table.add_row(
            str(row.groups),
            str(row.redundancy),
            f"{row.stacks:.3f}",
            f"{row.closed_stacks:.3f}",
            f"{row.one_stack:.3f}",
            f"{row.closed_one_stack:.3f}",
            f"{row.one_stack_error:+.1%}",
            f"{row.as_needed:.3f}",
            f"{row.as_needed_error:+.1%}",
            f"{row.work_error:+.1%}",
        )
    return table


def jobs_tables(cells: pd.DataFrame) -> list[Table]:
    """Show simulated jobs beside their prediction, a table for each set of rules and failures."""
    return [
        _jobs_table(f"Whole jobs, {rules}, {distribution}: simulated, and closed forms", mine)
        for (rules, distribution), mine in cells.groupby(["rules", "distribution"], sort=False)
    ]


def _jobs_table(title: str, cells: pd.DataFrame) -> Table:
    table = _table(title)
    table.add_column("scheme", no_wrap=True)
    for name in ("N", "r", "S̄", "closed", "±", "bound ±", "ratio", "closed", "±"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in cells.itertuples():
        bound = "" if pd.isna(row.plain_work_error) else f"{row.plain_work_error:+.1%}"
        table.add_row(
            row.strategy,
            str(row.groups),
            str(row.redundancy),
            f"{row.mean_stacks:.3f}",
            f"{row.predicted_mean_stacks:.3f}",
            f"{row.stacks_error:+.1%}",
            bound,
            f"{row.time_to_train_ratio:.2f}",
            *_unless_missing(row.predicted_time_to_train_ratio, row.ratio_error),
        )
    return table


def _unless_missing(ratio: float, error: float) -> tuple[str, str]:
    return ("", "") if pd.isna(ratio) else (f"{ratio:.2f}", f"{error:+.1%}")


def times_table(times: pd.DataFrame) -> Table:
    """Show T_f / (mu m) by Weibull shape, and the best checkpoint period at the study's 0.78."""
    table = _table("T_f / (μ m) by Weibull shape, N = 200; best period at shape 0.78")
    for name in ("groups", "scheme"):
        table.add_column(name, no_wrap=True)
    shapes = sorted(times["shape"].unique())
    for name in ("r", *(f"{shape:g}" for shape in shapes), "T_c*", "best", "A of both"):
        table.add_column(name, justify="right", no_wrap=True)
    for (age, scheme, redundancy), mine in times.groupby(["age", "scheme", "redundancy"]):
        study = mine[mine["shape"] == 0.78].iloc[0]
        table.add_row(
            age,
            scheme,
            str(redundancy),
            *(f"{ratio:.2f}" for ratio in mine.closed_s / mine.plain_s),
            f"{study.plain_period_s:,.0f} s",
            f"{study.best_period_s:,.0f} s",
            f"{study.availability:.1%}, {study.best_availability:.1%}",
        )
    return table


def redundancies_table(rows: pd.DataFrame) -> Table:
    """Show which redundancy is best by rule, objective, prediction and publication."""
    table = _table("Best redundancy, rules of the study, Weibull failures")
    table.add_column("scheme", no_wrap=True)
    for name in ("N", "rule", "least J(r)", "predicted", "within 1 %", "published"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows.itertuples():
        table.add_row(
            row.scheme,
            str(row.groups),
            str(row.rule),
            str(row.objective),
            str(row.predicted),
            row.near,
            str(row.published),
        )
    return table


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
