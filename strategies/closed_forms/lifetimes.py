"""From failures counted to time: groups whose times to failure follow any distribution.

All groups are alike and fail independently; their common survival function S(t), the probability
that a group is still up t seconds after the job has started or restarted, is all that is needed.
S(0) < 1 is allowed: then some groups are down from the start.

The order in which groups fail does not depend on S, so the failures that a job outlives do not
either (`wipe_out`). The time they take does: with a Weibull shape below 1 the first failures of new
groups come fast. Which S is right depends on what a restart does to a group. If it renews all of
them, S is the distribution itself. If it leaves their clocks alone, they are old by the time of any
restart, and S is the distribution of the time that is left to a renewal process at an arbitrary
moment, its stationary excess.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property
from math import inf
from weakref import WeakKeyDictionary

import numpy as np
from faultline.strategies.closed_forms.wipe_out import FloatArray, WipeOutLaw, composite_nodes
from scipy.special import gammaln

Survival = Callable[[float], float]

_PANELS_A_DECADE = 40
_NEGLIGIBLE = 1e-12


class GroupLifetimes:
    """N groups with one survival function.

    Parameters
    ----------
    groups : int
        Number of groups N.
    survival : callable
        S(t): seconds since the (re)start to the probability that a group is still up; falling to 0.
    """

    def __init__(self, groups: int, survival: Survival) -> None:
        self.groups = groups
        self.survival = survival
        self._nodes, self._weights = _time_nodes(survival, groups)
        self._failed = 1.0 - np.array([survival(float(time_s)) for time_s in self._nodes])
        self._lives: WeakKeyDictionary[WipeOutLaw, Life] = WeakKeyDictionary()

    @property
    def failed_at_start(self) -> float:
        """Probability that a group is down at the start."""
        return 1.0 - self.survival(0.0)

    @cached_property
    def holding_times_s(self) -> FloatArray:
        """Mean time with exactly k groups down, for k = 0 to N - 1, in seconds, if nothing ends it.

        ``tau_k = integral of C(N, k) (1 - S)^k S^(N - k) dt``; exponential lifetimes of mean N m
        have m N / (N - k). Together with P(k) it gives the time a job spends there, P(k) tau_k,
        since the order of failures and their times are independent.
        """
        n = self.groups
        k = np.arange(n)
        log_ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        holding_s = np.zeros(n)
        for failed, weight in zip(self._failed, self._weights, strict=True):
            if 0.0 < failed < 1.0:
                log_mass = log_ways + k * np.log(failed) + (n - k) * np.log1p(-failed)
                holding_s += weight * np.exp(log_mass)
            elif failed == 0.0:
                holding_s[0] += weight
        return holding_s

    def life(self, law: WipeOutLaw) -> Life:
        """Return how long a job under `law` goes on: R(1 - S(t)) for every t."""
        if law not in self._lives:
            # A scheme is asked for at several intervals, and its law takes the longest.
            self._lives[law] = Life(self._nodes, self._weights, law.reliability(self._failed))
        return self._lives[law]


class Life:
    """The time from a (re)start to a wipe-out, tabulated.

    Parameters
    ----------
    nodes_s, weights_s : array of float
        Times, and their weights in an integral over time, in seconds.
    outlasting : array of float
        Probability of no wipe-out until each of `nodes_s`.
    """

    def __init__(self, nodes_s: FloatArray, weights_s: FloatArray, outlasting: FloatArray) -> None:
        self._nodes_s = nodes_s
        self._outlasting = outlasting
        self.mean_s = float(weights_s @ outlasting)
        """Mean time to a wipe-out, T_f = integral of R(1 - S(t)) dt, in seconds."""
        between_s = np.diff(nodes_s) * (outlasting[1:] + outlasting[:-1]) / 2.0
        self._left_s = np.append(np.cumsum(between_s[::-1])[::-1], 0.0)

    def outlasting(self, times_s: FloatArray) -> FloatArray:
        """Return the probability of no wipe-out until each of `times_s`, in seconds."""
        return np.asarray(np.interp(times_s, self._nodes_s, self._outlasting))

    def mean_beyond_s(self, time_s: float) -> float:
        """Return the mean part of a life that lies beyond `time_s`, in seconds."""
        return float(np.interp(time_s, self._nodes_s, self._left_s))


def mean_time_to_wipe_out_s(law: WipeOutLaw, survival: Survival) -> float:
    """Return the mean time from a (re)start to a wipe-out, in seconds.

    Lee et al. 2026 (SPARe) take mu(N, r) m, with m the mean time between failures of the whole
    system. That leaves out that fewer groups are left to fail with every failure (exponential
    lifetimes: the sum over k of P(k) m N / (N - k)), and the age of the groups.
    """
    return GroupLifetimes(law.groups, survival).life(law).mean_s


def stationary_excess(survival: Survival, mean_s: float) -> Survival:
    """Return the survival function of the time left to a renewal process at an arbitrary moment.

    ``S_e(t) = (1 / mean) * integral of S(u) du from t`` (Cox 1962, *Renewal Theory*, section 5.2).
    It is S itself for the exponential distribution. N such groups fail first at the rate
    N / mean = 1 / m exactly, whatever the distribution.

    Parameters
    ----------
    survival : callable
        Survival function of the time between two failures of a group.
    mean_s : float
        Its mean, in seconds.
    """
    edges = _time_edges(survival, 1)
    nodes, weights = composite_nodes(edges)
    values = np.array([survival(float(time_s)) for time_s in nodes])
    panels = (weights * values).reshape(len(edges) - 1, -1).sum(axis=1)
    up_to = np.append(0.0, np.cumsum(panels))
    left = np.clip(1.0 - up_to / mean_s, 0.0, 1.0).tolist()
    slopes = [-survival(edge_s) / mean_s for edge_s in edges.tolist()]
    starts_s, last_s = edges.tolist(), float(edges[-1])

    def of_time(time_s: float) -> float:
        if time_s >= last_s:
            return 0.0
        # A cubic by values and slopes, which are both known: within 3e-7, for Weibull shapes too.
        at = bisect_right(starts_s, time_s) - 1
        width_s = starts_s[at + 1] - starts_s[at]
        x = (time_s - starts_s[at]) / width_s
        rise = x * x * (3.0 - 2.0 * x)
        bend = slopes[at] * (1.0 - x) - slopes[at + 1] * x
        return float(left[at] + rise * (left[at + 1] - left[at]) + width_s * x * (1.0 - x) * bend)

    return of_time


def _time_nodes(survival: Survival, groups: int) -> tuple[FloatArray, FloatArray]:
    return composite_nodes(_time_edges(survival, groups))


def _time_edges(survival: Survival, groups: int) -> FloatArray:
    """Panels from 0, geometric from where the first of N groups may fail to where all have."""
    at_start = survival(0.0)
    first_s = _time_at(survival, at_start * (1.0 - 1e-4 / groups))
    last_s = _time_at(survival, at_start * _NEGLIGIBLE)
    decades = np.log10(last_s / first_s)
    panels = int(np.ceil(decades * _PANELS_A_DECADE))
    return np.append(0.0, np.geomspace(first_s, last_s, panels + 1))


def _time_at(survival: Survival, level: float) -> float:
    """Return about the time, in seconds, at which `survival` has fallen to `level`."""
    low, high = 0.0, 1.0
    while survival(high) > level:
        low, high = high, high * 4.0
        if high == inf:
            raise ValueError("survival: does not fall to 0")
    while low == 0.0 and survival(high / 4.0) <= level and high > 1e-12:
        high /= 4.0
    low = max(low, high / 4.0)
    for _ in range(30):
        middle = (low + high) / 2.0
        low, high = (middle, high) if survival(middle) > level else (low, middle)
    return high
