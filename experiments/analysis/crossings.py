"""Points along an axis at which the lead of two candidates changes, with intervals over seeds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from faultline.experiments.analysis.intervals import half_width
from numpy.typing import NDArray

_FINE = 2000

FloatArray = NDArray[np.float64]


class Change(NamedTuple):
    """A change of the lead between two candidates."""

    # The place and the ends of its interval, in the unit of the axis.
    at: float
    low: float
    high: float
    first_leads_after: bool  # Whether the first candidate leads after it.


def changes_of_lead(places: FloatArray, leads: FloatArray) -> list[Change]:
    """Return the places at which the mean lead changes its sign, with 95 % intervals.

    Both candidates have the same seeds; the lead of a seed is linear between places. The interval
    holds the places around the change at which Student's interval of the mean lead contains 0. If
    no place decides, it ends at the first or last place.

    If only one candidate has a value at one of two neighbouring places, the interval spans both
    places. The value is its middle.

    Parameters
    ----------
    places : array of float, shape (K,)
        Compared places, ascending.
    leads : array of float, shape (K, seeds)
        The first candidate's excess over the second; infinite if the first has no value.
    """
    means = leads.mean(axis=1)
    found = []
    for place in range(len(places) - 1):
        before, after = means[place : place + 2]
        left, right = float(places[place]), float(places[place + 1])
        if (before < 0) == (after < 0):
            continue
        if np.isfinite(before) and np.isfinite(after):
            at = left + (right - left) * float(before / (before - after))
            low, high = _undecided(places, leads, at)
        else:
            at, low, high = (left + right) / 2.0, left, right
        found.append(Change(at, low, high, bool(after < 0)))
    return found


def _undecided(places: FloatArray, leads: FloatArray, at: float) -> tuple[float, float]:
    """Return the range around `at` within which chance can explain the lead."""
    seeds = leads.shape[1]
    if seeds < 2:
        return at, at
    finite: NDArray[np.bool_] = np.asarray(np.isfinite(leads).all(axis=1))
    place = int(np.searchsorted(places, at)) - 1
    # The contiguous places around it at which every seed finishes.
    unfinished = np.flatnonzero(~finite)
    first = int(unfinished[unfinished < place].max(initial=-1)) + 1
    last = int(unfinished[unfinished > place + 1].min(initial=len(places))) - 1
    simulated = slice(first, last + 1)
    fine = np.linspace(places[first], places[last], _FINE)
    means = np.interp(fine, places[simulated], leads[simulated].mean(axis=1))
    # Between two places the spread is interpolated. That of the seeds' lines would be too small
    # if the few lines happen to cross.
    spread = np.interp(fine, places[simulated], leads[simulated].std(axis=1, ddof=1))
    decided = fine[np.abs(means) > half_width(spread, seeds)]
    below, above = decided[decided < at], decided[decided > at]
    low = below[-1] if len(below) else fine[0]
    high = above[0] if len(above) else fine[-1]
    return float(min(low, at)), float(max(high, at))
