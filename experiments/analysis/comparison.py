"""Paired comparison: the same seed and the same setting, but for one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import grouped_by, half_width
from faultline.experiments.analysis.quantities import is_missing
from faultline.experiments.analysis.selection import gave_up_rows, is_knob


def unmatched_axes(
    ours: pd.DataFrame, baseline: pd.DataFrame, axes: Sequence[str]
) -> tuple[str, ...]:
    """Return the knobs on which runs of two values cannot agree.

    These are knobs without a common value, such as the redundancy where one of two schemes has
    none: each side keeps its own, and every combination is compared. What is not the user's choice,
    such as the failures, must be the same on both sides.
    """
    return tuple(
        axis
        for axis in axes
        if is_knob(axis) and set(_keys(ours[axis])).isdisjoint(_keys(baseline[axis]))
    )


def _keys(values: pd.Series) -> list[Any]:
    # NaN is not equal to itself, but two missing values do match.
    return [None if is_missing(value) else value for value in values.unique()]


def paired_runs(
    runs: pd.DataFrame,
    by: str,
    value: Any,
    baseline: Any,
    axes: Sequence[str],
    metric: str,
    own: Sequence[str] = (),
) -> pd.DataFrame:
    """Pair the runs of a value of an axis with those of the baseline.

    Parameters
    ----------
    runs : DataFrame
        Successful runs, a row each, with the column ``seed``.
    by : str
        The axis compared.
    value, baseline : object
        Two of its values.
    axes : sequence of str
        The other axes.
    metric : str
        The column compared.
    own : sequence of str
        Axes that are not to be matched, even where they could be.

    Returns
    -------
    DataFrame
        A row a pair: the other axes (of the value's side), ``seed``, ``ours``, ``theirs``,
        ``gave_up`` and ``baseline_gave_up``; axes that could not be matched once more with the
        prefix ``baseline `` for the baseline's side.
    """
    ours, theirs = (
        runs.loc[runs[by] == chosen, [*axes, *own, "seed", metric]].assign(
            gave_up=gave_up_rows(runs).astype(int)
        )
        for chosen in (value, baseline)
    )
    apart = (*unmatched_axes(ours, theirs, axes), *own)
    shared = [axis for axis in axes if axis not in apart]
    renamed = theirs.rename(
        columns={metric: "theirs", "gave_up": "baseline_gave_up"}
        | {axis: f"baseline {axis}" for axis in apart}
    )
    return ours.rename(columns={metric: "ours"}).merge(renamed, on=[*shared, "seed"])


def compare(
    runs: pd.DataFrame,
    by: str,
    baseline: Any,
    axes: Sequence[str],
    metric: str,
    *,
    own: Sequence[str] = (),
    over_all: bool = False,
) -> pd.DataFrame:
    """Compare each value of an axis with the baseline, with 95 % intervals by paired t.

    Parameters
    ----------
    runs, by, baseline, axes, metric, own
        As in `paired_runs`.
    over_all : bool
        Average over all settings of the other axes, as far as they are paired in every seed;
        otherwise there is a row for each setting.

    Returns
    -------
    DataFrame
        A row a value and setting: `by`, the axes, ``mean`` and ``baseline_mean``, ``difference``
        of the two, its ``low`` and ``high`` (NaN where there are fewer than two pairs, or where a
        value is infinite), ``change`` (the difference as a fraction of the baseline's mean; NaN
        where that is zero or infinite), ``pairs`` (seeds), ``settings`` averaged over, and how many
        of the runs ``gave_up`` and of the baseline's (``baseline_gave_up``).
    """
    others = [value for value in runs[by].dropna().unique() if value != baseline]
    tables = []
    for value in others:
        pairs = paired_runs(runs, by, value, baseline, axes, metric, own)
        labels = [
            column
            for column in pairs.columns
            if column not in {"seed", "ours", "theirs", "gave_up", "baseline_gave_up"}
        ]
        if over_all:
            pairs, labels = _mean_of_settings(pairs, labels), []
        else:
            pairs = pairs.assign(settings=1)
        tables.append(_summary(pairs, labels).assign(**{by: value}))
    tables = [table for table in tables if not table.empty]
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[by])
    return table[[by, *(column for column in table.columns if column != by)]]


def unpaired_runs(
    runs: pd.DataFrame, by: str, baseline: Any, axes: Sequence[str]
) -> dict[Any, int]:
    """Count, for each value of an axis but the baseline, the runs that have no partner there."""
    counts = {}
    numbered = runs.assign(number=range(len(runs)))
    for value in runs[by].dropna().unique():
        if value != baseline:
            pairs = paired_runs(numbered, by, value, baseline, axes, "number")
            counts[value] = int((runs[by] == value).sum()) - pairs["ours"].nunique()
    return counts


def _mean_of_settings(pairs: pd.DataFrame, labels: list[str]) -> pd.DataFrame:
    """Give each seed one pair: its mean over the settings that every seed has.

    Pairs of one seed share their failures, so they are no independent sample; seeds are.
    """
    seeds = pairs["seed"].nunique()
    if labels:
        sizes = pairs.groupby(labels, dropna=False)["seed"].transform("nunique")
        pairs = pairs[sizes == seeds]
    columns = ["ours", "theirs"]
    means = pairs.groupby("seed", as_index=False)[columns].mean()
    counts = pairs.groupby("seed", as_index=False).agg(
        settings=("ours", "size"),
        gave_up=("gave_up", "sum"),
        baseline_gave_up=("baseline_gave_up", "sum"),
    )
    return means.merge(counts, on="seed")


def _summary(pairs: pd.DataFrame, labels: list[str]) -> pd.DataFrame:
    with np.errstate(invalid="ignore"):
        pairs = pairs.assign(difference=pairs["ours"] - pairs["theirs"])
    # In the order of the seeds: sums of floats depend on theirs.
    pairs = pairs.sort_values("seed", kind="stable")
    table = grouped_by(pairs, labels).agg(
        mean=("ours", "mean"),
        baseline_mean=("theirs", "mean"),
        deviation=("difference", "std"),
        pairs=("seed", "size"),
        settings=("settings", "first"),
        gave_up=("gave_up", "sum"),
        baseline_gave_up=("baseline_gave_up", "sum"),
    )
    table = table.reset_index(drop=not labels)
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = table["mean"] - table["baseline_mean"]
        change = difference / table["baseline_mean"].abs()
    half = half_width(table["deviation"], table["pairs"])
    table.insert(len(labels) + 2, "difference", difference)
    table.insert(len(labels) + 3, "low", difference - half)
    table.insert(len(labels) + 4, "high", difference + half)
    table.insert(len(labels) + 5, "change", change.where(np.isfinite(change)))
    return table.drop(columns="deviation")
