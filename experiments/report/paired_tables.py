"""The sections of a paired comparison (`analysis.comparison`) as tables."""

from __future__ import annotations

import math

import pandas as pd
from faultline.experiments.analysis.comparison import BASELINE, Report
from faultline.experiments.analysis.quantities import (
    MISSING,
    counted,
    number_text,
    quantity,
    shown_value,
)
from faultline.experiments.report.tables import Column, Table, table_of
from faultline.experiments.runs.record import Column as Quantity

_TITLES = {
    "at_best": "each at its best",
    "overall": "over all settings",
    "settings": "setting by setting",
}
_NUMBERS = {
    "mean", "baseline_mean", "difference", "low", "high", "change", "pairs", "settings",
    "gave_up", "baseline_gave_up",
}  # fmt: skip


def section_table(report: Report, section: str) -> Table:
    """Return a section of a comparison, with units, and without columns of one value."""
    frame = report.sections[section]
    # A column with one value in all rows and in the baseline is left out.
    keys = [key for key in frame.columns if key not in _NUMBERS and key != report.by]
    keys = [key for key in keys if _varies(frame, key)]
    theirs = [key for key in keys if key.startswith(BASELINE)]
    ours = [key for key in keys if f"{BASELINE}{key}" in theirs]
    shared = [key for key in keys if key not in {*ours, *theirs}]
    if shared:
        frame = frame.sort_values(shared, kind="stable", na_position="first")
    metric = quantity(report.metric)
    columns = _columns(report, ours, theirs, shared, metric.scale)
    columns += _count_columns(frame)
    rows = frame.to_dict(orient="records")
    return table_of(section, _title(section, frame, metric), columns, rows)


def _varies(frame: pd.DataFrame, key: str) -> bool:
    paired = key if key.startswith(BASELINE) else f"{BASELINE}{key}"
    return paired in frame.columns or frame[key].nunique(dropna=False) > 1


def _columns(
    report: Report, ours: list[str], theirs: list[str], shared: list[str], scale: float
) -> list[Column]:
    return [
        *(_key_column(key) for key in shared),
        _key_column(report.by),
        *(_key_column(key) for key in ours),
        Column("mean", lambda row: number_text(row["mean"] * scale)),
        Column("base", lambda row: number_text(row["baseline_mean"] * scale)),
        *(_key_column(key) for key in theirs),
        Column("differs by", lambda row: _signed(row["difference"] * scale)),
        Column("± (95 %)", lambda row: number_text((row["high"] - row["low"]) / 2 * scale, 3)),
        Column("change", lambda row: _percent(row["change"])),
    ]


def _key_column(key: str) -> Column:
    column = key.removeprefix(BASELINE)
    known = quantity(column)
    name = known.symbol or known.label
    title = f"{name} ({known.shown_unit})" if known.shown_unit else name
    title = f"base {title}" if key.startswith(BASELINE) else title
    return Column(title, lambda row: shown_value(column, row[key]), "text")


def _title(section: str, frame: pd.DataFrame, metric: Quantity) -> str:
    """Return a title with the facts that hold for all rows."""
    title = _TITLES[section]
    if metric.shown_unit:
        title += f", in {metric.shown_unit}"
    if frame["pairs"].nunique() == 1:
        title += f"; {counted(frame['pairs'].iloc[0], 'pair')} per row"
        if section == "overall":
            title += " (one per seed, averaged over settings)"
    return title


def _count_columns(frame: pd.DataFrame) -> list[Column]:
    columns: list[Column] = []
    if frame["pairs"].nunique() > 1:
        columns.append(Column("pairs", lambda row: str(row["pairs"])))
    if (frame["settings"] > 1).any():
        columns.append(Column("settings", lambda row: str(row["settings"])))
    if frame[["gave_up", "baseline_gave_up"]].to_numpy().any():
        columns.append(Column("gave up", lambda row: f"{row['gave_up']}/{row['baseline_gave_up']}"))
    return columns


def _percent(change: float) -> str:
    if not math.isfinite(change):
        return MISSING
    return f"{change:+,.{0 if abs(change) >= 1 else 1}%}".replace("-", "−")


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + number_text(value, digits=3)
