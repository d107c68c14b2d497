"""Every result of the study as a row, beside the published number where there is one."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.gemini.time_to_loss import time_to_loss_by_monte_carlo
from faultline.experiments.studies.reft.published import (
    EFFECTIVE_TIME,
    SAVING_FACTOR,
    TIMES_TO_LOSS,
)
from faultline.experiments.studies.reft.stalls import (
    STALLS_S,
    TREATMENTS,
    of_treatment,
    one_after_the_other,
)
from faultline.strategies.in_memory.reliability import time_to_loss, weibull_failed_by

_NODES, _GROUP = 1024, 16
_SCALE, _SHAPE = 50.0, 3.0
_LOSS = 0.1


def reliability_rows(trials: int, seed: int) -> list[Row]:
    """Return the times until state is lost with 10 %, in closed form and from random lifetimes."""
    rows = []
    failed_by = weibull_failed_by(_SCALE, _SHAPE)
    for tolerated, published in TIMES_TO_LOSS.items():
        setting = f"1024 nodes in groups of 16, {tolerated} losses tolerated"
        exact = time_to_loss(_LOSS, failed_by, _NODES, _GROUP, tolerated, 100.0)
        drawn, low, high = time_to_loss_by_monte_carlo(
            _LOSS, _SCALE, _SHAPE, _NODES, _GROUP, tolerated, trials, seed
        )
        name = "time to 10 % loss"
        rows.append(row_of(name, "reft", setting, published, [exact], "1"))
        rows.append(Row(f"{name}, Monte Carlo", "reft", setting, published, drawn, low, high, "1"))
    return rows


def iteration_rows(table: pd.DataFrame) -> list[Row]:
    """Return iterations and overheads that were predicted; the calibration is marked as such."""
    rows = []
    for cell in table.itertuples():
        setting = f"{cell.model}, {cell.mode}" + (", calibration" if cell.calibration else "")
        for quantity, published_s, predicted_s in (
            ("iteration with a snapshot", cell.published_s, cell.predicted_s),
            ("overhead of a snapshot", cell.published_overhead_s, cell.overhead_s),
        ):
            rows.append(row_of(quantity, "reft", setting, published_s, [predicted_s], "s"))
    return rows


def snapshot_rows(sharded: pd.DataFrame, saving: pd.DataFrame) -> list[Row]:
    """Return copy times of shards, and how much faster REFT saves than storage."""
    rows = [
        row_of(
            "copy of a snapshot of 11,471 MiB a rank",
            "reft",
            f"hgx-a800, sharded over {cell.sharding_group}, no parity",
            cell.published_s,
            [cell.copy_s],
            "s",
        )
        for cell in sharded.itertuples()
    ]
    for cell in saving.itertuples():
        setting = f"hgx-a800, storage {cell.storage_bandwidth}, groups of {cell.sharding_group}"
        rows.append(
            # "More than": a bound, not a value of this setting.
            row_of(
                f"saving speed over asynchronous checkpoints (published: more than "
                f"{SAVING_FACTOR:g})",
                "reft",
                setting,
                None,
                [cell.factor],
                "1",
            )
        )
    return rows


def stall_rows(table: pd.DataFrame) -> list[Row]:
    """Return effective times by stall: published, three closed forms, and simulated."""
    rows = []
    for stall_s in STALLS_S:
        published = EFFECTIVE_TIME[stall_s]
        where = f"100,000 GPUs, stalls of {stall_s / 60:g} min"

        def row(quantity: str, setting: str, values: list[float], known: float = published) -> Row:
            return row_of(quantity, "checkpoint", setting, known, values, "1")

        rows.append(
            row(
                "effective time, closed form",
                f"{where}, one after the other",
                [one_after_the_other(stall_s)],
            )
        )
        for treatment in TREATMENTS:
            mine = table[(table.stall_s == stall_s) & (table.treatment == treatment)]
            setting = f"{where}, {treatment}"
            closed = of_treatment(treatment, stall_s)
            rows.append(row("effective time, closed form", setting, [closed]))
            rows.append(row("effective time, simulated", setting, list(mine.effective_time)))
    return rows


def combination_rows(runs: pd.DataFrame, changes: pd.DataFrame) -> list[Row]:
    """Return ratios by scheme and protection, and their changes against storage by seed."""
    keys = ["restart_of_s", "strategy", "protection", "redundancy"]
    rows = [
        row_of(
            "time_to_train_ratio",
            scheme,
            f"{protection}, restart {restart_s / 60:g} min, r={redundancy}",
            None,
            list(mine.time_to_train_ratio),
            "1",
        )
        for (restart_s, scheme, protection, redundancy), mine in runs.groupby(keys, sort=False)
    ]
    rows += [
        Row(
            "change of time_to_train_ratio against storage",
            cell.strategy,
            f"{cell.protection}, restart {cell.restart_of_s / 60:g} min",
            None,
            cell.change,
            # A single seed has no interval.
            cell.change if pd.isna(cell.change_low) else cell.change_low,
            cell.change if pd.isna(cell.change_high) else cell.change_high,
            "1",
        )
        for cell in changes.itertuples()
    ]
    return rows


def scan_rows(runs: pd.DataFrame) -> list[Row]:
    """Return SPARe's ratio at every redundancy, on storage and on REFT."""
    return [
        row_of(
            "time_to_train_ratio, redundancy scanned",
            "spare",
            f"{protection}, restart {restart_s / 60:g} min, r={redundancy}",
            None,
            list(mine.time_to_train_ratio),
            "1",
        )
        for (restart_s, protection, redundancy), mine in runs.groupby(
            ["restart_of_s", "protection", "redundancy"], sort=False
        )
    ]


def placement_rows(runs: pd.DataFrame) -> list[Row]:
    """Return what failures of several sizes cost, by placement."""
    keys = ["failures_of", "protection", "placement", "persist_steps"]
    rows = []
    for (struck, protection, placement, persisted), mine in runs.groupby(keys, sort=False):
        setting = f"failures of {struck}, {placement}, on storage every {persisted} steps"
        scheme = f"checkpoint on {protection}"
        ratio = list(mine.time_to_train_ratio)
        found = mine.restarts_from_memory + mine.restarts_from_peers
        share = list(found / mine.restarts)
        rows.append(row_of("time_to_train_ratio", scheme, setting, None, ratio, "1"))
        rows.append(row_of("restarts from memory", scheme, setting, None, share, "1"))
    return rows


def recovery_rows(table: pd.DataFrame) -> list[Row]:
    """Return the shares of recoveries by where the state was, counted and in closed form."""
    rows = []
    for cell in table.itertuples():
        setting = (
            f"64 nodes in groups of {cell.sharding_group}, restart {cell.restart_s:g} s, {cell.way}"
        )
        rows.append(row_of("share of recoveries", "reft", setting, None, [cell.exact], "1"))
        rows.append(
            Row(
                "share of recoveries, simulated",
                "reft",
                setting,
                None,
                cell.counted,
                cell.low,
                cell.high,
                "1",
            )
        )
    return rows
