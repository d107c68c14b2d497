"""Nodes that fail more than others: a gamma-distributed factor on the rate of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log

import numpy as np
from faultline.experiments.analysis.gap_fit import CONFIDENCE, Estimate
from numpy.typing import NDArray
from scipy import optimize, special, stats

LEAST_FAILURES = 10
"""Failures, and nodes, from which on their difference is fitted."""

_WORST = 0.05


@dataclass(frozen=True, slots=True)
class Lemons:
    """How failures differ among nodes: rates times a gamma-distributed factor of mean 1."""

    counts: NDArray[np.int64]  # Failures of each node.
    # Of the gamma distribution; the smaller, the more a few nodes fail. Infinite where nodes are as
    # alike as chance allows.
    shape: Estimate
    p_alike: float  # Probability of as much difference if all nodes were alike (likelihood ratio).
    # Share of the failures that the worst 5 % of nodes have, by the fitted distribution.
    worst_share: float


def fit_lemons(counts: NDArray[np.int64]) -> Lemons | None:
    """Fit a gamma-distributed factor to failures by node; None for too few of either."""
    if len(counts) < LEAST_FAILURES or counts.sum() < LEAST_FAILURES:
        return None
    values, nodes = np.unique(counts, return_counts=True)
    mean = float(counts.mean())

    def likelihood(log_shape: float) -> float:
        shape = exp(log_shape)
        each = (
            special.gammaln(values + shape)
            - special.gammaln(shape)
            + shape * log(shape / (shape + mean))
            + values * log(mean / (shape + mean))
        )
        return float(nodes @ each)

    least, most = log(1e-3), log(1e5)
    found = optimize.minimize_scalar(
        lambda at: -likelihood(at), bounds=(least, most), method="bounded"
    )
    best, at = -float(found.fun), float(found.x)
    alike = float(nodes @ (values * log(mean) - mean))
    ratio = max(0.0, 2 * (best - alike))
    if ratio < 1e-3 or at > log(1e4):
        low = _crossing(likelihood, alike, least, most)
        return Lemons(counts, Estimate(np.inf, low, np.inf), 1.0, _WORST)
    drop = float(stats.chi2.ppf(CONFIDENCE, 1)) / 2
    low = _crossing(likelihood, best, least, at)
    above = likelihood(most) < best - drop
    high = np.inf
    if above:
        high = exp(float(optimize.brentq(lambda x: likelihood(x) - best + drop, at, most)))
    shape = exp(at)
    worst = float(stats.gamma.sf(stats.gamma.ppf(1 - _WORST, shape), shape + 1))
    return Lemons(counts, Estimate(shape, low, high), float(stats.chi2.sf(ratio, 1)) / 2, worst)


def _crossing(
    likelihood: Callable[[float], float], best: float, least: float, most: float
) -> float:
    """Return the shape below the best one from which on the likelihood is not far worse."""
    drop = float(stats.chi2.ppf(CONFIDENCE, 1)) / 2
    if likelihood(least) >= best - drop:
        return exp(least)
    return exp(float(optimize.brentq(lambda x: likelihood(x) - best + drop, least, most)))
