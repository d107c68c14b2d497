"""The interval of a probability that was counted."""

from __future__ import annotations

from math import sqrt

_NORMAL_QUANTILE = 1.959963984540054
"""97.5th percentile of the normal distribution: intervals hold 95 %."""


def proportion_interval(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a probability, from how often something happened.

    Wilson 1927, "Probable inference, the law of succession, and statistical inference": it stays
    within 0 and 1, and has a width where nothing, or everything, happened.
    """
    share = hits / trials
    weight = _NORMAL_QUANTILE**2 / trials
    centre = (share + weight / 2.0) / (1.0 + weight)
    half = sqrt(weight * (share * (1.0 - share) + weight / 4.0)) / (1.0 + weight)
    # With no hits, or all, rounding must not put the share outside.
    return min(share, centre - half), max(share, centre + half)
