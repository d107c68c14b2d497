"""The paired comparison as the page shows it."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, Literal

from faultline.experiments.analysis.numbers import MISSING, decimals_for
from faultline.experiments.analysis.selection import is_numeric_axis
from faultline.experiments.analysis.time_units import time_unit
from faultline.experiments.report.answer import interval_text, is_clear
from faultline.experiments.report.naming import axis_title, axis_value, choice_name
from faultline.experiments.report.standings import Standings
from faultline.experiments.report.tables import (
    Cell,
    Column,
    Row,
    Table,
    interval_cell,
    number_cell,
    text_cell,
)

_MOST_ROWS = 200


def comparison_table(order: Standings) -> Table:
    """Return the choices under each condition, soonest first."""
    best = order.best()
    rows = best.to_dict(orient="records")
    unit = time_unit(best["time_s"])
    columns = (
        Column("scheme and setting", "text"),
        *(Column(axis_title(axis), condition_kind(order, axis)) for axis in order.conditions),
        Column(f"time ({unit.name})"),
        Column("goodput"),
        Column("checkpoint every", "text"),
        Column("time-to-train ratio"),
        Column("longer than soonest"),
        Column("95 % interval"),
        Column("pairs"),
        Column("verdict", "text"),
    )
    decimals = decimals_for(best["time_s"] / unit.seconds)
    cells = []
    for row in rows[:_MOST_ROWS]:
        finished = math.isfinite(row["mean"])
        time = row["time_s"] / unit.seconds if finished else None
        cells.append(
            Row(
                (
                    text_cell(choice_name(row, order.knobs)),
                    *(text_cell(axis_value(axis, row[axis])) for axis in order.conditions),
                    number_cell(time, decimals),
                    number_cell(100 * row["goodput"], 1, " %"),
                    interval_cell(row["checkpoint_steps"], row["checkpoint_s"]),
                    number_cell(row["mean"] if finished else None, 3),
                    *_difference(row),
                    text_cell(_verdict(row)),
                ),
                best=row["place"] == 1 and finished,
            )
        )
    caption = "Each scheme at its best setting against the soonest, paired by seed"
    if best["strategy"].nunique() == 1:
        caption = "The best settings against the soonest, paired by seed"
    if order.conditions:
        caption += ", under each condition"
    if len(rows) > _MOST_ROWS:
        caption += f" (the first {_MOST_ROWS:,} of {len(rows):,} rows)"
    return Table("comparison-table", caption, columns, tuple(cells))


def condition_kind(order: Standings, axis: str) -> Literal["number", "text"]:
    """Return how a column of a condition is set."""
    return "number" if is_numeric_axis(order.choices, axis) else "text"


def _difference(row: dict[Hashable, Any]) -> tuple[Cell, Cell, Cell]:
    if row["place"] == 1 or math.isnan(row["change"]):
        return Cell(MISSING), Cell(MISSING), Cell(MISSING)
    interval = MISSING if math.isnan(row["low"]) else interval_text(row)
    return (
        number_cell(100 * row["change"], 1, " %"),
        Cell(interval),
        number_cell(row["pairs"], 0),
    )


def _verdict(row: dict[Hashable, Any]) -> str:
    if math.isinf(row["mean"]):
        return "did not finish"
    if row["place"] == 1:
        return "soonest"
    if math.isnan(row["low"]):
        return "later; chance unknown"
    return "later" if is_clear(row) else "not told apart"
