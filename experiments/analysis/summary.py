"""A record in the words of the field: first what a run is judged by, then where its time went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultline.experiments.analysis.quantities import steps_text, time_text
from faultline.simulator.badput import MEANINGS


def summary_title(record: Mapping[str, Any]) -> str:
    """Return what was played, in a line."""
    job = f"{record['strategy']}, r = {record['redundancy']}, {record['groups']:,} groups"
    return f"{record['scenario']}: {job}"


def summary_rows(
    record: Mapping[str, Any], price_per_gpu_hour: float | None = None
) -> list[tuple[str, str]]:
    """Return names and values of a record as people read them, what matters most first."""
    restarts = f"{record['restarts']:,}"
    if record["snapshots"]:
        own, peers = record["restarts_from_memory"], record["restarts_from_peers"]
        restarts += f": {own:,} from memory, {peers:,} with peers"
    return [
        ("goodput (ETTR)", f"{record['goodput']:.2%}"),
        *_expected(record),
        *_mfu(record),
        ("time", time_text(record["time_s"])),
        *_intervals(record),
        ("GPU-hours", f"{record['gpu_hours']:,.0f}"),
        *cost_rows(record["gpu_hours"], price_per_gpu_hour),
        ("steps", f"{record['completed_steps']:,.10g} of {record['steps']:,}"),
        ("failures", f"{record['failures']:,}"),
        ("restarts", restarts),
        ("availability", f"{record['availability']:.2%}"),
        ("time-to-train ratio", f"{record['time_to_train_ratio']:.3f}"),
        ("mean stacks", f"{record['mean_stacks']:.3f}"),
        ("engine, seed", f"{record['engine']}, {record['seed']}"),
        ("where the time went", ""),
        *_spent(record),
    ]


def cost_rows(gpu_hours: float, price_per_gpu_hour: float | None) -> list[tuple[str, str]]:
    """Return what GPU-hours cost at a price in any currency; nothing where there is no price."""
    if price_per_gpu_hour is None:
        return []
    return [("cost", f"{gpu_hours * price_per_gpu_hour:,.0f} at {price_per_gpu_hour:g} a GPU-hour")]


def _expected(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    ettr = record.get("closed_form_ettr")
    name = "by RSC's form, if each failure restarts it"
    return [] if ettr is None else [(f"  {name}", f"{ettr:.2%}")]


def _mfu(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    mfu = record.get("mfu")
    return [] if mfu is None else [("MFU of an undisturbed step", f"{mfu:.1%}")]


def _intervals(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    steps, span_s = record["checkpoint_interval_steps"], record["checkpoint_interval_s"]
    rows = [("checkpoint every", steps_text(steps, span_s))]
    if record["snapshots"]:
        every = record["snapshot_interval_steps"] or steps
        text = f"{steps_text(every, every * span_s / steps)} ({record['protection']})"
        rows.append(("snapshot every", text))
    return rows


def _spent(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (f"  {meaning}", f"{record[f'{cause}_s'] / record['time_s']:.2%}")
        for cause, meaning in MEANINGS.items()
        if record[f"{cause}_s"]
    ]
