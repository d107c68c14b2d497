"""What a restart costs when groups fail in it and all wait for the slowest.

A group restarts for T_r seconds. If it fails meanwhile it begins anew, and everybody waits. With
many groups somebody always does: at N = 200 with a failure every 300 s a restart of 3,600 s lasts
7,700 s, and those who wait fail in the meantime, too. The published study of Lee et al. 2026
(SPARe) lets such failures show when the wait is over (12 groups at once on average); its closed
forms leave both out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from faultline.strategies.closed_forms.lifetimes import Survival
from faultline.strategies.closed_forms.wipe_out import FloatArray

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
    """Return what becomes of a restart in which a failed group begins anew.

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
