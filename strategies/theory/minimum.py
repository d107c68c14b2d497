"""The minimum of a function between two bounds."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, sqrt

_GOLDEN = 0.5 * (3.0 - sqrt(5.0))
_RELATIVE = sqrt(2.2e-16)
_ABSOLUTE = 1e-5 / 3.0
"""Least distance of two trials, relative to their place, and in its unit."""

_Trial = tuple[float, float]
"""Where the function was evaluated, and its value there."""


def minimum_between(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function of one local minimum is least between two bounds.

    Brent's method (1973, *Algorithms for Minimization without Derivatives*, chapter 5): each trial
    is at the vertex of the parabola through the three best, or else a golden section further. It
    has the same digits as ``scipy.optimize.minimize_scalar(method="bounded")``, whose package takes
    as long to import as a whole run may last.
    """
    at = low + _GOLDEN * (high - low)
    best = second = third = (at, function(at))
    step, earlier_step = 0.0, 0.0
    while True:
        at, middle = best[0], 0.5 * (low + high)
        least = _RELATIVE * abs(at) + _ABSOLUTE
        if abs(at - middle) <= 2.0 * least - 0.5 * (high - low):
            return at
        vertex = None
        if abs(earlier_step) > least:
            vertex = _step_to_vertex(best, second, third, (low, high), earlier_step)
            earlier_step = step
        if vertex is None:
            earlier_step = (low if at >= middle else high) - at
            step = _GOLDEN * earlier_step
        else:
            step = vertex
            if min(at + step - low, high - (at + step)) < 2.0 * least:
                step = copysign(least, middle - at)
        place = at + copysign(max(abs(step), least), step)
        trial = place, function(place)
        if trial[1] <= best[1]:
            low, high = (at, high) if place >= at else (low, at)
            best, second, third = trial, best, second
            continue
        low, high = (place, high) if place < at else (low, place)
        if trial[1] <= second[1] or second[0] == at:
            second, third = trial, second
        elif trial[1] <= third[1] or third[0] in (at, second[0]):
            third = trial


def _step_to_vertex(
    best: _Trial, second: _Trial, third: _Trial, bounds: tuple[float, float], before: float
) -> float | None:
    """Return the step from the best trial to the vertex of a parabola.

    None if it is outside of the bounds, or longer than half the step `before` the last one.
    """
    (at, value), (low, high) = best, bounds
    towards_second = (at - second[0]) * (value - third[1])
    towards_third = (at - third[0]) * (value - second[1])
    rise = (at - third[0]) * towards_third - (at - second[0]) * towards_second
    run = 2.0 * (towards_third - towards_second)
    if run > 0.0:
        rise = -rise
    run = abs(run)
    if abs(rise) < abs(0.5 * run * before) and run * (low - at) < rise < run * (high - at):
        return (rise + 0.0) / run
    return None
