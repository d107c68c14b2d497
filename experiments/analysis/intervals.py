"""Means over seeds, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

CONFIDENCE = 0.95


def half_width(
    deviation: ArrayLike, count: ArrayLike, confidence: float = CONFIDENCE
) -> NDArray[np.float64]:
    """Return half the width of Student's interval for a mean.

    Parameters
    ----------
    deviation : array_like of float
        Standard deviations of the samples (of n - 1 degrees of freedom).
    count : array_like of int
        Their sizes n.
    confidence : float
        Probability that the interval holds the mean, if the sample is normal.

    Returns
    -------
    ndarray of float
        t(n - 1) * deviation / sqrt(n); NaN where n < 2.
    """
    sizes = np.asarray(count, dtype=float)
    enough = sizes > 1
    safe = np.where(enough, sizes, 2.0)
    quantiles = stdtrit(safe - 1, 0.5 + confidence / 2)
    widths = quantiles * np.asarray(deviation, dtype=float) / np.sqrt(safe)
    return np.where(enough, widths, np.nan)


def mean_over_seeds(frame: pd.DataFrame, keys: Sequence[str], metric: str) -> pd.DataFrame:
    """Return the mean of a metric and its 95 % interval over seeds, for each setting.

    Seeds are what is independent: where `keys` leave other axes open, each seed first gives its
    mean over those.

    Parameters
    ----------
    frame : DataFrame
        A row a run, with the column ``seed``.
    keys : sequence of str
        Columns that make a setting; missing values are values.
    metric : str
        The column to be averaged; infinite values make an infinite mean without an interval.

    Returns
    -------
    DataFrame
        A row a setting, in ascending order: the keys, ``mean``, ``low``, ``high`` (equal to the
        mean where there is one seed) and ``seeds``.
    """
    names = list(keys)
    per_seed = (
        frame.groupby([*names, "seed"], dropna=False, observed=True)[metric].mean().reset_index()
    )
    if names:
        grouped = per_seed.groupby(names, dropna=False, observed=True)[metric]
        table = grouped.agg(["mean", "std", "count"]).reset_index()
    else:
        values = per_seed[metric]
        table = pd.DataFrame(
            {"mean": [values.mean()], "std": [values.std()], "count": [values.count()]}
        )
    half = np.nan_to_num(half_width(table["std"], table["count"]), nan=0.0)
    table["low"] = table["mean"] - half
    table["high"] = table["mean"] + half
    return table.drop(columns="std").rename(columns={"count": "seeds"})
