"""What a protection is worth beneath a scheme, and which redundancy is then the best."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.analysis.comparison import compare
from faultline.experiments.analysis.intervals import mean_over_seeds

BASELINE = "storage"
_METRIC = "time_to_train_ratio"


def changes(runs: pd.DataFrame) -> pd.DataFrame:
    """Compare every protection with checkpoints that the job waits for, seed by seed.

    Returns
    -------
    DataFrame
        A row a protection, scheme and restart: ``mean``, ``baseline_mean`` of the ratio, and
        ``change``, ``change_low``, ``change_high``: the mean difference and its 95 % interval by
        paired t, as fractions of the baseline's mean.
    """
    table = compare(runs, "protection", BASELINE, ["restart_of_s", "strategy"], _METRIC)
    table["change_low"] = table["low"] / table["baseline_mean"]
    table["change_high"] = table["high"] / table["baseline_mean"]
    return table


def best_redundancies(scan: pd.DataFrame) -> pd.DataFrame:
    """Return SPARe's redundancy of the least mean ratio, a row a restart and protection.

    Close redundancies differ by less than seeds do; the best is judged by the runs that chose it.
    """
    means = mean_over_seeds(scan, ["restart_of_s", "protection", "redundancy"], _METRIC)
    best = means.loc[means.groupby(["restart_of_s", "protection"])["mean"].idxmin()]
    return best.reset_index(drop=True)
