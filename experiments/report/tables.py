"""Tables of the page: the text of cells, and the numbers by which it sorts them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import pandas as pd
from faultline.experiments.analysis.printing import folded_table
from faultline.experiments.analysis.quantities import (
    MISSING,
    fixed,
    is_missing,
    quantity,
    setting_text,
    shown_value,
    steps_text,
)
from faultline.experiments.analysis.selection import is_numeric_axis
from faultline.experiments.figures.palette import look_of
from rich.table import Table as ScreenTable

ROWS_SHOWN = 30

Mapped = Mapping[Any, Any]
"""A row of a DataFrame: its values by column."""


class Cell(NamedTuple):
    """The text of a cell, and its exact number if it has one."""

    text: str
    number: str | None = None


class Row(NamedTuple):
    """A row; the page highlights the best one."""

    cells: tuple[Cell, ...]
    best: bool = False


class Column(NamedTuple):
    """A column: its heading, the cell of a row, and the kind of its content.

    ``prose`` is text of several lines.
    """

    title: str
    cell: Callable[[Mapped], Cell]
    kind: Literal["number", "text", "prose"] = "number"


@dataclass(frozen=True, slots=True)
class Table:
    """A table."""

    name: str  # Identifier in the page.
    caption: str  # A sentence.
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = field(default=())  # Each row has a cell per column.


def table_of(
    name: str,
    caption: str,
    columns: Iterable[Column],
    rows: Iterable[Mapped],
    is_best: Callable[[Mapped], bool] = lambda _: False,
) -> Table:
    """Return a table with a row for each of `rows`."""
    columns = tuple(columns)
    made = (Row(tuple(column.cell(row) for column in columns), is_best(row)) for row in rows)
    return Table(name, caption, columns, tuple(made))


def on_screen(table: Table, heading_width: int = 9) -> ScreenTable:
    """Return a table for a terminal, with at most `ROWS_SHOWN` rows."""
    left_out = f"{ROWS_SHOWN} of {len(table.rows):,} rows; --csv FILE writes all"
    return folded_table(
        ([cell.text for cell in row.cells] for row in table.rows[:ROWS_SHOWN]),
        ((column.title, column.kind == "number") for column in table.columns),
        heading_width,
        title=table.caption,
        caption=left_out if len(table.rows) > ROWS_SHOWN else None,
    )


def rows_of(frame: pd.DataFrame, at_most: int) -> list[Mapped]:
    """Return the first rows of a frame."""
    return list(frame.head(at_most).to_dict(orient="records"))


def text_cell(text: object) -> Cell:
    """Return a cell of text."""
    return Cell(MISSING if is_missing(text) else str(text))


def text(title: str, key: str, kind: Literal["text", "prose"] = "text") -> Column:
    """Return a column of text."""
    return Column(title, lambda row: text_cell(row[key]), kind)


def number(title: str, key: str, decimals: int, factor: float = 1.0, unit: str = "") -> Column:
    """Return a column of numbers times `factor`: rounded text, and a precise number for sorting."""

    def cell(row: Mapped) -> Cell:
        if is_missing(row[key]):
            return Cell(MISSING)
        value = row[key] * factor
        exact = "Infinity" if math.isinf(value) else f"{value:.9g}"
        return Cell(fixed(value, decimals) + unit, exact)

    return Column(title, cell)


def percent(title: str, key: str) -> Column:
    """Return a column of shares in percent."""
    return number(title, key, 1, 100.0, " %")


def axis_column(axis: str, frame: pd.DataFrame) -> Column:
    """Return a column of an axis of a sweep, sorted by its value; its heading names the unit."""

    def cell(row: Mapped) -> Cell:
        value = row[axis]
        if is_missing(value):
            return Cell(MISSING)
        words = look_of(value).label if axis == "strategy.name" else shown_value(axis, value)
        return Cell(words, None if isinstance(value, (bool, str)) else str(value))

    kind: Literal["number", "text"] = "number" if is_numeric_axis(frame, axis) else "text"
    return Column(quantity(axis).with_unit, cell, kind)


def checkpoint_column() -> Column:
    """Return a column of checkpoint intervals, in steps and in time, sorted by the time."""

    def cell(row: Mapped) -> Cell:
        steps, span_s = row["checkpoint_steps"], row["checkpoint_s"]
        if is_missing(steps) or is_missing(span_s):
            return Cell(MISSING)
        return Cell(steps_text(int(steps), span_s), f"{span_s:.9g}")

    return Column("checkpoint every", cell, "text")


def choice_name(row: Mapped, knobs: Iterable[str]) -> str:
    """Return a scheme with its redundancy and other knobs: ``SPARe + checkpoint, r = 9``."""
    return ", ".join(filter(None, (look_of(row["strategy"]).label, knobs_name(row, knobs))))


def knobs_name(row: Mapped, knobs: Iterable[str]) -> str:
    """Return the knobs of a choice: ``r = 9, checkpoint interval = 12 steps``.

    A row has the simulated ``redundancy`` (1 is none), and the knobs by dotted keys. A knob without
    a value does not exist for the scheme.
    """
    redundancy = None if row["redundancy"] == 1 else row["redundancy"]
    others = {knob: row[knob] for knob in knobs if knob != "strategy.redundancy"}
    return setting_text({"strategy.redundancy": redundancy, **others})
