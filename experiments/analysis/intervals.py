"""Means over seeds and shares of counts, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from faultline.experiments.analysis.quantities import quantity
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtri, stdtrit

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE = 0.95


def half_width(
    deviation: ArrayLike, count: ArrayLike, confidence: float = CONFIDENCE
) -> NDArray[np.float64]:
    """Return half the width of Student's interval for a mean: t(n - 1) * deviation / sqrt(n).

    Deviations are of samples of sizes n, with n - 1 degrees of freedom; NaN where n < 2.
    """
    sizes = np.asarray(count, dtype=float)
    enough = sizes > 1
    safe = np.where(enough, sizes, 2.0)
    quantiles = stdtrit(safe - 1, 0.5 + confidence / 2)
    widths = quantiles * np.asarray(deviation, dtype=float) / np.sqrt(safe)
    return np.where(enough, widths, np.nan)


def interval_of_mean(
    mean: ArrayLike, half: ArrayLike, *, share: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the interval of a mean from `half` the width of Student's.

    The interval of a share stays between 0 and 1: Student's interval is computed around the logit
    of the mean and transformed back. Near a bound it is short towards that bound and long away
    from it. If the mean is 0 or 1, all shares of the sample are, and the interval is the mean.

    Notes
    -----
    Delta method: the logit changes by 1 / (m (1 - m)) for each unit of the mean m (Agresti 2013,
    *Categorical Data Analysis*, section 3.1).
    """
    means, halves = np.asarray(mean, dtype=float), np.asarray(half, dtype=float)
    if not share:
        return means - halves, means + halves
    inside = (means > 0) & (means < 1)
    safe = np.where(inside, means, 0.5)
    centre, reach = logit(safe), halves / (safe * (1 - safe))
    low, high = expit(centre - reach), expit(centre + reach)
    return np.where(inside, low, means), np.where(inside, high, means)


def interval_of_proportion(hits: float, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a probability, from the number of hits.

    Wilson 1927, "Probable inference, the law of succession, and statistical inference": it stays
    within 0 and 1, and has a positive width even if no trial, or each trial, was a hit.
    """
    quantile = float(ndtri(0.5 + CONFIDENCE / 2))
    share = hits / trials
    weight = quantile**2 / trials
    centre = (share + weight / 2.0) / (1.0 + weight)
    half = sqrt(weight * (share * (1.0 - share) + weight / 4.0)) / (1.0 + weight)
    # With no hits, or all, rounding must not put the share outside.
    return min(share, centre - half), max(share, centre + half)


def grouped_by(frame: pd.DataFrame, keys: Sequence[str], **how: Any) -> Any:
    """Return the groups of a frame by columns, missing values included; one group for no column."""
    return frame.groupby(list(keys) or (lambda _: 0), dropna=False, **how)


def mean_over_seeds(frame: pd.DataFrame, keys: Sequence[str], metric: str) -> pd.DataFrame:
    """Return the mean of a metric and its 95 % interval over seeds, for each setting.

    Only seeds are independent: if other axes than `keys` vary, each seed first gets its mean over
    those.

    Parameters
    ----------
    frame : DataFrame
        A row per run, with the column ``seed``.
    keys : sequence of str
        Columns that identify a setting; a missing value is a value too.
    metric : str
        The averaged column. Infinite values make an infinite mean without an interval; the
        interval of a share (`Column.share`) stays between 0 and 1.

    Returns
    -------
    DataFrame
        A row per setting, in ascending order: the keys, ``mean``, ``low``, ``high`` (equal to the
        mean if there is one seed) and ``seeds``.
    """
    names = list(keys)
    per_seed = (
        frame.groupby([*names, "seed"], dropna=False, observed=True)[metric].mean().reset_index()
    )
    table = grouped_by(per_seed, names, observed=True)[metric].agg(["mean", "std", "count"])
    table = table.reset_index(drop=not names)
    half = np.nan_to_num(half_width(table["std"], table["count"]), nan=0.0)
    share = quantity(metric).share
    table["low"], table["high"] = interval_of_mean(table["mean"], half, share=share)
    return table.drop(columns="std").rename(columns={"count": "seeds"})


def paired_differences(pairs: pd.DataFrame, keys: Sequence[str], **more: Any) -> pd.DataFrame:
    """Compare ours with theirs of the same seed, for each setting, with 95 % intervals by paired t.

    Parameters
    ----------
    pairs : DataFrame
        A row per pair, with the columns ``seed``, ``ours`` and ``theirs``.
    keys : sequence of str
        Columns that identify a setting; a missing value is a value too.
    more
        Further columns of the result: aggregations by name, as for pandas' ``agg``.

    Returns
    -------
    DataFrame
        A row per setting, in ascending order: the keys, ``mean`` and ``baseline_mean``,
        ``difference`` of the two, its ``low`` and ``high`` (NaN for fewer than two pairs or an
        infinite value), ``change`` (the difference as a fraction of the baseline's mean; NaN if
        that is zero or infinite), ``pairs``, and the columns of `more`.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        table = pairs.assign(difference=pairs["ours"] - pairs["theirs"])
        # Sorted by seed, because sums of floats depend on their order.
        table = grouped_by(table.sort_values("seed", kind="stable"), keys).agg(
            mean=("ours", "mean"),
            baseline_mean=("theirs", "mean"),
            deviation=("difference", "std"),
            pairs=("seed", "size"),
            **more,
        )
        half = half_width(table["deviation"], table["pairs"])
        difference = table["mean"] - table["baseline_mean"]
        change = difference / table["baseline_mean"].abs()
    found = {
        "difference": difference,
        "low": difference - half,
        "high": difference + half,
        "change": change.where(np.isfinite(change)),
    }
    for place, (name, values) in enumerate(found.items(), 2):
        table.insert(place, name, values)
    return table.drop(columns="deviation").reset_index(drop=not keys)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean or another estimate, and its interval; NaN for fewer than two values."""

    mean: float
    low: float
    high: float


def interval_of(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of independent values with Student's interval; at least one value."""
    mean = float(np.mean(values))
    if len(values) < 2 or not isfinite(mean):
        return Interval(mean, nan, nan)
    half = float(half_width(float(np.std(values, ddof=1)), len(values), confidence))
    return Interval(mean, mean - half, mean + half)
