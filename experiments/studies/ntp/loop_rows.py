"""The results of the schemes in the training loop as rows; nobody has published any."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.ntp.loop_study import REPAIR


def loop_rows(table: pd.DataFrame) -> list[Row]:
    """Return goodput, time lost to smaller batches, and how far the placement study is from it."""
    setting = f"15 days in the training loop, repair {REPAIR}"
    rows = []
    for variant, mine in table.groupby("variant", sort=False):
        by_seed = mine.groupby("seed")
        name, _, how = str(variant).partition(", ")
        where = f"{setting}, {how}" if how else setting
        for column, unit in (("goodput", "1"), ("degraded", "1"), ("restarts", "1")):
            rows.append(row_of(column, name, where, None, _means(by_seed, column), unit))
        if mine.placed.max() > 0:
            beside = [
                float(one.degraded.mean() / one.placed.mean()) for _, one in by_seed if len(one)
            ]
            rows.append(row_of("degraded_over_placement_study", name, where, None, beside, "1"))
    return rows


def within_rows(table: pd.DataFrame) -> list[Row]:
    """Return what the job takes with and without hit groups that work on."""
    rows = []
    keys = ["scheme", "redundancy", "hit_groups", "stall_s"]
    for (scheme, redundancy, hit_groups, stall_s), mine in table.groupby(keys, sort=False):
        what = "hit groups die" if hit_groups == "die" else f"{hit_groups}, stalls of {stall_s:g} s"
        setting = f"600,000 GPUs, single GPUs fail, r = {redundancy}, {what}"
        if mine.without_a_restart.all():
            setting += ", NTP without a restart" + (" (control)" if redundancy == 1 else "")
        by_seed = mine.groupby("seed")
        rows += [
            row_of(column, str(scheme), setting, None, _means(by_seed, column), "1")
            for column in ("time_to_train_ratio", "restarts")
        ]
    return rows


def _means(by_seed: pd.core.groupby.DataFrameGroupBy, column: str) -> Sequence[float]:
    return [float(value) for value in by_seed[column].mean()]
