"""Every result of the study as a row, beside the published number where there is one."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.gemini.wasted import COSTS, MACHINES_PER_DOMAIN, REPLICAS

PUBLISHED_RECOVERY = {(16, 2, 2): 93.3, (16, 2, 3): 80.0}
"""Per cent, by machines, replicas and lost machines (Wang et al. 2023 (GEMINI), SOSP)."""

_ROW_LOSSES = (2, 3, 4, 8, 16)
_ROW_SHARES = (0.0, 0.1, 0.2)
_ROW_WINDOWS_H = (1, 24)


def recovery_rows(table: pd.DataFrame) -> list[Row]:
    """Return GEMINI's recovery probability: exact, its lower bound, and by random sets."""
    rows = []
    for cell in table[table.lost.isin(_ROW_LOSSES)].itertuples():
        known = PUBLISHED_RECOVERY.get((cell.machines, cell.replicas, cell.lost))
        setting = f"N={cell.machines} m={cell.replicas} k={cell.lost}"
        for quantity, value in (
            ("recovery probability", cell.exact),
            ("recovery probability, lower bound", cell.bound),
        ):
            rows.append(row_of(quantity, "gemini", setting, known, [100.0 * value], "%"))
        rows.append(_drawn_row("recovery probability, Monte Carlo", "gemini", setting, known, cell))
    return rows


def domain_rows(table: pd.DataFrame) -> list[Row]:
    """Return the recovery probability after whole domains are lost, exact and by random sets."""
    rows = []
    for cell in table[table.scheme != "unprotected"].itertuples():
        setting = f"2048 hosts in domains of 8, {cell.lost_domains} domains lost, {cell.placement}"
        exact = [100.0 * cell.exact]
        rows.append(row_of("recovery probability", cell.scheme, setting, None, exact, "%"))
        rows.append(
            _drawn_row("recovery probability, Monte Carlo", cell.scheme, setting, None, cell)
        )
    return rows


def window_rows(table: pd.DataFrame) -> list[Row]:
    """Return the survival through windows, by the closed form and by failures drawn."""
    rows = []
    chosen = table[table.domain_share.isin(_ROW_SHARES) & table.window_h.isin(_ROW_WINDOWS_H)]
    for cell in chosen.itertuples():
        setting = (
            f"{cell.mix} on 16384 GPUs, {cell.domain_share:.0%} of failures take a domain, "
            f"{cell.window_h} h, {cell.placement}"
        )
        exact = [100.0 * cell.exact]
        rows.append(row_of("survival of a window", cell.scheme, setting, None, exact, "%"))
        rows.append(
            _drawn_row("survival of a window, Monte Carlo", cell.scheme, setting, None, cell)
        )
    return rows


def wasted_rows(wasted: pd.DataFrame, placed: pd.DataFrame) -> list[Row]:
    """Return what a failure wastes by where checkpoints are, and what placement does to it."""
    setting = (
        f"{COSTS.parameters / 1e9:g}B parameters, {COSTS.machines} machines, iteration "
        f"{COSTS.iteration_s:g} s"
    )
    seconds = dict(zip(wasted.checkpoints, wasted.wasted_s, strict=True))
    memory, *storage = seconds
    rows = [
        row_of("wasted time a failure", way, setting, None, [wasted_s], "s")
        for way, wasted_s in seconds.items()
    ]
    rows += [
        row_of(
            "wasted time of storage over memory",
            way,
            setting,
            None,
            [seconds[way] / seconds[memory]],
            "1",
        )
        for way in storage
    ]
    for cell in placed.itertuples():
        where = (
            f"{setting}, m={REPLICAS}, domains of {MACHINES_PER_DOMAIN} machines, "
            f"{cell.domain_share:.0%} of failures take a domain, {cell.placement}"
        )
        rows.append(
            row_of("mean wasted time a failure", "gemini", where, None, [cell.wasted_s], "s")
        )
    return rows


def _drawn_row(
    quantity: str,
    scheme: str,
    setting: str,
    published: float | None,
    cell: object,
) -> Row:
    """Return a row of a probability that was counted, with its interval."""
    drawn, low, high = (100.0 * float(getattr(cell, name)) for name in ("drawn", "low", "high"))
    return Row(quantity, scheme, setting, published, drawn, low, high, "%")
