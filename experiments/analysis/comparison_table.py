"""Comparisons as tables for people."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import Any

import pandas as pd
from faultline.experiments.analysis.comparison_report import Report
from faultline.experiments.analysis.numbers import MISSING, number_text
from faultline.experiments.analysis.quantities import Quantity, quantity, shown_value
from rich import box
from rich.table import Table

ROWS_SHOWN = 30
TITLE_WIDTH = 9

_TITLES = {
    "at_best": "each at its best",
    "overall": "over all settings",
    "settings": "setting by setting",
}
_NUMBERS = {
    "mean", "baseline_mean", "difference", "low", "high", "change", "pairs", "settings",
    "gave_up", "baseline_gave_up",
}  # fmt: skip
_BASELINE = "baseline "

_Row = dict[str, Any]


def rich_table(report: Report, section: str) -> Table:
    """Return a section of a comparison as a table; of very many rows, the first."""
    frame = report.sections[section]
    # What is the same in all rows, and in the baseline, tells nothing.
    keys = [key for key in frame.columns if key not in _NUMBERS and key != report.by]
    keys = [key for key in keys if _tells(frame, key)]
    theirs = [key for key in keys if key.startswith(_BASELINE)]
    ours = [key for key in keys if f"{_BASELINE}{key}" in theirs]
    shared = [key for key in keys if key not in {*ours, *theirs}]
    if shared:
        frame = frame.sort_values(shared, kind="stable", na_position="first")
    metric = quantity(report.metric)
    columns = _columns(report, ours, theirs, shared, metric.scale)
    columns += _count_columns(frame)

    table = Table(
        title=_title(section, frame, metric),
        title_justify="left",
        title_style="italic",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
    for title, is_number, _ in columns:
        lines = textwrap.fill(title, TITLE_WIDTH, break_long_words=False)
        table.add_column(lines, justify="right" if is_number else "left", no_wrap=True)
    for row in frame.head(ROWS_SHOWN).to_dict(orient="records"):
        table.add_row(*(text(row) for _, _, text in columns))
    if len(frame) > ROWS_SHOWN:
        table.caption = f"{ROWS_SHOWN} of {len(frame)} rows; --csv FILE writes all"
        table.caption_justify = "left"
    return table


def _tells(frame: pd.DataFrame, key: str) -> bool:
    paired = key if key.startswith(_BASELINE) else f"{_BASELINE}{key}"
    return paired in frame.columns or frame[key].nunique(dropna=False) > 1


_Column = tuple[str, bool, Callable[[_Row], str]]


def _columns(
    report: Report, ours: list[str], theirs: list[str], shared: list[str], scale: float
) -> list[_Column]:
    return [
        *(_key_column(key) for key in shared),
        _key_column(report.by),
        *(_key_column(key) for key in ours),
        ("mean", True, lambda row: number_text(row["mean"] * scale)),
        ("base", True, lambda row: number_text(row["baseline_mean"] * scale)),
        *(_key_column(key) for key in theirs),
        ("differs by", True, lambda row: _signed(row["difference"] * scale)),
        ("± (95 %)", True, lambda row: _half_width(row, scale)),
        ("change", True, lambda row: _percent(row["change"])),
    ]


def _key_column(key: str) -> _Column:
    column = key.removeprefix(_BASELINE)
    known = quantity(column)
    name = known.symbol or known.label
    title = f"{name} ({known.unit})" if known.unit else name
    title = f"base {title}" if key.startswith(_BASELINE) else title
    return title, False, lambda row: shown_value(column, row[key])


def _title(section: str, frame: pd.DataFrame, metric: Quantity) -> str:
    """Say what holds for all rows, so that it needs no column."""
    title = _TITLES[section]
    if metric.unit:
        title += f", in {metric.unit}"
    if frame["pairs"].nunique() == 1:
        title += f"; {_many(frame['pairs'].iloc[0], 'pair')} a row"
        if section == "overall":
            title += " (a seed each, averaged over settings)"
    return title


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}" + ("" if count == 1 else "s")


def _count_columns(frame: pd.DataFrame) -> list[_Column]:
    columns: list[_Column] = []
    if frame["pairs"].nunique() > 1:
        columns.append(("pairs", True, lambda row: str(row["pairs"])))
    if (frame["settings"] > 1).any():
        columns.append(("settings", True, lambda row: str(row["settings"])))
    if frame[["gave_up", "baseline_gave_up"]].to_numpy().any():
        columns.append(("gave up", True, lambda row: f"{row['gave_up']}/{row['baseline_gave_up']}"))
    return columns


def _half_width(row: _Row, scale: float) -> str:
    return number_text((row["high"] - row["low"]) / 2 * scale, digits=3)


def _percent(change: float) -> str:
    if not math.isfinite(change):
        return MISSING
    return f"{change:+,.{0 if abs(change) >= 1 else 1}%}".replace("-", "−")


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + number_text(value, digits=3)
