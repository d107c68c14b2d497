"""The sections of a paired comparison (`analysis.comparison`) as tables."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from faultline.experiments.analysis.comparison import (
    ALL_SETTINGS,
    BASELINE,
    PAIRED_AT,
    ComparisonReport,
)
from faultline.experiments.analysis.quantities import (
    MISSING,
    counted,
    heading,
    number_text,
    quantity,
    setting_text,
    shown_value,
)
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.report.tables import Mapped, Table, TableColumn, table_of
from faultline.experiments.runs.record import Column as Quantity

_TITLES = {
    "at_best": "each at its own best setting",
    "overall": "mean over the settings that both have",
    "settings": "setting by setting",
}
_NUMBERS = {
    "mean", "baseline_mean", "difference", "low", "high", "change", "pairs", "settings",
    "gave_up", "baseline_gave_up", PAIRED_AT,
}  # fmt: skip


def headline_of(report: ComparisonReport) -> str:
    """Return the compared quantity and the baseline, in one line."""
    column = quantity(report.metric)
    way = f" ({column.better} is better)" if column.better else ""
    against = f"{quantity(report.by).label} {_value_name(report.by, report.baseline)}"
    return f"{column.label}{way}: differences from {against}, paired by seed"


def section_table(report: ComparisonReport, section: str, *, brief: bool = False) -> Table:
    """Return a section of a comparison, with units, and without columns of one value.

    A `brief` table, for a terminal, has at most six columns.
    """
    frame = report.sections[section]
    # A column with one value in all rows and in the baseline is left out.
    keys = [key for key in frame.columns if key not in _NUMBERS and key != report.by]
    keys = [key for key in keys if _varies(frame, key)]
    theirs = [key for key in keys if key.startswith(BASELINE)]
    ours = [key for key in keys if f"{BASELINE}{key}" in theirs]
    shared = [key for key in keys if key not in {*ours, *theirs}]
    if shared:
        frame = frame.sort_values(shared, kind="stable", na_position="first")
    columns = _columns(report, frame, ours, theirs, shared) + _count_columns(frame)
    if brief:
        columns = _brief_columns(report, frame, ours, shared)
    rows = frame.to_dict(orient="records")
    return table_of(section, _title(section, frame, quantity(report.metric)), columns, rows)


def _varies(frame: pd.DataFrame, key: str) -> bool:
    paired = key if key.startswith(BASELINE) else f"{BASELINE}{key}"
    return paired in frame.columns or frame[key].nunique(dropna=False) > 1


def _columns(
    report: ComparisonReport,
    frame: pd.DataFrame,
    ours: list[str],
    theirs: list[str],
    shared: list[str],
) -> list[TableColumn]:
    scale = quantity(report.metric).scale
    # The most important columns come first: a narrow terminal has no room for the last ones.
    return [
        *(_key_column(key) for key in shared),
        _key_column(report.by),
        *(_key_column(key) for key in ours),
        *(
            [TableColumn("paired at", lambda row: row[PAIRED_AT], "prose")]
            if _has_restrictions(frame)
            else []
        ),
        TableColumn("mean", lambda row: number_text(row["mean"] * scale)),
        TableColumn("base", lambda row: number_text(row["baseline_mean"] * scale)),
        *(_key_column(key) for key in theirs),
        TableColumn("change", lambda row: _percent(row["change"])),
        TableColumn("differs by", lambda row: _signed(row["difference"] * scale)),
        TableColumn("± (95 %)", lambda row: number_text((row["high"] - row["low"]) / 2 * scale, 3)),
    ]


def _has_restrictions(frame: pd.DataFrame) -> bool:
    """Return whether rows are means over different settings, which neither rows nor title name."""
    return bool((frame["settings"] > 1).any() and frame[PAIRED_AT].nunique() > 1)


def _brief_columns(
    report: ComparisonReport, frame: pd.DataFrame, ours: list[str], shared: list[str]
) -> list[TableColumn]:
    """Return what is compared, and how it differs: all other settings are one column."""
    scale = quantity(report.metric).scale
    settings = [*shared, *ours] + ([PAIRED_AT] if _has_restrictions(frame) else [])

    def setting(row: Mapped) -> str:
        names = {key: title_of(row[key]) for key in settings if key == "strategy.name"}
        return setting_text({key: row[key] for key in settings} | names)

    is_one = len(settings) == 1 and settings[0] != PAIRED_AT
    beside = [_key_column(settings[0])] if is_one else [TableColumn("setting", setting, "prose")]
    beside = beside if settings else []
    return [
        *beside,
        _key_column(report.by),
        TableColumn("mean", lambda row: number_text(row["mean"] * scale)),
        TableColumn("base", lambda row: number_text(row["baseline_mean"] * scale)),
        TableColumn("change", lambda row: _percent(row["change"])),
        TableColumn(
            "difference, 95 %",
            lambda row: (
                f"{_signed(row['difference'] * scale)} ± "
                f"{number_text((row['high'] - row['low']) / 2 * scale, 3)}"
            ),
        ),
    ]


def _key_column(key: str) -> TableColumn:
    column = key.removeprefix(BASELINE)
    title = heading(column, short=True)
    title = f"base {title}" if key.startswith(BASELINE) else title
    return TableColumn(title, lambda row: _value_name(column, row[key]), "text")


def _value_name(column: str, value: Any) -> str:
    """Return a value of a column in its unit; a scheme by its name in all tables."""
    is_scheme = column == "strategy.name" and isinstance(value, str)
    return look_of(value).label if is_scheme else shown_value(column, value)


def _title(section: str, frame: pd.DataFrame, metric: Quantity) -> str:
    """Return a title with the facts that hold for all rows."""
    title = _TITLES[section]
    if metric.shown_unit:
        title += f", in {metric.shown_unit}"
    if frame[PAIRED_AT].nunique() == 1 and frame[PAIRED_AT].iloc[0] != ALL_SETTINGS:
        title += f"; {frame[PAIRED_AT].iloc[0]} only"
    if frame["pairs"].nunique() == 1:
        title += f"; {counted(frame['pairs'].iloc[0], 'pair')} per row"
        if section == "overall":
            title += " (one per seed)"
    return title


def _count_columns(frame: pd.DataFrame) -> list[TableColumn]:
    columns: list[TableColumn] = []
    if frame["pairs"].nunique() > 1:
        columns.append(TableColumn("pairs", lambda row: str(row["pairs"])))
    if (frame["settings"] > 1).any():
        columns.append(TableColumn("settings", lambda row: str(row["settings"])))
    if frame[["gave_up", "baseline_gave_up"]].to_numpy().any():
        columns.append(
            TableColumn("gave up", lambda row: f"{row['gave_up']}/{row['baseline_gave_up']}")
        )
    return columns


def _percent(change: float) -> str:
    if not math.isfinite(change):
        return MISSING
    return f"{change:+,.{0 if abs(change) >= 1 else 1}%}".replace("-", "−")


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + number_text(value, digits=3)
