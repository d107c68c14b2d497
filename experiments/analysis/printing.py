"""Tables of text for the screen, and the summary of a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from faultline.experiments.analysis.quantities import steps_text, time_text
from faultline.simulator.accounting.badput import MEANINGS
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

_FEWEST_COLUMNS = 2
_LONGEST_WORD = 20
"""Longer words, such as paths, are broken in a column that folds them."""


class FittingTable(Table):
    """A table that fits the width of the console.

    First, cells are folded between words, unless their column is declared with ``no_wrap``. Then
    the last columns are left out, and named below the table: the most important ones come first.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # A title as wide as the console: rich folds it to the width of the table.
        fitted = self._fitted(console, options)
        if fitted.title:
            yield Text(str(fitted.title), style=fitted.title_style or "bold")
        below, fitted.title, fitted.caption = fitted.caption, None, None
        yield from Table.__rich_console__(fitted, console, options)
        if below:
            yield Text(str(below), style="dim")

    def _fitted(self, console: Console, options: ConsoleOptions) -> Table:
        limits = [_limits(column, self.show_header) for column in self.columns]
        unlimited = options.update_width(10_000)
        for count in range(len(self.columns), _FEWEST_COLUMNS - 1, -1):
            table, kept = copy(self), limits[:count]
            table.columns = self.columns[:count]
            natural, most = (
                Measurement.get(console, unlimited, table).maximum,
                sum(most for _, most in kept),
            )
            widths = _folded(kept, options.max_width - (natural - most))
            if widths is None:
                continue
            table.columns = [
                replace(column, width=width, min_width=None)
                for column, width in zip(table.columns, widths, strict=True)
            ]
            if left_out := self.columns[count:]:
                names = ", ".join(" ".join(str(column.header).split()) for column in left_out)
                below = f"no room for: {names}"
                table.caption = f"{self.caption}; {below}" if self.caption else below
            return table
        return copy(self)


def _limits(column: Column, has_header: bool) -> tuple[int, int]:
    """Return the least and the largest width of the text of a column."""
    texts = [str(cell) for cell in (*([column.header] if has_header else []), *column.cells)]
    most = max((cell_len(line) for text in texts for line in text.splitlines()), default=1)
    if column.no_wrap:
        return most, most
    longest = max((cell_len(word) for text in texts for word in text.split()), default=1)
    if column.overflow == "fold":
        longest = min(longest, _LONGEST_WORD)
    return min(most, max(longest, column.min_width or 1)), most


def _folded(limits: Iterable[tuple[int, int]], room: int) -> list[int] | None:
    """Return widths of columns that fit: the widest are folded first; None if none fit."""
    least, widths = (list(each) for each in zip(*limits, strict=True))
    while sum(widths) > room:
        foldable = [place for place, width in enumerate(widths) if width > least[place]]
        if not foldable:
            return None
        widths[max(foldable, key=widths.__getitem__)] -= 1
    return widths


def text_table(
    rows: Iterable[Iterable[RenderableType] | None],
    columns: Iterable[Mapping[str, Any]],
    **look: Any,
) -> Table:
    """Return a table of text; None among the rows begins a section.

    Rows are cells. Columns are as for rich's ``add_column``, other arguments as for its ``Table``.
    """
    table = FittingTable(title_justify="left", caption_justify="left", **look)
    for column in columns:
        table.add_column(**column)
    for row in rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*row)
    return table


def summary_title(record: Mapping[str, Any]) -> str:
    """Return the title of a run: its scenario and settings, in one line."""
    job = f"{record['strategy']}, r = {record['redundancy']}, {record['groups']:,} groups"
    return f"{record['scenario']}: {job}"


def summary_rows(
    record: Mapping[str, Any], price_per_gpu_hour: float | None = None
) -> list[tuple[str, str]]:
    """Return names and values of a record in readable form, the most important ones first."""
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
        ("failures (events)", f"{record['events']:,}"),
        ("groups stopped (hits)", f"{record['hits']:,}"),
        ("restarts", restarts),
        ("availability", f"{record['availability']:.2%}"),
        ("time-to-train ratio", f"{record['time_to_train_ratio']:.3f}"),
        ("mean stacks", f"{record['mean_stacks']:.3f}"),
        ("engine, seed", f"{record['engine']}, {record['seed']}"),
        ("where the time went", ""),
        *(
            # Rounding may make a difference of equal times negative.
            (f"  {meaning}", f"{max(0.0, record[f'{cause}_s']) / record['time_s']:.2%}")
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
