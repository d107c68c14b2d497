"""Means over seeds and shares that were counted, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan, sqrt
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.quantities import quantity
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtri, stdtrit

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

    That of a share, which lies between 0 and 1, stays there: Student's interval is laid around the
    logit of the mean and taken back, so that near a bound it is short towards that bound and long
    away from it. It is the mean itself where that is 0 or 1: then every share of the sample is.

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
    """Return the 95 % interval of a probability, from how often something happened.

    Wilson 1927, "Probable inference, the law of succession, and statistical inference": it stays
    within 0 and 1, and has a width where nothing, or everything, happened.
    """
    quantile = float(ndtri(0.5 + CONFIDENCE / 2))
    share = hits / trials
    weight = quantile**2 / trials
    centre = (share + weight / 2.0) / (1.0 + weight)
    half = sqrt(weight * (share * (1.0 - share) + weight / 4.0)) / (1.0 + weight)
    # With no hits, or all, rounding must not put the share outside.
    return min(share, centre - half), max(share, centre + half)


def grouped_by(frame: pd.DataFrame, keys: Sequence[str], **how: Any) -> Any:
    """Return the groups of a frame by some columns, missing values included; by none, all of it."""
    return frame.groupby(list(keys) or (lambda _: 0), dropna=False, **how)


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
        The column to be averaged; infinite values make an infinite mean without an interval, and
        the interval of a share (`Column.share`) stays between 0 and 1.

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
        A row a pair, with the columns ``seed``, ``ours`` and ``theirs``.
    keys : sequence of str
        Columns that make a setting; missing values are values.
    more
        Further columns of the result: aggregations by name, as pandas' ``agg`` takes them.

    Returns
    -------
    DataFrame
        A row a setting, in ascending order: the keys, ``mean`` and ``baseline_mean``,
        ``difference`` of the two, its ``low`` and ``high`` (NaN where there are fewer than two
        pairs, or where a value is infinite), ``change`` (the difference as a fraction of the
        baseline's mean; NaN where that is zero or infinite), ``pairs``, and what `more` adds.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        table = pairs.assign(difference=pairs["ours"] - pairs["theirs"])
        # In the order of the seeds: sums of floats depend on theirs.
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
    """A mean or another estimate, and its interval; NaN where fewer than two values give none."""

    mean: float
    low: float
    high: float

    @property
    def is_below_zero(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0


def interval_of(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of independent values with Student's interval; at least one value."""
    mean = float(np.mean(values))
    if len(values) < 2 or not isfinite(mean):
        return Interval(mean, nan, nan)
    half = float(half_width(float(np.std(values, ddof=1)), len(values), confidence))
    return Interval(mean, mean - half, mean + half)


def paired_change(
    ours: Sequence[float], theirs: Sequence[float], confidence: float = CONFIDENCE
) -> Interval:
    """Return by which fraction ours differ from theirs, paired by the seeds that both have.

    Differences are taken seed by seed and divided by the mean of theirs, so that what a seed does
    to both drops out. Where a value is infinite, so is the mean, and there is no interval.

    Values are positive, of the same seeds in the same order; one of the two may have fewer.
    """
    shared = min(len(ours), len(theirs))
    ours, theirs = ours[:shared], theirs[:shared]
    with np.errstate(invalid="ignore"):
        differences = np.asarray(ours) - np.asarray(theirs)
    scale = float(np.mean(theirs))
    if not isfinite(scale):
        return Interval(nan if not isfinite(float(np.mean(ours))) else -1.0, nan, nan)
    return interval_of((differences / scale).tolist(), confidence)


def factors_to_all_seeds(values: Sequence[Sequence[float]]) -> list[float]:
    """Return the factor on each one's values that makes all comparable over the same seeds.

    One that was decided early has fewer seeds, perhaps easier ones. Its factor is the mean of the
    least that has all seeds, with all of them, over its mean with the fewer; as far as the values
    of the one vary from seed to seed as much as those of the least do. So a scheme that hardly
    feels which failures come keeps its time. What has an infinite value does not count.
    """
    finished = [one for one in values if all(map(isfinite, one))]
    most = max(map(len, finished), default=0)
    reference = min((one for one in finished if len(one) == most), key=fmean, default=None)
    if reference is None:
        return [1.0] * len(values)
    return [_factor(one, reference) for one in values]


def _factor(values: Sequence[float], reference: Sequence[float]) -> float:
    """Return the factor for one, beside the one that has all seeds."""
    shared = reference[: len(values)]
    whole = fmean(reference) / fmean(shared)
    spread = pstdev(shared) / fmean(shared)
    if len(values) < 2 or spread == 0.0 or not all(map(isfinite, values)):
        return whole
    felt = min(1.0, pstdev(values) / fmean(values) / spread)
    return 1.0 + felt * (whole - 1.0)
