"""What the head-to-head says on the screen."""

from __future__ import annotations

from math import isfinite, isnan

import pandas as pd
from rich.table import Table

from experiments.head_to_head.cells import SETTINGS
from experiments.head_to_head.looks import name_of
from experiments.head_to_head.tables import winners

_TODAY = list(SETTINGS).index("today")


def settings_table(table: pd.DataFrame) -> Table:
    """Return the table of settings, each setting's contestants in the order of their time.

    Parameters
    ----------
    table : DataFrame
        What `tables.paired_to_best` returned.
    """
    shown = Table(title="time to train over that without failures, mean and 95 % interval")
    for name in ("setting", "contestant", "r"):
        shown.add_column(name)
    for name in ("ratio", "above the best", "GPU-hours", "spares", "available", "restarts"):
        shown.add_column(name, justify="right")
    for place, setting in enumerate(SETTINGS):
        mine = table[(table["x"] == place) & (table["seeds"] > 0)].sort_values("ratio")
        for number, row in enumerate(mine.itertuples(index=False)):
            shown.add_row(
                setting if number == 0 else "",
                row.contestant,
                f"{row.redundancy:.0f}",
                _with_half(row.ratio, row.ratio_high - row.ratio) if not row.note else row.note,
                _with_half(row.above_best, row.above_best_half) if number else "",
                f"{row.gpu_hours / 1e6:.3f}M" if isfinite(row.gpu_hours) else "",
                f"{row.spare_gpus:,.0f}",
                f"{row.availability:.1%}",
                f"{row.restarts:.1f}",
            )
        shown.add_section()
    return shown


def left_out(table: pd.DataFrame) -> list[str]:
    """Return who could not take part, in how many cells, and why."""
    absent = table[table["seeds"] == 0]
    lines = []
    for name, mine in absent.groupby("contestant", sort=False):
        lines.append(f"{name}: left out of {len(mine)} cells; {mine['note'].iloc[0]}")
    return lines


def closing_sentence(table: pd.DataFrame) -> str:
    """Return what came out, to be quoted: today's setting, and shares of the planes' cells."""
    said = []
    planes = set(table["plane"])
    if "settings" in planes:
        said.append(_today(table[(table["plane"] == "settings") & (table["x"] == _TODAY)]))
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
    plain = played[played["scheme"] == "checkpoint"]
    if plain.empty or best["scheme"] == "checkpoint":
        return said + "."
    ratio = plain["ratio"].iloc[0]
    return f"{said}; checkpoints alone take {ratio:.2f} ({ratio / best['ratio'] - 1:.0%} longer)."


def _shares(won: pd.DataFrame) -> str:
    shares = won["scheme"].value_counts(normalize=True)
    return ", ".join(f"{name_of(str(name))} {share:.0%}" for name, share in shares.items())


def _with_half(value: float, half: float) -> str:
    if not isfinite(value):
        return ""
    return f"{value:.3f}" if isnan(half) else f"{value:.3f} ± {half:.3f}"
