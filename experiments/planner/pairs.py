"""Means and differences of runs that met the same failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np
from faultline.experiments.analysis.intervals import CONFIDENCE, half_width


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its interval; `low` and `high` are NaN where there are fewer than two values."""

    mean: float
    low: float
    high: float

    @property
    def is_below_zero(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0


def interval_of(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of independent values with Student's interval; at least one value.

    Parameters
    ----------
    values : sequence of float
        One value a seed.
    confidence : float
        Probability that the interval holds the mean, if the values are normal.
    """
    mean = float(np.mean(values))
    if len(values) < 2 or not isfinite(mean):
        return Interval(mean, nan, nan)
    half = float(half_width(float(np.std(values, ddof=1)), len(values), confidence))
    return Interval(mean, mean - half, mean + half)


def paired_change(
    ours: Sequence[float], theirs: Sequence[float], confidence: float = CONFIDENCE
) -> Interval:
    """Return by which fraction ours differ from theirs, paired by seed.

    Differences are taken seed by seed and divided by the mean of theirs, so that what a seed does
    to both drops out. Where a value is infinite, so is the mean, and there is no interval.

    Parameters
    ----------
    ours, theirs : sequence of float
        Values of the same seeds in the same order, positive.
    confidence : float
        As in `interval_of`.
    """
    with np.errstate(invalid="ignore"):
        differences = np.asarray(ours) - np.asarray(theirs)
    scale = float(np.mean(theirs))
    if not isfinite(scale):
        return Interval(nan if not isfinite(float(np.mean(ours))) else -1.0, nan, nan)
    return interval_of((differences / scale).tolist(), confidence)
