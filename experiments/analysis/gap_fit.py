"""Times between failures: a Weibull distribution fitted to them, and what speaks against it.

References
----------
Cohen 1965, Maximum likelihood estimation in the Weibull distribution, Technometrics 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
LEAST_GAPS = 10
"""Gaps from which on a shape is fitted."""

_NORMAL = float(stats.norm.ppf(0.5 + CONFIDENCE / 2))
_DRAWS, _NEWTON_STEPS = 499, 12
_MOST_DRAWN = 200
"""Gaps from which on distances, times the root of their number, do not depend on it any more."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Gaps:
    """Times between failures, and what is fitted to them."""

    # The gaps, ascending, in seconds; failures of the same instant have none between them.
    times_s: Floats
    same_instant: int  # How many failures came at the same instant as the one before.
    shape: Estimate | None  # Of a Weibull distribution; None for fewer than `LEAST_GAPS` gaps.
    # Of that distribution, in seconds; the mean of the gaps where there is no shape.
    scale_s: float
    # Probability that gaps of such a distribution look less like it (Kolmogorov and Smirnov,
    # parameters fitted, by simulation).
    p_exponential: float | None
    p_weibull: float | None

    @property
    def memoryless(self) -> bool:
        """Whether nothing speaks against a shape of 1."""
        return self.shape is None or self.shape.low <= 1.0 <= self.shape.high


def fit_gaps(times_s: Sequence[float], span_s: float) -> Gaps:
    """Fit the times between failures; how long none came at the end counts as well."""
    ordered = np.sort(np.asarray(times_s, dtype=float))
    between = np.diff(ordered)
    gaps = np.sort(between[between > 0.0])
    same = int(len(between) - len(gaps))
    if len(gaps) < LEAST_GAPS:
        mean_s = float(gaps.mean()) if len(gaps) else span_s
        return Gaps(gaps, same, None, mean_s, None, None)
    shape = weibull_shape(gaps, max(0.0, span_s - float(ordered[-1])))
    longest_s = float(gaps[-1])
    scale_s = longest_s * float(np.mean((gaps / longest_s) ** shape) ** (1.0 / shape))
    # Of the logarithm of the shape, by Fisher's information.
    half = _NORMAL * sqrt(6.0) / (np.pi * sqrt(len(gaps)))
    interval = Estimate(shape, shape * exp(-half), shape * exp(half))
    weibull = _distance(-np.expm1(-((gaps / scale_s) ** shape)))
    exponential = _distance(-np.expm1(-gaps / gaps.mean()))
    drawn_exponential, drawn_weibull = _drawn_distances(min(len(gaps), _MOST_DRAWN))
    return Gaps(
        gaps,
        same,
        interval,
        scale_s,
        float((1 + np.sum(drawn_exponential >= exponential)) / (1 + _DRAWS)),
        float((1 + np.sum(drawn_weibull >= weibull)) / (1 + _DRAWS)),
    )


def weibull_shape(gaps: Floats, unfinished: float = 0.0) -> float:
    """Return the shape of greatest likelihood (Cohen 1965).

    Parameters
    ----------
    gaps : array of float
        Times, all positive; not all alike.
    unfinished : float
        A time that had not ended yet; 0 for none.
    """
    largest = max(float(gaps.max()), unfinished)
    logs = np.log(gaps / largest)
    every = np.append(logs, log(unfinished / largest)) if unfinished > 0.0 else logs
    mean = float(logs.mean())

    def slope(of: float) -> float:
        weights = np.exp(of * every)
        return 1.0 / of + mean - float(weights @ every / weights.sum())

    return float(optimize.brentq(slope, 1e-3, 1e3)) if slope(1e3) < 0.0 else 1e3


def _distance(chances: Floats) -> float:
    """Return Kolmogorov's distance of ascending chances from even ones, times the root of n."""
    number = len(chances)
    places = np.arange(number + 1) / number
    above, below = places[1:] - chances, chances - places[:-1]
    return float(max(above.max(), below.max()) * sqrt(number))


@cache
def _drawn_distances(number: int) -> tuple[Floats, Floats]:
    """Return distances of so many memoryless gaps from an exponential, a Weibull fitted to them.

    They depend on neither mean nor shape.
    """
    drawn = np.sort(np.random.default_rng(number).standard_exponential((_DRAWS, number)), axis=1)
    exponential = [_distance(-np.expm1(-gaps / gaps.mean())) for gaps in drawn]
    logs = np.log(drawn)
    shapes = np.ones((_DRAWS, 1))
    for _ in range(_NEWTON_STEPS):
        weights = np.exp(shapes * logs)
        whole = weights.sum(axis=1, keepdims=True)
        first = (weights * logs).sum(axis=1, keepdims=True) / whole
        second = (weights * logs**2).sum(axis=1, keepdims=True) / whole
        slope = 1.0 / shapes + logs.mean(axis=1, keepdims=True) - first
        shapes += slope / (1.0 / shapes**2 + second - first**2)
    powers = np.exp(shapes * logs)
    weibull = [_distance(-np.expm1(-power / power.mean())) for power in powers]
    return np.array(exponential), np.array(weibull)
