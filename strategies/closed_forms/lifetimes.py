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

`checkpoint_period` takes the loss at a wipe-out for half a period. That holds where lives are long
beside the period, whatever their distribution. With little redundancy they are not: then a life
often ends before its first checkpoint, and the distribution decides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
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
    """N groups with one survival function S(t), of seconds since the (re)start, falling to 0."""

    def __init__(self, groups: int, survival: Survival) -> None:
        self.groups = groups
        self.survival = survival
        self._nodes, self._weights = composite_nodes(_time_edges(survival, groups))
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
        """Mean time to a wipe-out, T_f = integral of R(1 - S(t)) dt, in seconds.

        Lee et al. 2026 (SPARe) take mu(N, r) m, with m the mean time between failures of the whole
        system. That leaves out that fewer groups are left to fail with every failure (exponential
        lifetimes: the sum over k of P(k) m N / (N - k)), and the age of the groups.
        """
        between_s = np.diff(nodes_s) * (outlasting[1:] + outlasting[:-1]) / 2.0
        self._left_s = np.append(np.cumsum(between_s[::-1])[::-1], 0.0)

    def outlasting(self, times_s: FloatArray) -> FloatArray:
        """Return the probability of no wipe-out until each of `times_s`, in seconds."""
        return np.asarray(np.interp(times_s, self._nodes_s, self._outlasting))

    def mean_beyond_s(self, time_s: float) -> float:
        """Return the mean part of a life that lies beyond `time_s`, in seconds."""
        return float(np.interp(time_s, self._nodes_s, self._left_s))


def stationary_excess(survival: Survival, mean_s: float) -> Survival:
    """Return the survival function of the time left to a renewal process at an arbitrary moment.

    ``S_e(t) = (1 / mean) * integral of S(u) du from t`` (Cox 1962, *Renewal Theory*, section 5.2).
    `survival` is of the time between two failures of a group, `mean_s` its mean. It is S itself for
    the exponential distribution. N such groups fail first at the rate N / mean = 1 / m exactly,
    whatever the distribution.
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


_COUNTED = 256


def kept_periods(life: Life, period_s: float) -> float:
    """Return the mean number of periods of a life that are over, and so saved, by its end.

    The sum over j >= 1 of the probability that a life lasts j periods; beyond the first few hundred
    the sum is as good as the integral, by the midpoint rule. The period T_c, above 0, is from the
    start of a checkpoint to that of the next.
    """
    few = life.outlasting(period_s * np.arange(1.0, _COUNTED + 1.0))
    return float(few.sum()) + life.mean_beyond_s((_COUNTED + 0.5) * period_s) / period_s


def availability_of_lives(life: Life, period_s: float, save_s: float, restart_s: float) -> float:
    """Return the share of the time that goes into progress, by renewal and reward.

    ``A = (T_c - T_s) * (mean periods kept) / (T_f + T_r)``, exact for a fixed period. For lives
    much longer than the period the number kept is about T_f / T_c - 1/2. Then A is greatest near
    ``T_c = sqrt(2 T_s T_f)``, whatever a restart takes; the form of `checkpoint_period` has the
    same value to first order, but its best period grows with T_r.
    """
    kept = kept_periods(life, period_s)
    return max(0.0, period_s - save_s) * kept / (life.mean_s + restart_s)


def best_period_of_lives_s(life: Life, save_s: float, shortest_s: float) -> float:
    """Return the fixed period that maximises `availability_of_lives`, in seconds.

    None below `shortest_s` comes into question, such as one step and T_s; it is above 0.
    """
    from scipy.optimize import minimize_scalar

    def loss(period_s: float) -> float:
        return -availability_of_lives(life, period_s, save_s, 0.0)

    # Lives of little spread have several local maxima, one for each number of periods that fit.
    trials_s = np.geomspace(shortest_s, max(4.0 * life.mean_s, 20.0 * shortest_s), 200).tolist()
    best = int(np.argmin([loss(period_s) for period_s in trials_s]))
    around_s = trials_s[max(0, best - 1)], trials_s[min(len(trials_s) - 1, best + 1)]
    return float(minimize_scalar(loss, bounds=around_s, method="bounded").x)


_STEPS_A_RESTART = 400
_LONGEST_RESTARTS = 12
_TABLE = 20_000


@dataclass(frozen=True, slots=True)
class RestartWait:
    """A restart as the whole job sees it.

    Attributes
    ----------
    mean_s : float
        Mean time until the slowest group is back, in seconds.
    survival : callable
        S(t): probability that a group has not failed between the end of its own restart and t
        seconds after the end of the slowest; S(0) < 1.
    """

    mean_s: float
    survival: Survival


def wait_for_slowest(
    groups: int, restart_s: float, survival: Survival, left: Survival
) -> RestartWait:
    """Return what becomes of a restart in which a failed group begins anew, and all wait for it.

    With many groups some group always fails: at N = 200 with a failure every 300 s a restart of
    3,600 s lasts 7,700 s, and those who wait fail in the meantime, too. The published study of Lee
    et al. 2026 (SPARe) lets such failures show when the wait is over (12 groups at once on
    average); its closed forms leave both out.

    With u the time since the restart began and h(u) the rate at which a group that is still
    restarting fails: by its old clock at first, by a new one after each failure,

        h(u) = f_left(u) [u < T_r] + integral of h(u - v) f(v) dv over v from 0 to min(u, T_r),

    a group is back by t with probability ``G(t) = S_left(T_r) + S(T_r) * integral of h over
    (0, t - T_r)`` and all N with G(t)^N. The survival function afterwards takes the mean for the
    end of the slowest.

    Parameters
    ----------
    groups : int
        Number of groups N.
    restart_s : float
        Restart time of one group T_r, in seconds.
    survival, left : callable
        Survival functions of the time between a group's failures, and of the time to its next
        failure when the restart begins (`stationary_excess` where clocks run on).
    """
    step_s = restart_s / _STEPS_A_RESTART
    edges = np.arange(_LONGEST_RESTARTS * _STEPS_A_RESTART + 1) * step_s
    new = np.array([survival(float(t)) for t in edges[: _STEPS_A_RESTART + 1]])
    old = np.array([left(float(t)) for t in edges[: _STEPS_A_RESTART + 1]])
    failures = _failures_while_restarting(-np.diff(new), -np.diff(old), len(edges) - 1)
    back = np.zeros_like(edges)
    back[_STEPS_A_RESTART:] = (
        old[-1] + new[-1] * np.append(0.0, np.cumsum(failures))[: len(edges) - _STEPS_A_RESTART]
    )
    mean_s = float(((1.0 - back[:-1] ** groups) * step_s).sum())
    last_chance = int(max(0.0, mean_s - restart_s) / step_s)
    begun_s = edges[:last_chance] + step_s / 2.0
    anew = failures[:last_chance]
    # A table: the sum over those who began anew is asked for at thousands of times.
    known_s = np.append(0.0, np.geomspace(1e-6 * restart_s, 1e6 * restart_s, _TABLE))
    known = np.array([survival(float(t)) for t in known_s])

    def after(time_s: float) -> float:
        since_s = mean_s + time_s
        renewed = float(anew @ np.interp(since_s - begun_s, known_s, known))
        return (left(since_s) + renewed) / float(back[_STEPS_A_RESTART + last_chance])

    return RestartWait(mean_s, after)


def _failures_while_restarting(new: FloatArray, old: FloatArray, steps: int) -> FloatArray:
    """Solve the renewal equation: the share of groups that fails in each step of time."""
    failures = np.zeros(steps)
    failures[: len(old)] = old
    for step in range(1, steps):
        reach = min(step, len(new))
        failures[step] += float(new[:reach] @ failures[step - reach : step][::-1])
    return failures
