"""Tables as the page shows them: text to read, and the numbers that it is sorted by."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from faultline.experiments.analysis.numbers import MISSING, fixed, is_missing
from faultline.experiments.analysis.time_units import steps_text


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, and whether it holds numbers, names, or sentences."""

    title: str
    kind: Literal["number", "text", "prose"] = "number"


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a cell, and its exact number if it has one."""

    text: str
    number: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row; the best one is set off."""

    cells: tuple[Cell, ...]
    best: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes
    ----------
    name : str
        Its identifier in the page.
    caption : str
        What it shows, in a sentence.
    columns, rows
        What it holds; each row has a cell for each column.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = field(default=())


def text_cell(text: object) -> Cell:
    """Return a cell of words."""
    return Cell(MISSING if is_missing(text) else str(text))


def number_cell(value: float | None, decimals: int, unit: str = "") -> Cell:
    """Return a cell of a number: rounded to be read, and exact enough to be sorted by."""
    if is_missing(value) or value is None:
        return Cell(MISSING)
    shown = fixed(value, decimals) + unit
    return Cell(shown, "Infinity" if math.isinf(value) else f"{value:.9g}")


def interval_cell(steps: float, span_s: float) -> Cell:
    """Return a cell of a checkpoint interval, in steps and in time, sorted by the time."""
    if is_missing(steps) or is_missing(span_s):
        return Cell(MISSING)
    return Cell(steps_text(int(steps), span_s), f"{span_s:.9g}")
