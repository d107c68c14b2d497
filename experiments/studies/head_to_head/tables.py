"""From runs to tables: a row a cell and candidate, with the winners of each cell."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import half_width
from faultline.experiments.studies.head_to_head.playing import CONTESTED

CELL = ["plane", "x", "y"]
TIME, GPU_HOURS = "ratio", "gpu_ratio"
METRICS = {TIME: "time", GPU_HOURS: "gpu_hours"}

_CIRCUMSTANCES = ["mtbf_s", "restart_s", "gpus", "domain_share", "steps"]


def candidate_table(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return means over seeds, a row a cell and candidate.

    Returns
    -------
    DataFrame
        Cell and its circumstances, candidate, ``seeds`` played, ``ratio`` (time to train over that
        without failures) and ``gpu_ratio`` (GPU-hours, spares included, over those without
        failures) with ``_low`` and ``_high`` of their 95 % intervals over seeds; means of
        ``availability``, ``restarts``, ``rejoined``, ``spare_gpus``; ``closed_form_ratio``; the
        most that a GPU had to hold in any run, and whether its memory does (``fits_memory``);
        ``best_time`` and ``best_gpu_hours`` mark the winners, ``sure_time`` and ``sure_gpu_hours``
        tell whether a winner's lead over the best of the other schemes is beyond the seeds' noise;
        ``note`` says why one was stopped or left out.
    """
    runs = pd.DataFrame(rows)
    runs["place"] = range(len(runs))
    keys = [*CELL, "candidate"]
    played = runs[runs["absent"] == ""]
    grouped = played.groupby(keys, sort=False)
    first = [*_CIRCUMSTANCES, "scheme", "protection", "redundancy", "closed_form_ratio", "place"]
    means = ["availability", "restarts", "rejoined", "spare_gpus", "gpu_hours", "played_ratio"]
    table = grouped[first].first()
    table["seeds"] = grouped.size()
    for metric in METRICS:
        middle, spread = grouped[metric].mean(), _deviation(grouped[metric])
        half = np.nan_to_num(half_width(spread, table["seeds"]), nan=0.0)
        table[metric] = middle
        table[f"{metric}_low"], table[f"{metric}_high"] = middle - half, middle + half
    table[means] = grouped[means].mean()
    table["gpu_memory_bytes"] = grouped["gpu_memory_bytes"].max()
    table["fits_memory"] = grouped["fits_memory"].all()
    table = table.reset_index()
    table["note"] = [
        "" if ratio < inf else f"stopped at {reached:.1f}"
        for ratio, reached in zip(table["ratio"], table["played_ratio"], strict=True)
    ]
    for metric, name in METRICS.items():
        _mark_winners(table, played, metric, name)
    absent = runs[runs["absent"] != ""].assign(seeds=0)
    columns = [*keys, *_CIRCUMSTANCES, "scheme", "protection", "seeds", "place"]
    absent = absent[[*columns, "absent"]].rename(columns={"absent": "note"})
    whole = pd.concat([table, absent], ignore_index=True) if len(absent) else table
    flags = [f"{kind}_{name}" for kind in ("best", "sure") for name in METRICS.values()]
    whole[flags] = whole[flags].astype("boolean").fillna(False).astype(bool)
    return whole.sort_values("place").drop(columns=["place", "played_ratio"]).reset_index(drop=True)


def winners(table: pd.DataFrame, plane: str, name: str) -> pd.DataFrame:
    """Return the winners of a plane's cells, a row a cell.

    Parameters
    ----------
    table : DataFrame
        What `candidate_table` returned.
    plane : str
        The plane.
    name : {"time", "gpu_hours"}
        What is won by.
    """
    return table[(table["plane"] == plane) & table[f"best_{name}"]]


def restricted(table: pd.DataFrame, rows: pd.DataFrame, schemes: Sequence[str]) -> pd.DataFrame:
    """Return a table with some schemes only, and the winners among them."""
    fewer = table[table["scheme"].isin(schemes) & (table["seeds"] > 0)].copy()
    for metric, name in METRICS.items():
        _mark_winners(fewer, rows[rows["absent"] == ""], metric, name)
    return fewer


def _lead(mine: pd.DataFrame, one: str, other: str, metric: str) -> tuple[float, float]:
    pair = [
        mine.loc[mine["candidate"] == name, ["seed", metric]].set_index("seed")[metric]
        for name in (one, other)
    ]
    with np.errstate(invalid="ignore"):
        difference = (pair[1] - pair[0]).dropna()
    if not np.isfinite(difference).all():
        return inf, 0.0
    half = half_width(difference.std(), len(difference))
    return float(difference.mean()), float(half)


def _deviation(grouped: Any) -> pd.Series:
    with np.errstate(invalid="ignore"):
        return grouped.agg(lambda values: values.std() if np.isfinite(values).all() else np.nan)


def _mark_winners(table: pd.DataFrame, played: pd.DataFrame, metric: str, name: str) -> None:
    """Mark the best candidate of each cell, and whether it surely beats all other schemes."""
    table[f"best_{name}"] = table[f"sure_{name}"] = False
    runs_of = dict(list(played.groupby(CELL, sort=False)))
    for cell, mine in table.groupby(CELL, sort=False):
        ranked = mine[np.isfinite(mine[metric])].sort_values(metric, kind="stable")
        if ranked.empty:
            continue
        best = ranked.iloc[0]
        others = ranked[ranked["scheme"] != best["scheme"]]
        table.loc[best.name, f"best_{name}"] = True
        # By a single seed nobody is surely ahead of those who are near.
        near = others[metric] <= CONTESTED * best[metric]
        sure = bool(best["seeds"] > 1 or not near.any())
        # The nearest few: one played with a single seed was far behind in that.
        for _, other in others[others["seeds"] > 1].head(3).iterrows():
            lead, half = _lead(runs_of[cell], best["candidate"], other["candidate"], metric)
            sure &= bool(lead > half)
        table.loc[best.name, f"sure_{name}"] = sure


def paired_to_best(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return a table with each candidate's ratio above the best of its cell, paired by seed.

    Returns
    -------
    DataFrame
        With ``above_best`` and ``above_best_half``, half the 95 % interval; zero for the best.
    """
    wider = table.assign(above_best=np.nan, above_best_half=np.nan)
    of_cell = dict(list(runs[runs["absent"] == ""].groupby(CELL, sort=False)))
    for cell, mine in wider.groupby(CELL, sort=False):
        best = mine.loc[mine["best_time"], "candidate"]
        if best.empty:
            continue
        for index, row in mine[mine["seeds"] > 0].iterrows():
            lead = _lead(of_cell[cell], best.iloc[0], row["candidate"], TIME)
            wider.loc[index, ["above_best", "above_best_half"]] = lead
    return wider
