"""Tables of text for the screen, and the summary of a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from faultline.experiments.analysis.quantities import steps_text, time_text
from faultline.simulator.badput import MEANINGS
from rich.console import RenderableType
from rich.table import Table


def text_table(
    rows: Iterable[Iterable[RenderableType] | None],
    columns: Iterable[Mapping[str, Any]],
    **look: Any,
) -> Table:
    """Return a table of text; None among the rows begins a section.

    Rows are cells. Columns are as for rich's ``add_column``, other arguments as for its ``Table``.
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
