"""From the number of failures to time, for any distribution of times to failure.

All groups are alike and fail independently. They have one survival function S(t): the probability
that a group is still up t seconds after the start or restart of the job. S(0) < 1 is allowed: then
some groups are down from the start.

The order in which groups fail does not depend on S, and neither does the number of survived
failures (`wipe_out`). Their times do: with a Weibull shape below 1 the first failures of new groups
come fast. The right S depends on the effect of a restart. If it renews all groups, S is the
distribution itself. If groups keep their age, S is the distribution of the residual time of a
renewal process at an arbitrary moment, its stationary excess.

`checkpoint_period` assumes that a wipe-out loses half a period. That holds for any distribution if
lives are long relative to the period. With little redundancy they are not: a life often ends before
its first checkpoint, and the distribution matters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf
from weakref import WeakKeyDictionary

import numpy as np
from faultline.strategies.theory.minimum import minimum_between
from faultline.strategies.theory.wipe_out import FloatArray, WipeOutLaw, composite_nodes
from scipy.special import gammaln

Survival = Callable[[float], float]

_PANELS_PER_DECADE = 40
_NEGLIGIBLE = 1e-12
_NODES_AT_ONCE = 64


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
        """Mean time with exactly k groups down, for k = 0 to N - 1, in seconds, without restarts.

        ``tau_k = integral of C(N, k) (1 - S)^k S^(N - k) dt``; m N / (N - k) for exponential
        lifetimes of mean N m. The order of failures and their times are independent, so that a job
        spends P(k) tau_k with k groups down.
        """
        n = self.groups
        k = np.arange(n)
        log_ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        holding_s = np.zeros(n)
        for first in range(0, len(self._failed), _NODES_AT_ONCE):
            failed = self._failed[first : first + _NODES_AT_ONCE, None]
            weights = self._weights[first : first + _NODES_AT_ONCE, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                mass = np.exp(log_ways + k * np.log(failed) + (n - k) * np.log1p(-failed))
            some = (failed > 0.0) & (failed < 1.0)
            mass = np.where(some, mass, (failed == 0.0) & (k == 0))
            holding_s = np.add.reduce(np.vstack((holding_s, weights * mass)))
        return holding_s

    def life(self, law: WipeOutLaw) -> Life:
        """Return the distribution of a job's lives under `law`: R(1 - S(t)) for each t."""
        if law not in self._lives:
            # A scheme is evaluated at several intervals, and its law is the slowest part.
            survives_start = float(law.reliability(np.array([self.failed_at_start]))[0])
            outlasting = law.reliability(self._failed)
            self._lives[law] = Life(self._nodes, self._weights, outlasting, survives_start)
        return self._lives[law]


class Life:
    """The time from a (re)start to a wipe-out, tabulated.

    Parameters
    ----------
    nodes_s, weights_s : array of float
        Times and their weights in an integral over time, in seconds.
    outlasting : array of float
        Probability of no wipe-out until each of `nodes_s`.
    survives_start : float
        Probability that groups that are down at the start are no wipe-out.
    """

    def __init__(
        self,
        nodes_s: FloatArray,
        weights_s: FloatArray,
        outlasting: FloatArray,
        survives_start: float,
    ) -> None:
        self._nodes_s, self.survives_start = nodes_s, survives_start
        self._outlasting = outlasting
        self.mean_s = float(weights_s @ outlasting)
        """Mean time to a wipe-out, T_f = integral of R(1 - S(t)) dt, in seconds.

        Lee et al. 2026 (SPARe) use mu(N, r) m, with m the mean time between failures of the whole
        system. That ignores the age of the groups, and that each failure leaves fewer groups to
        fail (for exponential lifetimes: the sum over k of P(k) m N / (N - k)).
        """
        between_s = np.diff(nodes_s) * (outlasting[1:] + outlasting[:-1]) / 2.0
        self._left_s = np.append(np.cumsum(between_s[::-1])[::-1], 0.0)

    def outlasting(self, times_s: FloatArray) -> FloatArray:
        """Return the probability of no wipe-out until each of `times_s`, in seconds."""
        return np.asarray(np.interp(times_s, self._nodes_s, self._outlasting))

    def mean_beyond_s(self, time_s: float) -> float:
        """Return the mean part of a life beyond `time_s`, in seconds."""
        return float(np.interp(time_s, self._nodes_s, self._left_s))


def stationary_excess(survival: Survival, mean_s: float) -> Survival:
    """Return the survival function of a renewal process' residual time at an arbitrary moment.

    ``S_e(t) = (1 / mean) * integral of S(u) du from t`` (Cox 1962, *Renewal Theory*, section 5.2).
    `survival` is that of the time between two failures of a group, `mean_s` its mean. For the
    exponential distribution S_e is S. The first failure of N such groups has the rate
    N / mean = 1 / m exactly, for any distribution.
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
        # Cubic interpolation by values and slopes: error below 3e-7, also for Weibull shapes.
        panel = bisect_right(starts_s, time_s) - 1
        width_s = starts_s[panel + 1] - starts_s[panel]
        x = (time_s - starts_s[panel]) / width_s
        rise = x * x * (3.0 - 2.0 * x) * (left[panel + 1] - left[panel])
        bend = slopes[panel] * (1.0 - x) - slopes[panel + 1] * x
        return float(left[panel] + rise + width_s * x * (1.0 - x) * bend)

    return of_time


def _time_edges(survival: Survival, groups: int) -> FloatArray:
    """Return panel edges from 0, geometric from the first failure of N groups to the last."""
    at_start = survival(0.0)
    first_s = _time_at(survival, at_start * (1.0 - 1e-4 / groups))
    last_s = _time_at(survival, at_start * _NEGLIGIBLE)
    decades = np.log10(last_s / first_s)
    panels = int(np.ceil(decades * _PANELS_PER_DECADE))
    return np.append(0.0, np.geomspace(first_s, last_s, panels + 1))


def _time_at(survival: Survival, level: float) -> float:
    """Return the approximate time in seconds at which `survival` falls to `level`."""
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
    """Return the mean number of complete, and thus saved, periods of a life.

    The sum over j >= 1 of the probability that a life lasts j periods. Beyond the first few hundred
    the integral replaces the sum, by the midpoint rule. The period T_c, above 0, is the time
    between the starts of two checkpoints.
    """
    counted = life.outlasting(period_s * np.arange(1.0, _COUNTED + 1.0))
    return float(counted.sum()) + life.mean_beyond_s((_COUNTED + 0.5) * period_s) / period_s


def availability_of_lives(life: Life, period_s: float, save_s: float, restart_s: float) -> float:
    """Return the share of time that is progress, by renewal and reward.

    ``A = (T_c - T_s) * (mean periods kept) / (T_f + T_r)``, exact for a fixed period. For lives
    much longer than the period the number kept is about T_f / T_c - 1/2. Then A is greatest near
    ``T_c = sqrt(2 T_s T_f)``, for any restart time. The form of `checkpoint_period` has the same
    value to first order, but its best period grows with T_r.
    """
    kept = kept_periods(life, period_s)
    return max(0.0, period_s - save_s) * kept / (life.mean_s + restart_s)


def best_period_of_lives_s(life: Life, save_s: float, shortest_s: float) -> float:
    """Return the fixed period that maximises `availability_of_lives`, in seconds.

    `shortest_s` is the lower bound of the period, such as one step and T_s; it is above 0.
    """

    def loss(period_s: float) -> float:
        return -availability_of_lives(life, period_s, save_s, 0.0)

    # Lives of little spread have several local maxima, one for each number of periods that fit.
    trials_s = np.geomspace(shortest_s, max(4.0 * life.mean_s, 20.0 * shortest_s), 200).tolist()
    best = int(np.argmin([loss(period_s) for period_s in trials_s]))
    low_s, high_s = trials_s[max(0, best - 1)], trials_s[min(len(trials_s) - 1, best + 1)]
    return minimum_between(loss, low_s, high_s)


_STEPS_PER_RESTART = 400
_LONGEST_RESTARTS = 12
_TABLE = 20_000


@dataclass(frozen=True, slots=True)
class RestartWait:
    """A restart of the whole job.

    Attributes
    ----------
    mean_s : float
        Mean time until the slowest group is up, in seconds.
    survival : callable
        S(t): probability that a group has not failed between the end of its own restart and t
        seconds after the end of the slowest; S(0) < 1.
    """

    mean_s: float
    survival: Survival


def wait_for_slowest(
    groups: int, restart_s: float, survival: Survival, left: Survival
) -> RestartWait:
    """Return the wait of a restart in which groups that fail start again, and all wait for them.

    With many groups some group always fails: at N = 200 with a failure every 300 s a restart of
    3,600 s lasts 7,700 s, and waiting groups fail in the meantime. In the published study of Lee et
    al. 2026 (SPARe) such failures appear at the end of the wait (12 groups at once on average); its
    closed forms ignore both effects.

    Let u be the time since the start of the restart, and h(u) the rate at which a restarting group
    fails. A group keeps its old age at first and is new after each failure:

        h(u) = f_left(u) [u < T_r] + integral of h(u - v) f(v) dv over v from 0 to min(u, T_r).

    A group is up by t with probability ``G(t) = S_left(T_r) + S(T_r) * integral of h over
    (0, t - T_r)``, and all N with G(t)^N. The survival function afterwards uses the mean as the end
    of the slowest restart.

    Parameters
    ----------
    groups : int
        Number of groups N.
    restart_s : float
        Restart time of one group T_r, in seconds.
    survival, left : callable
        Survival functions of the time between a group's failures, and of the time to its next
        failure at the start of the restart (`stationary_excess` if groups keep their age).
    """
    step_s = restart_s / _STEPS_PER_RESTART
    edges = np.arange(_LONGEST_RESTARTS * _STEPS_PER_RESTART + 1) * step_s
    new = np.array([survival(float(t)) for t in edges[: _STEPS_PER_RESTART + 1]])
    old = np.array([left(float(t)) for t in edges[: _STEPS_PER_RESTART + 1]])
    failures = _failures_while_restarting(-np.diff(new), -np.diff(old), len(edges) - 1)
    back = np.zeros_like(edges)
    back[_STEPS_PER_RESTART:] = (
        old[-1] + new[-1] * np.append(0.0, np.cumsum(failures))[: len(edges) - _STEPS_PER_RESTART]
    )
    mean_s = float(((1.0 - back[:-1] ** groups) * step_s).sum())
    last_chance = int(max(0.0, mean_s - restart_s) / step_s)
    share_back = float(back[_STEPS_PER_RESTART + last_chance])
    if not share_back:
        # Groups fail long before a restart ends, so the lifetimes after it hardly matter.
        return RestartWait(mean_s, survival)
    restarted_s = edges[:last_chance] + step_s / 2.0
    restarted = failures[:last_chance]
    # A table, since the sum over renewed groups is evaluated at thousands of times.
    table_s = np.append(0.0, np.geomspace(1e-6 * restart_s, 1e6 * restart_s, _TABLE))
    table = np.array([survival(float(t)) for t in table_s])

    def survival_afterwards(time_s: float) -> float:
        since_s = mean_s + time_s
        renewed = float(restarted @ np.interp(since_s - restarted_s, table_s, table))
        return (left(since_s) + renewed) / share_back

    return RestartWait(mean_s, survival_afterwards)


def _failures_while_restarting(
    of_new_groups: FloatArray, of_old_groups: FloatArray, steps: int
) -> FloatArray:
    """Solve the renewal equation for the share of groups that fail in each time step."""
    failures = np.zeros(steps)
    failures[: len(of_old_groups)] = of_old_groups
    for step in range(1, steps):
        reach = min(step, len(of_new_groups))
        failures[step] += float(of_new_groups[:reach] @ failures[step - reach : step][::-1])
    return failures
