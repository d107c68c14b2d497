"""The tables of results: the paired comparison, and failed runs."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
from faultline.experiments.analysis.quantities import MISSING, decimals_for, time_unit
from faultline.experiments.report.standings import Standings, interval_text, is_clear
from faultline.experiments.report.tables import (
    MOST_ON_SCREEN,
    Mapped,
    Table,
    TableColumn,
    axis_column,
    checkpoint_column,
    choice_name,
    number,
    percent,
    rows_of,
    table_of,
    text,
)

_MOST_COMPARED = 200
_MOST_FAILED = 500


def _choice_columns(order: Standings) -> tuple[TableColumn, ...]:
    """Return the columns that identify a row's choice and condition."""
    return (
        TableColumn("scheme and setting", lambda row: choice_name(row, order.knobs), "text"),
        *(axis_column(axis, order.choices) for axis in order.conditions),
    )


def _time_column(times_s: pd.Series) -> TableColumn:
    unit = time_unit(times_s)
    decimals = decimals_for(times_s / unit.seconds)
    return number(f"time ({unit.name})", "time_s", decimals, 1 / unit.seconds)


def _cost_columns(best: pd.DataFrame, price_per_gpu_hour: float | None) -> tuple[TableColumn, ...]:
    """Return columns of GPU-hours (in thousands or millions if large) and of costs."""
    largest = float(best["gpu_hours"].where(best["gpu_hours"] < math.inf).max())
    scales = ((1e6, "million "), (1e3, "thousand "))
    scale, unit = next((pair for pair in scales if largest >= 10 * pair[0]), (1.0, ""))
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

    A `brief` table, for a terminal, has six columns, of which none is on the confidence of the
    order.
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
        _where(_is_compared, TableColumn("95 % interval", _interval_cell)),
        _where(_is_compared, number("pairs", "pairs", 0)),
        TableColumn("verdict", _verdict, "text"),
    )
    columns = (*judged, *details)[:MOST_ON_SCREEN] if brief else (*judged, *compared, *details)
    return table_of(
        "comparison-table",
        caption,
        columns,
        rows_of(best, _MOST_COMPARED),
        lambda row: row["place"] == 1 and _is_finished(row),
    )


def _where(holds: Callable[[Mapped], bool], column: TableColumn) -> TableColumn:
    return column._replace(cell=lambda row: column.cell(row) if holds(row) else MISSING)


def _is_finished(row: Mapped) -> bool:
    return math.isfinite(row["mean"])


def _is_compared(row: Mapped) -> bool:
    """Return whether a choice has pairs with the soonest, and is another one."""
    return bool(row["place"] != 1 and not math.isnan(row["change"]))


def _interval_cell(row: Mapped) -> str:
    return MISSING if math.isnan(row["low"]) else interval_text(row)


def _verdict(row: Mapped) -> str:
    if math.isinf(row["mean"]):
        return "did not finish"
    if row["place"] == 1:
        return "soonest"
    if math.isnan(row["low"]):
        return "later; chance unknown"
    return "later" if is_clear(row) else "not significant"


def failed_table(failed: pd.DataFrame) -> Table:
    """Return the runs without a record, with their errors."""
    columns = (text("run", "run_id"), number("seed", "seed", 0), text("error", "error", "prose"))
    shown = f" (the first {_MOST_FAILED} below)" if len(failed) > _MOST_FAILED else ""
    count = "1 run" if len(failed) == 1 else f"{len(failed):,} runs"
    caption = f"{count} failed{shown}"
    return table_of("failed-table", caption, columns, rows_of(failed, _MOST_FAILED))
