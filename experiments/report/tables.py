"""Tables for the screen, the page and LaTeX: headings, and the texts of cells."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from faultline.experiments.analysis.printing import text_table
from faultline.experiments.analysis.quantities import (
    MISSING,
    fixed,
    heading,
    is_missing,
    setting_text,
    shown_value,
    steps_text,
)
from faultline.experiments.figures.palette import look_of
from rich.box import SIMPLE_HEAD
from rich.table import Table as ScreenTable

if TYPE_CHECKING:
    # Slow to import, and only tables of frames need it.
    import pandas as pd

ROWS_SHOWN = 30
MOST_ON_SCREEN = 6
"""Rows and columns of a table of results on a terminal of 80 columns; files have all."""

Mapped = Mapping[Any, Any]
"""A row of a DataFrame: its values by column."""
Format = str | Callable[[Any], str]
"""Text of a value: a format string (``"{:.2f}"``) or a function."""
Columns = Mapping[str, str | tuple[str, Format]]
"""Columns of a frame by name: a heading, or a heading and a format."""


class TableRow(NamedTuple):
    """A row; the page highlights the best one."""

    cells: tuple[str, ...]
    best: bool = False


class TableColumn(NamedTuple):
    """A column: its heading, the text of a row's cell, and the kind of its content.

    ``prose`` is text of several lines.
    """

    title: str
    cell: Callable[[Mapped], str]
    kind: Literal["number", "text", "prose"] = "number"


@dataclass(frozen=True, slots=True)
class Table:
    """A table."""

    name: str  # Identifier in the page.
    caption: str  # A sentence.
    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...] = field(default=())  # Each row has a cell per column.
    note: str = ""  # A sentence below the table on the screen.


def table_of(
    name: str,
    caption: str,
    columns: Iterable[TableColumn],
    rows: Iterable[Mapped],
    is_best: Callable[[Mapped], bool] = lambda _: False,
) -> Table:
    """Return a table with a row for each of `rows`."""
    columns = tuple(columns)
    made = (TableRow(tuple(column.cell(row) for column in columns), is_best(row)) for row in rows)
    return Table(name, caption, columns, tuple(made))


def columns_of(caption: str, frame: pd.DataFrame, columns: Columns, note: str = "") -> Table:
    """Return a table of some columns of a frame, in the order of `columns`.

    A column with a format has numbers; missing values are empty.
    """
    made = [_formatted(name, how, frame.dtypes[name]) for name, how in columns.items()]
    rows = frame[list(columns)].to_dict(orient="records")
    return replace(table_of("", caption, made, rows), note=note)


def wide_table(
    caption: str,
    cells: pd.DataFrame,
    rows: Columns,
    column: str,
    value: str = "text",
    means: str | None = None,
) -> Table:
    """Return a table with a column for each value of one of the columns of `cells`.

    Rows and columns have the order of `cells`; the columns `rows` distinguish the rows. A cell is
    the text in column `value`, or the mean of its numbers by the format `means`.
    """
    grouped = cells.groupby([*rows, column], sort=False)[value]
    wide = (grouped.first() if means is None else grouped.mean()).unstack(sort=False)
    wide = wide.rename(columns=str)
    shown: Columns = {**rows, **{name: (name, means or str) for name in wide.columns}}
    return columns_of(caption, wide.reset_index(), shown)


def _formatted(name: str, shown: str | tuple[str, Format], dtype: Any) -> TableColumn:
    """Return a column of a frame."""
    from pandas.api.types import is_numeric_dtype

    title, how = (shown, None) if isinstance(shown, str) else shown

    def cell(row: Mapped) -> str:
        value = row[name]
        if is_missing(value):
            return ""
        if how is None:
            return str(value)
        return how.format(value) if isinstance(how, str) else how(value)

    is_number = how is not None or is_numeric_dtype(dtype)
    return TableColumn(title, cell, "number" if is_number else "prose")


def on_screen(
    table: Table, heading_width: int = 9, rows_shown: int | None = ROWS_SHOWN
) -> ScreenTable:
    """Return a table for a terminal, with at most `rows_shown` rows.

    Headings take as many lines as they need: they are at most `heading_width` wide, but for words
    that are wider.
    """
    columns = [
        {
            "header": textwrap.fill(
                column.title, heading_width, break_long_words=False, break_on_hyphens=False
            ),
            "justify": "right" if column.kind == "number" else "left",
            # A long path in prose is wrapped, not cut by an ellipsis.
            "no_wrap": column.kind == "number",
            "overflow": "fold" if column.kind == "prose" else "ellipsis",
        }
        for column in table.columns
    ]
    rows = table.rows[:rows_shown]
    left_out = f"{rows_shown} of {len(table.rows):,} rows; -o FILE.csv writes all"
    return text_table(
        (row.cells for row in rows),
        columns,
        title=table.caption or None,
        title_style="italic",
        caption=left_out if len(rows) < len(table.rows) else table.note or None,
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )


def latex_of(table: Table, caption: str | None = None) -> str:
    """Return a table in LaTeX for the package booktabs, with numbers right-aligned."""
    import pandas as pd

    frame = pd.DataFrame([[_plain(cell) for cell in row.cells] for row in table.rows])
    text: str = frame.to_latex(
        index=False,
        header=[_escaped(_plain(column.title)) for column in table.columns],
        escape=True,
        column_format="".join("r" if one.kind == "number" else "l" for one in table.columns),
        caption=_escaped(_plain(caption or table.caption)),
    )
    return text


def _plain(text: str) -> str:
    """Return a text without characters that LaTeX's default fonts lack."""
    return text.replace("\N{MINUS SIGN}", "-").replace("\n", " ")


def _escaped(text: str) -> str:
    # pandas escapes only cells, not headings and captions.
    return "".join(f"\\{letter}" if letter in "&%$#_{}" else letter for letter in text)


def rows_of(frame: pd.DataFrame, at_most: int) -> list[Mapped]:
    """Return the first rows of a frame."""
    return list(frame.head(at_most).to_dict(orient="records"))


def known_text(value: object) -> str:
    """Return a value as text, or the mark of a missing one."""
    return MISSING if is_missing(value) else str(value)


def text(title: str, key: str, kind: Literal["text", "prose"] = "text") -> TableColumn:
    """Return a column of text."""
    return TableColumn(title, lambda row: known_text(row[key]), kind)


def number(title: str, key: str, decimals: int, factor: float = 1.0, unit: str = "") -> TableColumn:
    """Return a column of rounded numbers, times `factor`."""

    def cell(row: Mapped) -> str:
        return MISSING if is_missing(row[key]) else fixed(row[key] * factor, decimals) + unit

    return TableColumn(title, cell)


def percent(title: str, key: str) -> TableColumn:
    """Return a column of shares in percent."""
    return number(title, key, 1, 100.0, " %")


def axis_column(axis: str, frame: pd.DataFrame) -> TableColumn:
    """Return a column of an axis of a sweep."""
    from faultline.experiments.analysis.selection import is_numeric_axis

    def cell(row: Mapped) -> str:
        value = row[axis]
        if is_missing(value):
            return MISSING
        return look_of(value).label if axis == "strategy.name" else shown_value(axis, value)

    kind: Literal["number", "text"] = "number" if is_numeric_axis(frame, axis) else "text"
    return TableColumn(heading(axis), cell, kind)


def checkpoint_column() -> TableColumn:
    """Return a column of checkpoint intervals, in steps and in time."""

    def cell(row: Mapped) -> str:
        steps, span_s = row["checkpoint_steps"], row["checkpoint_s"]
        if is_missing(steps) or is_missing(span_s):
            return MISSING
        return steps_text(int(steps), span_s)

    return TableColumn("checkpoint every", cell, "text")


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
