"""The tables of closed forms beside simulation, for the screen."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from faultline.experiments.analysis.printing import Printed

_PERCENT = "{:+.1%}"


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
    by_groups = counts[counts.scheme == "spare"].groupby("groups")
    rows = [
        {"N": groups, **{column: _largest(mine, column) for column in columns}}
        for groups, mine in by_groups
    ]
    return Printed(
        "SPARe: largest error of closed forms against Monte Carlo over all r (worst)",
        pd.DataFrame(rows),
        dict.fromkeys(columns, str),
        columns,
    )


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
    columns = {
        "redundancy": "r",
        "last_set": "last set",
        "simulated": "simulated",
        "closed": "exact",
        "closed_error": "difference",
        "plain": "paper",
        "plain_error_fatal": "difference",
    }
    return Printed(
        f"Replication, N = {groups}: mean failures up to and with the wipe-out",
        shown[list(columns)],
        {"simulated": str, "closed": "{:.2f}", "closed_error": "{:+.2%}", "plain": "{:.2f}",
         "plain_error_fatal": _PERCENT},
        columns,
    )  # fmt: skip


def work_table(work: pd.DataFrame) -> Printed:
    """Return stacks and patch compute over failures: real matching beside closed forms."""
    columns = {
        "groups": "N",
        "redundancy": "r",
        "stacks": "S",
        "closed_stacks": "closed",
        "one_stack": "ρ",
        "closed_one_stack": "closed",
        "one_stack_error": "±",
        "as_needed": "as-needed",
        "as_needed_error": "±",
        "work_error": "S + ρ ±",
    }
    return Printed(
        "SPARe a failure: stacks S, patch compute ρ (one-stack, as-needed)",
        work[list(columns)],
        {name: _PERCENT if name.endswith("error") else "{:.3f}" for name in list(columns)[2:]},
        columns,
    )


def jobs_tables(cells: pd.DataFrame) -> Iterator[Printed]:
    """Yield simulated jobs beside their prediction, a table for each set of rules and failures."""
    columns = {
        "strategy": "scheme",
        "groups": "N",
        "redundancy": "r",
        "mean_stacks": "S̄",
        "predicted_mean_stacks": "closed",
        "stacks_error": "±",
        "plain_work_error": "bound ±",
        "time_to_train_ratio": "ratio",
        "predicted_time_to_train_ratio": "closed",
        "ratio_error": "±",
    }
    formats = {name: _PERCENT for name in columns if name.endswith("error")}
    formats |= {name: "{:.3f}" for name in columns if name.endswith("mean_stacks")}
    formats |= {name: "{:.2f}" for name in columns if name.endswith("ratio")}
    for (rules, distribution), mine in cells.groupby(["rules", "distribution"], sort=False):
        title = f"Whole jobs, {rules}, {distribution}: simulated, and closed forms"
        yield Printed(title, mine[list(columns)], formats, columns)


def times_table(times: pd.DataFrame) -> Printed:
    """Return T_f / (mu m) by Weibull shape, and the best checkpoint period at the study's 0.78."""
    rows = []
    for (age, scheme, redundancy), mine in times.groupby(["age", "scheme", "redundancy"]):
        study = mine[mine["shape"] == 0.78].iloc[0]
        ratios = mine.closed_s / mine.plain_s
        shapes = {f"{shape:g}": ratio for shape, ratio in zip(mine["shape"], ratios, strict=True)}
        best = {"T_c*": study.plain_period_s, "best": study.best_period_s}
        both = f"{study.availability:.1%}, {study.best_availability:.1%}"
        rows.append(
            {"groups": age, "scheme": scheme, "r": redundancy, **shapes, **best, "A of both": both}
        )
    frame = pd.DataFrame(rows)
    periods = dict.fromkeys(("T_c*", "best"), "{:,.0f} s")
    return Printed(
        "T_f / (μ m) by Weibull shape, N = 200; best period at shape 0.78",
        frame,
        {**dict.fromkeys(frame.columns[3:-3], "{:.2f}"), **periods, "A of both": str},
    )


def redundancies_table(rows: pd.DataFrame) -> Printed:
    """Return which redundancy is best by rule, objective, prediction and publication."""
    columns = {
        "scheme": "scheme",
        "groups": "N",
        "rule": "rule",
        "objective": "least J(r)",
        "predicted": "predicted",
        "near": "within 1 %",
        "published": "published",
    }
    title = "Best redundancy, rules of the study, Weibull failures"
    return Printed(title, rows[list(columns)], {"near": str}, columns)
