"""Tables for the screen, from data frames; and a record in the words of the field."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from faultline.experiments.analysis.quantities import is_missing, steps_text, time_text
from faultline.simulator.badput import MEANINGS
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

Columns = Mapping[str, str | tuple[str, str | Callable[[Any], str]]]
"""Columns by name: their headings, or heading and how it is written (`Printed.formats`)."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A table for the screen."""

    title: str
    frame: pd.DataFrame
    # How columns are written: a format string of the value (``"{:.2f}"``) or a function; others as
    # they are, and missing values as nothing.
    formats: Mapping[str, str | Callable[[Any], str]] = field(default_factory=dict)
    # Headings, where they are not the column's name.
    names: Mapping[str, str] = field(default_factory=dict)
    note: str = ""  # A sentence below it.


def columns_of(title: str, frame: pd.DataFrame, columns: Columns, note: str = "") -> Printed:
    """Return a table of some columns of a frame, in their order."""
    printed = {name: (how,) if isinstance(how, str) else how for name, how in columns.items()}
    formats = {name: how[1] for name, how in printed.items() if len(how) > 1}
    names = {name: how[0] for name, how in printed.items()}
    return Printed(title, frame[list(printed)], formats, names, note)


def wide_table(
    title: str,
    cells: pd.DataFrame,
    rows: list[str],
    column: str,
    names: Mapping[str, str] | None = None,
) -> Printed:
    """Return the texts in column ``text``, a column of them for each value of one of the others.

    Rows and columns come in the order of `cells`; what is not there is left empty.
    """
    wide = cells.groupby([*rows, column], sort=False).text.first().unstack(sort=False)
    formats = dict.fromkeys(map(str, wide.columns), str)
    return Printed(title, wide.rename(columns=str).reset_index(), formats, names or {})


def means_by(
    title: str, table: pd.DataFrame, rows: Columns, column: str, value: str, form: str
) -> Printed:
    """Return means of a value, a column of them for each value of one of the others.

    Rows and columns come in the order of the table. The columns `rows` distinguish the rows;
    `form` is the format of the means.
    """
    heads = columns_of("", table, rows)
    means = table.groupby([*rows, column], sort=False)[value].mean().unstack(sort=False)
    means = means.rename(columns=str)
    formats = dict.fromkeys(means.columns, form)
    return Printed(title, means.reset_index(), {**heads.formats, **formats}, heads.names)


def printed(table: Printed) -> Table:
    """Return a table as rich draws it: numbers to the right, missing values empty."""
    from pandas.api.types import is_numeric_dtype

    columns = []
    for column, values in table.frame.items():
        numbers = column in table.formats or is_numeric_dtype(values)
        heading = table.names.get(str(column), str(column))
        justify = "right" if numbers else "left"
        # A long path is wrapped, not cut by an ellipsis.
        look = {"justify": justify, "no_wrap": numbers, "overflow": "fold"}
        columns.append({"header": heading, **look})
    rows = (
        [
            _cell(value, table.formats.get(name))
            for name, value in zip(table.frame, row, strict=True)
        ]
        for row in table.frame.itertuples(index=False)
    )
    around = {"title_style": "bold", "box": SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)}
    return text_table(rows, columns, title=table.title, caption=table.note or None, **around)


def folded_table(
    rows: Iterable[Iterable[RenderableType] | None],
    headings: Iterable[tuple[str, bool]],
    width: int,
    **look: Any,
) -> Table:
    """Return a table of texts whose headings take as many lines as they need.

    Headings come with whether numbers stand below them; they are at most so wide, but for words
    that are wider.
    """
    columns = [
        {
            "header": textwrap.fill(title, width, break_long_words=False, break_on_hyphens=False),
            "justify": "right" if is_number else "left",
            "no_wrap": True,
        }
        for title, is_number in headings
    ]
    frame = {"box": SIMPLE_HEAD, "padding": (0, 1, 0, 0), "show_edge": False, "pad_edge": False}
    return text_table(rows, columns, title_style="italic", **frame, **look)


def text_table(
    rows: Iterable[Iterable[RenderableType] | None],
    columns: Iterable[Mapping[str, Any]],
    **look: Any,
) -> Table:
    """Return a table of texts; None among the rows begins a section.

    Rows are cells; columns are as rich's ``add_column`` takes them, all else as its ``Table`` does.
    """
    table = Table(title_justify="left", caption_justify="left", **look)
    for column in columns:
        table.add_column(**column)
    for row in rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*row)
    return table


def _cell(value: Any, how: str | Callable[[Any], str] | None) -> str:
    if is_missing(value):
        return ""
    if how is None:
        return str(value)
    return how.format(value) if isinstance(how, str) else how(value)


def summary_title(record: Mapping[str, Any]) -> str:
    """Return the title of a run: its scenario and settings, in a line."""
    job = f"{record['strategy']}, r = {record['redundancy']}, {record['groups']:,} groups"
    return f"{record['scenario']}: {job}"


def summary_rows(
    record: Mapping[str, Any], price_per_gpu_hour: float | None = None
) -> list[tuple[str, str]]:
    """Return names and values of a record as people read them, what matters most first."""
    ettr, mfu, cost = record.get("closed_form_ettr"), record.get("mfu"), []
    by_rsc = "  by RSC's form, if each failure restarts it"
    if price_per_gpu_hour is not None:
        total = record["gpu_hours"] * price_per_gpu_hour
        cost = [("cost", f"{total:,.0f} at {price_per_gpu_hour:g} a GPU-hour")]
    restarts = f"{record['restarts']:,}"
    if record["snapshots"]:
        own, peers = record["restarts_from_memory"], record["restarts_from_peers"]
        restarts += f": {own:,} from memory, {peers:,} with peers"
    return [
        ("goodput (ETTR)", f"{record['goodput']:.2%}"),
        *([] if ettr is None else [(by_rsc, f"{ettr:.2%}")]),
        *([] if mfu is None else [("MFU of an undisturbed step", f"{mfu:.1%}")]),
        ("time", time_text(record["time_s"])),
        *_intervals(record),
        ("GPU-hours", f"{record['gpu_hours']:,.0f}"),
        *cost,
        ("steps", f"{record['completed_steps']:,.10g} of {record['steps']:,}"),
        ("failures", f"{record['failures']:,}"),
        ("restarts", restarts),
        ("availability", f"{record['availability']:.2%}"),
        ("time-to-train ratio", f"{record['time_to_train_ratio']:.3f}"),
        ("mean stacks", f"{record['mean_stacks']:.3f}"),
        ("engine, seed", f"{record['engine']}, {record['seed']}"),
        ("where the time went", ""),
        *(
            (f"  {meaning}", f"{record[f'{cause}_s'] / record['time_s']:.2%}")
            for cause, meaning in MEANINGS.items()
            if record[f"{cause}_s"]
        ),
    ]


def _intervals(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    steps, span_s = record["checkpoint_interval_steps"], record["checkpoint_interval_s"]
    rows = [("checkpoint every", steps_text(steps, span_s))]
    if record["snapshots"]:
        every = record["snapshot_interval_steps"] or steps
        text = f"{steps_text(every, every * span_s / steps)} ({record['protection']})"
        rows.append(("snapshot every", text))
    return rows
