"""The tables of results: the paired comparison, badput, all points, failed runs."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
from faultline.experiments.analysis.intervals import grouped_by
from faultline.experiments.analysis.quantities import MISSING, decimals_for, time_unit
from faultline.experiments.analysis.selection import gave_up_rows
from faultline.experiments.figures.badput import without_negative_waits
from faultline.experiments.report.standings import Standings, interval_text, is_clear
from faultline.experiments.report.tables import (
    Cell,
    Column,
    Mapped,
    Table,
    axis_column,
    checkpoint_column,
    choice_name,
    number,
    percent,
    rows_of,
    table_of,
    text,
    text_cell,
)
from faultline.simulator.badput import CAUSES, MEANINGS, USEFUL

MOST_POINTS = 2_000
_MOST_COMPARED = 200
_MOST_SHARES = 100
_MOST_FAILED = 500


def _choice_columns(order: Standings) -> tuple[Column, ...]:
    """Return the columns that identify a row's choice and condition."""
    return (
        Column("scheme and setting", lambda row: text_cell(choice_name(row, order.knobs)), "text"),
        *(axis_column(axis, order.choices) for axis in order.conditions),
    )


def _time_column(times_s: pd.Series) -> Column:
    unit = time_unit(times_s)
    decimals = decimals_for(times_s / unit.seconds)
    return number(f"time ({unit.name})", "time_s", decimals, 1 / unit.seconds)


def _cost_columns(best: pd.DataFrame, price_per_gpu_hour: float | None) -> tuple[Column, ...]:
    """Return columns of GPU-hours (in thousands or millions if large) and of costs."""
    if best["gpu_hours"].isna().all():
        return ()
    largest = float(best["gpu_hours"].where(best["gpu_hours"] < math.inf).max())
    scale, unit = next(
        (pair for pair in ((1e6, "M "), (1e3, "k ")) if largest >= 10 * pair[0]), (1.0, "")
    )
    digits = decimals_for(best["gpu_hours"] / scale)
    columns = (number(f"{unit}GPU-hours", "gpu_hours", digits, 1 / scale),)
    if price_per_gpu_hour is None:
        return columns
    factor = price_per_gpu_hour / scale
    title = f"cost ({unit}at {price_per_gpu_hour:g} per GPU-hour)"
    costs = number(title, "gpu_hours", decimals_for(best["gpu_hours"] * factor), factor)
    return (*columns, costs)


def comparison_table(
    order: Standings, price_per_gpu_hour: float | None = None, *, brief: bool = False
) -> Table:
    """Return the choices under each condition, soonest first; with costs if there is a price.

    A `brief` table has no columns on the confidence of the order.
    """
    best = order.best()
    many = best["strategy"].nunique() > 1
    caption = "Each scheme at its best setting" if many else "The best settings"
    if not brief:
        caption += " against the soonest, paired by seed"
    if order.conditions:
        caption += ", under each condition"
    if len(best) > _MOST_COMPARED:
        caption += f" (the first {_MOST_COMPARED:,} of {len(best):,} rows)"
    # The most important columns come first, for narrow windows.
    judged = (
        *_choice_columns(order),
        _where(_is_finished, _time_column(best["time_s"])),
        percent("goodput", "goodput"),
        *(_where(_is_finished, column) for column in _cost_columns(best, price_per_gpu_hour)),
    )
    details = (
        _where(_is_finished, number("time-to-train ratio", "mean", 3)),
        checkpoint_column(),
        *([percent("MFU", "mfu")] if best["mfu"].notna().any() else []),
    )
    compared = (
        _where(_is_compared, percent("longer than soonest", "change")),
        _where(_is_compared, Column("95 % interval", _interval_cell)),
        _where(_is_compared, number("pairs", "pairs", 0)),
        Column("verdict", lambda row: text_cell(_verdict(row)), "text"),
    )
    return table_of(
        "comparison-table",
        caption,
        (*judged, *(() if brief else compared), *details),
        rows_of(best, _MOST_COMPARED),
        lambda row: row["place"] == 1 and _is_finished(row),
    )


def _where(holds: Callable[[Mapped], bool], column: Column) -> Column:
    return column._replace(cell=lambda row: column.cell(row) if holds(row) else Cell(MISSING))


def _is_finished(row: Mapped) -> bool:
    return math.isfinite(row["mean"])


def _is_compared(row: Mapped) -> bool:
    """Return whether a choice has pairs with the soonest, and is another one."""
    return bool(row["place"] != 1 and not math.isnan(row["change"]))


def _interval_cell(row: Mapped) -> Cell:
    return Cell(MISSING if math.isnan(row["low"]) else interval_text(row))


def _verdict(row: Mapped) -> str:
    if math.isinf(row["mean"]):
        return "did not finish"
    if row["place"] == 1:
        return "soonest"
    if math.isnan(row["low"]):
        return "later; chance unknown"
    return "later" if is_clear(row) else "not significant"


def shares(order: Standings) -> pd.DataFrame:
    """Return the mean share of each cause in the simulated time, over the seeds of each choice.

    There is a row per condition and place, as in the standings, with ``time_s``, a column per cause
    (``restart_share``) and the sum of the useful ones (``useful_share``). The shares of all causes
    sum to 1.
    """
    columns = [f"{cause}_s" for cause in CAUSES]
    keys = [*order.conditions, "place"]
    means = order.runs_of_best().groupby(keys, dropna=False, as_index=False)[columns].mean()
    means = without_negative_waits(means)
    total_s = means[columns].sum(axis="columns")
    for cause in CAUSES:
        means[f"{cause}_share"] = means[f"{cause}_s"] / total_s
    means["useful_share"] = means[[f"{cause}_share" for cause in USEFUL]].sum(axis="columns")
    names = [*keys, "strategy", *order.knobs, "redundancy", "time_s"]
    return order.best()[names].merge(means.drop(columns=columns), on=keys)


def badput_table(order: Standings) -> Table:
    """Return the shares as percentages, without causes that took no time."""
    table = shares(order)
    causes = [cause for cause in CAUSES if (table[f"{cause}_share"].abs() >= 5e-4).any()]
    columns = (
        *_choice_columns(order),
        _time_column(table["time_s"]),
        percent("useful in all", "useful_share"),
        *(percent(MEANINGS[cause], f"{cause}_share") for cause in causes),
    )
    caption = "Share of the simulated time of all seeds together, by cause"
    if len(table) > _MOST_SHARES:
        caption += f" (the first {_MOST_SHARES} of {len(table):,} rows)"
    return table_of("badput-table", caption, columns, rows_of(table, _MOST_SHARES))


def points(frame: pd.DataFrame, axes: list[str]) -> pd.DataFrame:
    """Return a row per point, in the order of the sweep.

    The columns are the axes; the numbers of runs that are ``ok``, ``failed`` and ``gave_up``; means
    over runs without errors (``time_s``, ``goodput``, ``checkpoint_s``, ``ratio``,
    ``availability``, ``restarts``); ``checkpoint_steps``; the standard deviation
    ``ratio_deviation`` over seeds (NaN for one seed); ``redundancy`` and ``scenario_hash`` (missing
    if all runs failed).
    """
    good = frame["status"] == "ok"
    runs = frame.assign(
        ok=good.astype(int),
        failed=(~good).astype(int),
        gave_up=gave_up_rows(frame).astype(int),
    )
    table = grouped_by(runs, axes, sort=False).agg(
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
    return table.reset_index(drop=not axes)


def points_table(table: pd.DataFrame, axes: list[str]) -> Table:
    """Return the first points for the page, sortable by each column."""
    # Columns of zeros are left out.
    problems = [name for name in ("failed", "gave_up") if table[name].any()]
    resolved = _redundancy_is_news(table, axes)
    columns = (
        *(axis_column(axis, table) for axis in axes),
        *([number("redundancy simulated", "redundancy", 0)] if resolved else []),
        number("runs", "ok", 0),
        *(number(name.replace("_", " "), name, 0) for name in problems),
        _time_column(table["time_s"]),
        percent("goodput", "goodput"),
        checkpoint_column(),
        number("time-to-train ratio", "ratio", 3),
        number("spread ±", "ratio_deviation", 3),
        percent("availability", "availability"),
        number("restarts", "restarts", 1),
        text("scenario", "scenario_hash"),
    )
    caption = "Means over seeds; click a heading to sort by it, and again to reverse the order"
    return table_of("points-table", caption, columns, rows_of(table, MOST_POINTS))


def _redundancy_is_news(table: pd.DataFrame, axes: list[str]) -> bool:
    """Return whether the simulated redundancy differs from the stated one."""
    if "strategy.redundancy" not in axes:
        return bool(table["redundancy"].nunique() > 1)
    left_open = table["strategy.redundancy"].isna()
    return bool((table.loc[left_open, "redundancy"] > 1).any())


def failed_table(failed: pd.DataFrame, axes: list[str]) -> Table:
    """Return the runs without a record, with their errors."""
    columns = (
        text("run", "run_id"),
        *(axis_column(axis, failed)._replace(kind="text") for axis in axes),
        number("seed", "seed", 0),
        text("error", "error", "prose"),
    )
    shown = f" (the first {_MOST_FAILED} below)" if len(failed) > _MOST_FAILED else ""
    count = "1 run" if len(failed) == 1 else f"{len(failed):,} runs"
    caption = f"{count} failed{shown}"
    return table_of("failed-table", caption, columns, rows_of(failed, _MOST_FAILED))
