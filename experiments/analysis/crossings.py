"""Where the lead changes between two that are compared along an axis, with intervals over seeds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from faultline.experiments.analysis.intervals import half_width
from numpy.typing import NDArray

_FINE = 2000

FloatArray = NDArray[np.float64]


class Change(NamedTuple):
    """A change of the lead between two that are compared."""

    # Where, and the ends of its interval, in the unit of the axis.
    at: float
    low: float
    high: float
    first_leads_after: bool  # Whether the first one leads after it.


def changes_of_lead(places: FloatArray, leads: FloatArray) -> list[Change]:
    """Return where the mean lead changes its sign, with 95 % intervals.

    Seeds are pairs: the lead of a seed is linear between the places. The interval holds each place
    around the change at which Student's interval of the mean lead holds 0; it ends at the first or
    last place if none before decides.

    Next to a place where only one of the two has a value, the change is somewhere between that
    place and the next: its interval, with the middle for the value.

    Parameters
    ----------
    places : array of float, shape (K,)
        Where seeds were compared, ascending.
    leads : array of float, shape (K, seeds)
        By how much the first one is behind; infinite where it has no value.
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
    """Return the ends of the places around `at` where chance can explain the lead."""
    seeds = leads.shape[1]
    if seeds < 2:
        return at, at
    finite: NDArray[np.bool_] = np.asarray(np.isfinite(leads).all(axis=1))
    place = int(np.searchsorted(places, at)) - 1
    # All places around it at which every seed finishes.
    unfinished = np.flatnonzero(~finite)
    first = int(unfinished[unfinished < place].max(initial=-1)) + 1
    last = int(unfinished[unfinished > place + 1].min(initial=len(places))) - 1
    simulated = slice(first, last + 1)
    fine = np.linspace(places[first], places[last], _FINE)
    means = np.interp(fine, places[simulated], leads[simulated].mean(axis=1))
    # Between two places the spread is theirs: never less than that of the seeds' lines, of which
    # there are few and which happen to meet here and there.
    spread = np.interp(fine, places[simulated], leads[simulated].std(axis=1, ddof=1))
    decided = fine[np.abs(means) > half_width(spread, seeds)]
    below, above = decided[decided < at], decided[decided > at]
    low = below[-1] if len(below) else fine[0]
    high = above[0] if len(above) else fine[-1]
    return float(min(low, at)), float(max(high, at))
