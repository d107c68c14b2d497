"""Tables for the screen, from data frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table

Columns = Mapping[str, str | tuple[str, str | Callable[[Any], str]]]
"""Columns by name: their headings, or heading and how it is written (`Printed.formats`)."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A table for the screen.

    Attributes
    ----------
    title : str
        What it shows.
    frame : DataFrame
        What it holds.
    formats : mapping
        How columns are written: a format string of the value (``"{:.2f}"``) or a function;
        others as they are, and missing values as nothing.
    names : mapping
        Headings, where they are not the column's name.
    note : str
        A sentence below it.
    """

    title: str
    frame: pd.DataFrame
    formats: Mapping[str, str | Callable[[Any], str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def columns_of(
    title: str,
    frame: pd.DataFrame,
    columns: Columns,
) -> Printed:
    """Return a table of some columns of a frame, in their order."""
    told = {name: (how,) if isinstance(how, str) else how for name, how in columns.items()}
    formats = {name: how[1] for name, how in told.items() if len(how) > 1}
    return Printed(title, frame[list(told)], formats, {name: how[0] for name, how in told.items()})


def printed(table: Printed) -> Table:
    """Return a table as rich draws it: numbers to the right, missing values empty."""
    shown = Table(
        title=table.title,
        caption=table.note or None,
        title_justify="left",
        caption_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column, values in table.frame.items():
        numbers = column in table.formats or pd.api.types.is_numeric_dtype(values)
        shown.add_column(
            table.names.get(str(column), str(column)),
            justify="right" if numbers else "left",
            no_wrap=numbers,
        )
    for row in table.frame.itertuples(index=False):
        cells = zip(table.frame.columns, row, strict=True)
        shown.add_row(*(_cell(value, table.formats.get(column)) for column, value in cells))
    return shown


def _cell(value: Any, how: str | Callable[[Any], str] | None) -> str:
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return ""
    if how is None:
        return str(value)
    return how.format(value) if isinstance(how, str) else how(value)
