"""What the head-to-head says on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, isnan

import pandas as pd
from faultline.experiments.studies.head_to_head.cells import LAYERS, SETTINGS, STALLS_S
from faultline.experiments.studies.head_to_head.looks import name_of
from faultline.experiments.studies.head_to_head.tables import winners
from rich.table import Table

_TODAY = list(SETTINGS).index("today")

PLACES: Mapping[str, Mapping[float, str]] = {
    "settings": {float(place): name for place, name in enumerate(SETTINGS)},
    "stalls": {stall_s: f"every event {stall_s:g} s" for stall_s in STALLS_S},
    "layers": {float(layers): f"{layers} layers" for layers in LAYERS},
}
"""Lists of circumstances that become a table: what `Cell.x` stands for."""


def places_table(table: pd.DataFrame, plane: str) -> Table:
    """Return the table of a list of circumstances, each one's candidates in order of their time.

    Parameters
    ----------
    table : DataFrame
        What `tables.paired_to_best` returned.
    plane : str
        A key of `PLACES`.
    """
    shown = Table(title="time to train over that without failures, mean and 95 % interval")
    for name in (plane, "candidate", "what it is", "r"):
        shown.add_column(name)
    columns = ("ratio", "above the best", "GPU-hours", "spares", "available", "restarts", "a GPU")
    for name in columns:
        shown.add_column(name, justify="right")
    for place, setting in PLACES[plane].items():
        mine = table[(table["x"] == place) & (table["seeds"] > 0)].sort_values("ratio")
        for number, row in enumerate(mine.itertuples(index=False)):
            held = f"{row.gpu_memory_bytes / 1e9:.0f} GB"
            shown.add_row(
                setting if number == 0 else "",
                row.candidate,
                name_of(row.scheme),
                f"{row.redundancy:.0f}",
                _with_half(row.ratio, row.ratio_high - row.ratio) if not row.note else row.note,
                _with_half(row.above_best, row.above_best_half) if number else "",
                f"{row.gpu_hours / 1e6:.3f}M" if isfinite(row.gpu_hours) else "",
                f"{row.spare_gpus:,.0f}",
                f"{row.availability:.1%}",
                f"{row.restarts:.1f}",
                held if row.fits_memory else f"{held}: too much",
            )
        shown.add_section()
    return shown


def left_out(table: pd.DataFrame) -> list[str]:
    """Return who could not take part, in how many cells, and why."""
    absent = table[table["seeds"] == 0]
    lines = []
    for name, mine in absent.groupby("candidate", sort=False):
        lines.append(f"{name}: left out of {len(mine)} cells; {mine['note'].iloc[0]}")
    return lines


def closing_sentence(table: pd.DataFrame) -> str:
    """Return what came out, to be quoted: today's setting, and shares of the planes' cells."""
    said = []
    planes = set(table["plane"])
    if "settings" in planes:
        said.append(_today(table[(table["plane"] == "settings") & (table["x"] == _TODAY)]))
    if "stalls" in planes:
        said.append(_stalls(table[table["plane"] == "stalls"]))
    if "restart" in planes:
        said.append(
            "On 32,768 GPUs, over failures from every minute to every day and restarts of 10 s to "
            f"2 h, the first by cells: {_shares(winners(table, 'restart', 'time'))}; "
            f"with the fewest GPU-hours: {_shares(winners(table, 'restart', 'gpu_hours'))}."
        )
    if "domains" in planes:
        said.append(
            "From 1,000 to 600,000 GPUs, whatever share of failures takes a scale-up domain: "
            f"{_shares(winners(table, 'domains', 'time'))}; with the fewest GPU-hours: "
            f"{_shares(winners(table, 'domains', 'gpu_hours'))}."
        )
    return " ".join(said)


def _today(mine: pd.DataFrame) -> str:
    played = mine[mine["seeds"] > 0].sort_values("ratio")
    best = played.iloc[0]
    said = (
        f"At today's failure rate on 32,768 GPUs {name_of(best['scheme'])} trains soonest, in "
        f"{best['ratio']:.2f} times the time without failures"
    )
    if not best["fits_memory"]:
        said += f", if a GPU had {best['gpu_memory_bytes'] / 1e9:.0f} GB, which it has not"
    plain = played[played["scheme"] == "checkpoint"]
    if plain.empty or best["scheme"] == "checkpoint":
        return said + "."
    ratio = plain["ratio"].iloc[0]
    return f"{said}; checkpoints alone take {ratio:.2f} ({ratio / best['ratio'] - 1:.0%} longer)."


def _stalls(mine: pd.DataFrame) -> str:
    best = mine[mine["best_time"]].sort_values("x")
    parts = [
        f"{name_of(row.scheme)} over {row.protection} in {row.ratio:.3f} (each {row.x:g} s)"
        for row in best.itertuples(index=False)
    ]
    return f"Where every event costs everybody the same, the first are {', '.join(parts)}."


def _shares(won: pd.DataFrame) -> str:
    shares = won["scheme"].value_counts(normalize=True)
    return ", ".join(f"{name_of(str(name))} {share:.0%}" for name, share in shares.items())


def _with_half(value: float, half: float) -> str:
    if not isfinite(value):
        return ""
    return f"{value:.3f}" if isnan(half) else f"{value:.3f} ± {half:.3f}"
