"""The tables of the study, for the console."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from faultline.experiments.studies.base import Row
from faultline.experiments.studies.mecefo.rows import OVER_MECEFO, drops_within, scenarios_of
from faultline.experiments.studies.mecefo.runs import EXCESS_KEPT, FLOP
from faultline.experiments.studies.mecefo.setting import (
    MODELS,
    SCENARIOS,
    SYSTEM_NAMES,
    SYSTEMS,
    doubled_cost,
)
from rich.table import Table


def drop_table_of(rows: Sequence[Row]) -> Table:
    """Return drops by model and system; published ones in brackets."""
    table = Table(title="Throughput lost to failures, % (published)")
    table.add_column("model")
    table.add_column("system")
    for scenario in SCENARIOS:
        table.add_column(scenario, justify="right")
    for model in MODELS:
        for system in SYSTEMS:
            drops = scenarios_of(rows, system, model)
            table.add_row(model, SYSTEM_NAMES[system], *(_told(drops[s]) for s in SCENARIOS))
    for variant, name in (
        (EXCESS_KEPT, "Bamboo, shared as in other models"),
        (FLOP, "MeCeFO, counting FLOP"),
    ):
        found = {row.setting: row for row in rows if row.quantity == f"drop, {variant}"}
        cells = (_told(found[f"7B {s}"]) if f"7B {s}" in found else "" for s in SCENARIOS)
        table.add_row("7B", name, *cells)
    return table


def plateau_table(rows: Iterable[Row]) -> Table:
    """Return what Oobleck's 7B loses while so many GPUs are down."""
    table = Table(title="Oobleck's 7B while GPUs are down: throughput lost, %")
    drops = [row for row in rows if row.quantity == "drop" and row.setting.endswith("GPUs down")]
    for row in drops:
        table.add_column(row.setting.split()[1], justify="right")
    table.add_row(*(f"{row.simulated:.1f}" for row in drops))
    return table


def pipeline_table(rows: Iterable[Row]) -> Table:
    """Return slowdowns and memory of the ablation."""
    table = Table(title="One failed stage of a 7B pipeline, simulated (published)")
    for column in ("quantity", "techniques"):
        table.add_column(column)
    table.add_column("value", justify="right")
    for row in rows:
        if row.quantity.startswith(("slowdown", "memory")):
            table.add_row(row.quantity, row.setting.removeprefix("7B "), _told(row, 3))
    return table


def account(rows: Sequence[Row]) -> str:
    """Return how far drops are off, in words, and where the costs of other models come from."""
    worst = drops_within(rows)
    costs = ", ".join(f"{name} {doubled_cost(model):.2f}" for name, model in MODELS.items())
    told = "; ".join(
        f"{SYSTEM_NAMES[system]} by up to {points:.1f} points, a factor of {factor:.2f}"
        for system, (points, factor) in worst.items()
    )
    return (
        f"Drops are off: {told} (for 7B all of its step is taken as shared by nodes, unlike that "
        f"of other models). A node with two stages costs, of one with one: {costs}."
    )


def headline(rows: Iterable[Row]) -> str:
    """Say what becomes of the published headline: how many times MeCeFO's drop others' are."""
    times = ", ".join(
        f"under {SYSTEM_NAMES[row.scheme]} {row.simulated:.1f} times "
        f"(published {row.published:.1f})"
        for row in rows
        if row.quantity == OVER_MECEFO and row.published is not None
    )
    return f"7B with a failure every half hour loses, over what MeCeFO loses: {times}."


def _told(row: Row, digits: int = 2) -> str:
    published = "" if row.published is None else f" ({row.published:.{digits}f})"
    return f"{row.simulated:.{digits}f}{published}"
