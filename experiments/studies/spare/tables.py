"""The tables of the SPARe reproduction, for the screen."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.studies.spare.fabric import Agreement
from rich.box import SIMPLE_HEAD
from rich.table import Table


def fabric_table(measured: pd.DataFrame) -> Table:
    """Show what SimGrid measured on the platform beside the study's constants."""
    table = _table("Fabric: measured in SimGrid on spare-600k")
    for name in ("groups", "all-reduce", "study", "write", "study", "load"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in measured.itertuples():
        table.add_row(
            str(row.groups),
            f"{row.all_reduce_s:.2f} s",
            f"{row.study_all_reduce_s:.0f} s",
            f"{row.save_s:.2f} s",
            f"{row.study_save_s:.1f} s",
            f"{row.load_s:.2f} s",
        )
    return table


def agreement_table(agreements: list[Agreement]) -> Table:
    """Show how far the two engines agree."""
    table = _table("Engines: 24 groups, 100 steps, no jitter; SimGrid against replay")
    table.add_column("rules")
    table.add_column("scheme")
    for name in ("failures", "events", "same events", "times differ"):
        table.add_column(name, justify="right", no_wrap=True)
    for agreement in agreements:
        table.add_row(
            agreement.rules,
            agreement.scheme,
            str(agreement.failures),
            str(agreement.events),
            "yes" if agreement.same_events else "NO",
            f"{agreement.largest_difference:.0e}",
        )
    return table


def headline_table(rows: pd.DataFrame) -> Table:
    """Show the headline ratios beside the published ones, with the differences."""
    table = _table("Headline: time-to-train ratio")
    _headline_columns(table, "simulated", "change", "sound", "at best r")
    for row in rows.itertuples():
        table.add_row(
            str(row.groups),
            row.scheme,
            str(row.redundancy),
            f"{row.published:.2f}",
            f"{row.study:.2f}",
            f"{row.study / row.published - 1:+.1%}",
            f"{row.sound:.2f}",
            f"{row.sound_best:.2f} (r={row.sound_best_redundancy})",
        )
    return table


def availability_table(rows: pd.DataFrame) -> Table:
    """Show the headline availabilities beside the published ones, with the differences."""
    table = _table("Headline: availability")
    _headline_columns(table, "simulated", "difference", "sound")
    for row in rows.itertuples():
        points = 100 * (row.study_availability - row.published_availability)
        table.add_row(
            str(row.groups),
            row.scheme,
            str(row.redundancy),
            f"{row.published_availability:.1%}",
            f"{row.study_availability:.1%}",
            f"{points:+.1f} points",
            f"{row.sound_availability:.1%}",
        )
    return table


def _headline_columns(table: Table, *names: str) -> None:
    for name in ("N", "scheme", "r", "published", *names):
        table.add_column(name, justify="left" if name == "scheme" else "right", no_wrap=True)


def shortcut_table(rows: pd.DataFrame) -> Table:
    """Show what each shortcut of the published simulator is worth."""
    table = _table("Shortcuts undone one at a time: time-to-train ratio at N = 200")
    table.add_column("change")
    for name in ("SPARe r=9", "published", "replication r=3", "published"):
        table.add_column(name, justify="right", no_wrap=True)
    for change, mine in rows.groupby("shortcut", sort=False):
        cells = []
        for scheme in ("spare", "replication"):
            match = mine[mine.scheme == scheme]
            for column in ("simulated", "published"):
                missing = match.empty or pd.isna(match[column].iloc[0])
                cells.append("" if missing else f"{match[column].iloc[0]:.3f}")
        table.add_row(str(change), *cells)
    return table


def sensitivity_table(rows: pd.DataFrame) -> Table:
    """Show what each assumption of the sound rules is worth, both schemes at their best r."""
    table = _table("Sound rules, one assumption replaced: time-to-train ratio, N = 200, best r")
    table.add_column("assumption")
    for name in ("SPARe", "replication", "less"):
        table.add_column(name, justify="right", no_wrap=True)
    for assumption, mine in rows.groupby("assumption", sort=False):
        by_scheme = mine.set_index("scheme")
        ratios, redundancies = by_scheme.time_to_train_ratio, by_scheme.redundancy
        table.add_row(
            str(assumption),
            *(f"{ratios[name]:.2f} (r={redundancies[name]})" for name in ("spare", "replication")),
            f"{1 - ratios['spare'] / ratios['replication']:.0%}",
        )
    return table


def checkpoint_table(rows: pd.DataFrame) -> Table:
    """Show checkpoint-only where the study leaves it out, and where it has a chance."""
    table = _table("Checkpoint and restart only")
    table.add_column("setting")
    table.add_column("scheme")
    for name in ("steps done", "time-to-train ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows.itertuples():
        finite = row.time_to_train_ratio != float("inf")
        table.add_row(
            row.setting,
            row.strategy,
            f"{row.done:.2%}",
            f"{row.time_to_train_ratio:.2f}" if finite else "-",
        )
    return table


def _table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
