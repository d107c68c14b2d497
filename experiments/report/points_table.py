"""All points of a sweep: means over seeds, with their spread."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.analysis.numbers import decimals_for, is_missing
from faultline.experiments.analysis.selection import gave_up_rows, is_numeric_axis
from faultline.experiments.analysis.time_units import time_unit
from faultline.experiments.report.naming import axis_title, axis_value
from faultline.experiments.report.tables import (
    Cell,
    Column,
    Row,
    Table,
    interval_cell,
    number_cell,
    text_cell,
)

MOST_ROWS = 2_000


def points(frame: pd.DataFrame, axes: list[str]) -> pd.DataFrame:
    """Return a row a point, in the order of the sweep.

    Parameters
    ----------
    frame : DataFrame
        A row a run, failed ones included.
    axes : list of str
        What tells points apart.

    Returns
    -------
    DataFrame
        The axes, how many runs are ``ok``, ``failed`` and ``gave_up``, means over the good ones
        (``time_s``, ``goodput``, ``checkpoint_s``, ``ratio``, ``availability``, ``restarts``), the
        ``checkpoint_steps``, the standard deviation ``ratio_deviation`` over seeds (NaN for one
        seed), the ``redundancy`` and the ``scenario_hash`` (missing where all runs failed).
    """
    good = frame["status"] == "ok"
    runs = frame.assign(
        ok=good.astype(int),
        failed=(~good).astype(int),
        gave_up=gave_up_rows(frame).astype(int),
    )
    keys = [runs[axis] for axis in axes] or [pd.Series(0, index=runs.index)]
    grouped = runs.groupby(keys, dropna=False, sort=False)
    table = grouped.agg(
        ok=("ok", "sum"),
        failed=("failed", "sum"),
        gave_up=("gave_up", "sum"),
        time_s=("time_s", "mean"),
        goodput=("goodput", "mean"),
        checkpoint_steps=("checkpoint_interval_steps", "first"),
        checkpoint_s=("checkpoint_interval_s", "mean"),
        ratio=("time_to_train_ratio", "mean"),
        ratio_deviation=("time_to_train_ratio", "std"),
        availability=("availability", "mean"),
        restarts=("restarts", "mean"),
        redundancy=("redundancy", "first"),
        scenario_hash=("scenario_hash", "first"),
    )
    return table.reset_index() if axes else table.reset_index(drop=True)


def points_table(table: pd.DataFrame, axes: list[str]) -> Table:
    """Return the first points for the page, sortable by every column."""
    unit = time_unit(table["time_s"])
    shown = table.head(MOST_ROWS)
    # What is nowhere but zero tells nothing.
    troubles = [name for name in ("failed", "gave_up") if table[name].any()]
    resolved = _redundancy_is_news(table, axes)
    columns = [
        *(
            Column(axis_title(axis), "number" if is_numeric_axis(table, axis) else "text")
            for axis in axes
        ),
        *([Column("redundancy played")] if resolved else []),
        Column("runs"),
        *(Column(name.replace("_", " ")) for name in troubles),
        Column(f"time ({unit.name})"),
        Column("goodput"),
        Column("checkpoint every", "text"),
        Column("time-to-train ratio"),
        Column("spread ±"),
        Column("availability"),
        Column("restarts"),
        Column("scenario", "text"),
    ]
    decimals = decimals_for(table["time_s"] / unit.seconds)
    rows = [
        Row(
            (
                *(_axis_cell(axis, row[axis]) for axis in axes),
                *([number_cell(row["redundancy"], 0)] if resolved else []),
                number_cell(row["ok"], 0),
                *(number_cell(row[name], 0) for name in troubles),
                number_cell(_divided(row["time_s"], unit.seconds), decimals),
                number_cell(_divided(row["goodput"], 0.01), 1, " %"),
                interval_cell(row["checkpoint_steps"], row["checkpoint_s"]),
                number_cell(row["ratio"], 3),
                number_cell(row["ratio_deviation"], 3),
                number_cell(_divided(row["availability"], 0.01), 1, " %"),
                number_cell(row["restarts"], 1),
                text_cell(row["scenario_hash"]),
            )
        )
        for row in shown.to_dict(orient="records")
    ]
    return Table(
        "points-table",
        "Means over seeds; a click on a heading sorts by it, another one the other way round",
        tuple(columns),
        tuple(rows),
    )


def _redundancy_is_news(table: pd.DataFrame, axes: list[str]) -> bool:
    """Whether the redundancy that was played says more than the one that was asked for."""
    if "strategy.redundancy" not in axes:
        return bool(table["redundancy"].nunique() > 1)
    left_open = table["strategy.redundancy"].isna()
    return bool((table.loc[left_open, "redundancy"] > 1).any())


def _axis_cell(axis: str, value: object) -> Cell:
    text = axis_value(axis, value)
    if is_missing(value) or isinstance(value, (bool, str)):
        return Cell(text)
    return Cell(text, str(value))


def _divided(value: float, divisor: float) -> float | None:
    return None if is_missing(value) else value / divisor
