"""The tables and sentences of the study, for the screen."""

from __future__ import annotations

from typing import Any

import pandas as pd
from faultline.experiments.studies.base import Row
from faultline.experiments.studies.reft.combinations import PROTECTIONS, RESTARTS_S, SCHEMES
from faultline.experiments.studies.reft.published import EFFECTIVE_TIME
from faultline.experiments.studies.reft.stalls import TREATMENTS, of_treatment, one_after_the_other
from rich.box import SIMPLE_HEAD
from rich.table import Table

TOLERANCE = 0.15


def reliability_table(rows: list[Row]) -> Table:
    """Show the times to 10 % loss."""
    shown = _table("Time until state in memory is lost with 10 %", "", "published", "ours", "95 %")
    for row in rows:
        interval = f"{row.low:.2f} to {row.high:.2f}" if row.high > row.low else ""
        shown.add_row(
            f"{row.setting.split(', ')[1]}{row.quantity.removeprefix('time to 10 % loss')}",
            f"{row.published:.2f}",
            f"{row.simulated:.2f}",
            interval,
        )
    return shown


def iteration_table(table: pd.DataFrame) -> Table:
    """Show iterations with snapshots, and mark what misses the tolerance."""
    shown = _table(
        f"Iteration with a snapshot and its overhead, s; calibrated on 13B, * misses "
        f"{TOLERANCE:.0%}",
        *("mode", "model", "pub.", "ours", "error", "over.", "ours", "error"),
    )
    for cell in table.itertuples():
        errors = ["(fit)", ""]
        if not cell.calibration:
            known = not pd.isna(cell.overhead_error)
            errors = [_percent(cell.error), _percent(cell.overhead_error) if known else ""]
        shown.add_row(
            str(cell.mode),
            str(cell.model),
            f"{cell.published_s:.2f}",
            f"{cell.predicted_s:.2f}",
            errors[0],
            f"{cell.published_overhead_s:.2f}",
            f"{cell.overhead_s:.2f}",
            errors[1],
        )
    return shown


def iteration_sentence(table: pd.DataFrame, unhidden_s: float) -> str:
    """Say which predictions hold, and which miss."""
    predicted = table[~table.calibration]
    worst = predicted.error.abs().max()
    known = predicted.dropna(subset="overhead_error")
    missed = known[known.overhead_error.abs() > TOLERANCE]
    misses = ", ".join(
        f"{cell.mode} of {cell.model} by {cell.overhead_error:+.0%}" for cell in missed.itertuples()
    )
    return (
        f"Predicted iterations are within {worst:.1%} of the published ones; of the overheads, "
        f"{f'these miss 15 %: {misses}' if misses else 'none misses 15 %'}. A hidden copy of all "
        f"of a rank's state costs nothing, and {unhidden_s:.2f} s where all of it meets an "
        "all-reduce."
    )


def saving_table(table: pd.DataFrame) -> Table:
    """Show how much faster REFT saves, by file system and sharding group."""
    sizes = sorted(table.sharding_group.unique())
    shown = _table(
        "REFT's saving speed over asynchronous checkpoints,\n"
        "16 HGX A800 servers, by sharding group",
        *("file system", "checkpoint", *(str(size) for size in sizes)),
    )
    for bandwidth, mine in table.groupby("storage_bandwidth", sort=False):
        factors = mine.set_index("sharding_group").factor
        shown.add_row(
            str(bandwidth),
            f"{mine.storage_s.iloc[0]:.2f} s",
            *(f"{factors[size]:,.1f}" for size in sizes),
        )
    times = table.drop_duplicates("sharding_group").set_index("sharding_group")
    shown.add_row("REFT takes", "", *(f"{times.reft_s[size]:.2f} s" for size in sizes))
    return shown


def sharded_table(table: pd.DataFrame) -> Table:
    """Show the copies of shards beside the published snapshots."""
    shown = _table(
        "Snapshot of 11,471 MiB a rank, s", "sharded over", "published", "copy on hgx-a800"
    )
    for cell in table.itertuples():
        shown.add_row(str(cell.sharding_group), f"{cell.published_s:g}", f"{cell.copy_s:.3f}")
    return shown


def stall_table(table: pd.DataFrame) -> Table:
    """Show effective times by stall."""
    shown = _table(
        "Effective time of 100,000 GPUs, a failure every 17.7 minutes",
        *("a failure during a stall", "stall", "published", "closed form", "simulated"),
    )
    for stall_s, published in EFFECTIVE_TIME.items():
        stall = f"{stall_s / 60:g} min"
        closed = one_after_the_other(stall_s)
        shown.add_row(
            "has a stall of its own", stall, f"{published:.0%}", f"{closed:.1%}", "not simulated"
        )
        for treatment in TREATMENTS:
            mine = table[(table.stall_s == stall_s) & (table.treatment == treatment)]
            shown.add_row(
                treatment,
                stall,
                f"{published:.0%}",
                f"{of_treatment(treatment, stall_s):.1%}",
                f"{mine.effective_time.mean():.1%}",
            )
    return shown


def combination_table(runs: pd.DataFrame, changes: pd.DataFrame, restart_s: float) -> Table:
    """Show every scheme on every protection: redundancy, ratio, change against storage."""
    shown = _table(
        f"Restarts of {restart_s / 60:g} min: time-to-train ratio, and its change against storage "
        "in %",
        *("protection", *(_with_redundancy(runs, restart_s, scheme) for scheme in SCHEMES)),
    )
    changed = changes.set_index(["restart_of_s", "strategy", "protection"])
    for protection in PROTECTIONS:
        cells = []
        for scheme in SCHEMES:
            mine = _cell(runs, restart_s, scheme, protection)
            text = f"{mine.time_to_train_ratio.mean():.2f}"
            if protection != "storage":
                text += f" {_change(changed.loc[(restart_s, scheme, protection)])}"
            cells.append(text)
        shown.add_row(protection, *cells)
    return shown


def placement_table(runs: pd.DataFrame) -> Table:
    """Show what failures of several sizes cost, by placement."""
    shown = _table(
        "No masking, restarts of 5 min: ratio (restarts from memory),\n"
        "by steps between checkpoints on storage",
        *("failures of", "protection", "placement"),
        *(f"on storage\nevery {steps}" for steps in runs.persist_steps.unique()),
    )
    keys = ["failures_of", "protection", "placement"]
    for (struck, protection, placement), mine in runs.groupby(keys, sort=False):
        cells = []
        for _, cell in mine.groupby("persist_steps", sort=False):
            share = (
                cell.restarts_from_memory.sum() + cell.restarts_from_peers.sum()
            ) / cell.restarts.sum()
            cells.append(f"{cell.time_to_train_ratio.mean():.2f} ({share:.0%})")
        shown.add_row(str(struck), str(protection), str(placement), *cells)
    return shown


def recovery_table(table: pd.DataFrame) -> Table:
    """Show where restarted jobs found their state."""
    shown = _table(
        "Where restarts find the state: 64 nodes, a failure every 300 s,\n78 % of them of hardware",
        *("group", "restart", "way", "closed form", "counted", "95 %"),
    )
    for cell in table.itertuples():
        shown.add_row(
            str(cell.sharding_group),
            f"{cell.restart_s:g} s",
            str(cell.way),
            f"{cell.exact:.1%}",
            f"{cell.counted:.1%}",
            f"{cell.low:.1%} to {cell.high:.1%}",
        )
    return shown


def combination_sentence(runs: pd.DataFrame, best: pd.DataFrame) -> str:
    """Say what cheaper checkpoints buy, by the length of a restart."""

    def ratio(restart_s: float, scheme: str, protection: str) -> float:
        return float(_cell(runs, restart_s, scheme, protection).time_to_train_ratio.mean())

    def change(restart_s: float, scheme: str) -> str:
        before, after = (ratio(restart_s, scheme, name) for name in ("storage", "reft"))
        return f"from {before:.3g} to {after:.3g} ({after / before - 1.0:+.0%})"

    def behind(restart_s: float) -> float:
        return ratio(restart_s, "checkpoint", "reft") / ratio(restart_s, "spare", "reft")

    long_s, short_s = RESTARTS_S
    chosen = best.set_index(["restart_of_s", "protection"])
    r, least = chosen.redundancy, chosen["mean"]
    return (
        "With restarts of 60 minutes REFT takes the time-to-train ratio of SPARe "
        f"{change(long_s, 'spare')}, of replication {change(long_s, 'replication')}, and of a job "
        f"that masks no failure {change(long_s, 'checkpoint')}, still {behind(long_s):.1f} times "
        "SPARe's: cheap checkpoints do not replace masking. With restarts of 5 minutes the latter "
        f"comes {change(short_s, 'checkpoint')}, {behind(short_s) - 1.0:.0%} above SPARe's "
        f"{ratio(short_s, 'spare', 'reft'):.3g}. SPARe's best redundancy, storage and REFT: "
        f"{r[long_s, 'storage']} and {r[long_s, 'reft']} with restarts of 60 minutes, "
        f"{r[short_s, 'storage']} and {r[short_s, 'reft']} with 5 (ratio "
        f"{least[short_s, 'storage']:.3g} and {least[short_s, 'reft']:.3g})."
    )


def _with_redundancy(runs: pd.DataFrame, restart_s: float, scheme: str) -> str:
    """Return a scheme with the redundancies that it chose."""
    mine = runs[(runs.restart_of_s == restart_s) & (runs.strategy == scheme)]
    return f"{scheme}, r={'/'.join(str(r) for r in sorted(set(mine.redundancy)))}"


def _cell(runs: pd.DataFrame, restart_s: float, scheme: str, protection: str) -> pd.DataFrame:
    return runs[
        (runs.restart_of_s == restart_s)
        & (runs.strategy == scheme)
        & (runs.protection == protection)
    ]


def _change(row: Any) -> str:
    text = f"{100 * row.change:+.1f}"
    if pd.isna(row.change_high):
        return text
    return f"{text}±{100 * (row.change_high - row.change):.1f}"


def _percent(error: float) -> str:
    return f"{error:+.1%}{' *' if abs(error) > TOLERANCE else ''}"


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    return table
