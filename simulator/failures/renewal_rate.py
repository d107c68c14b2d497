"""How often a group fails, by the time since its clock was first set."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import inf

import numpy as np
from faultline.simulator.failures.distributions import Distribution

_HORIZON_MEANS = 4.0
_POINTS = 400


@dataclass(frozen=True, slots=True)
class GroupFailureRate:
    """Failures of one group per second, by the time since the job began."""

    ends_s: tuple[float, ...]  # Ascending ends of the intervals of time, in seconds.
    rates_per_s: tuple[float, ...]  # Mean rate in each interval, and after the last.

    def __call__(self, now_s: float) -> float:
        """Return the failures per second at a time since the beginning, in seconds."""
        return self.rates_per_s[bisect_right(self.ends_s, now_s)]

    def holds_until_s(self, now_s: float) -> float:
        """Return when the interval of a time ends, in seconds; infinite for the last."""
        ends_s, interval = self.ends_s, bisect_right(self.ends_s, now_s)
        return ends_s[interval] if interval < len(ends_s) else inf


def constant_rate(rate_per_s: float) -> GroupFailureRate:
    """Return a rate that is the same at all times, in failures per second."""
    return GroupFailureRate((), (rate_per_s,))


def renewal_rate(distribution: Distribution) -> GroupFailureRate:
    """Tabulate the renewal density of a distribution up to four times its mean.

    The failures of a group whose clock runs on through restarts are a renewal process from time 0
    on. With a Weibull shape below 1 it fails more often at first; its rate tends to 1 / mean.

    The renewal equation M(t) = F(t) + int M(t - u) dF(u) is solved by the Riemann-Stieltjes
    midpoint rule (Xie 1989, "On the solution of renewal-type integral equations"); the rate of an
    interval is the growth of M over it.
    """
    step_s = _HORIZON_MEANS * distribution.mean_s / _POINTS
    failed = np.array([1.0 - distribution.survival(step_s * i) for i in range(1, _POINTS + 1)])
    failed_mid = np.array([1.0 - distribution.survival(step_s * (i + 0.5)) for i in range(_POINTS)])
    expected = np.zeros(_POINTS + 1)
    growth = np.zeros(_POINTS)
    for i in range(1, _POINTS + 1):
        earlier = float(growth[: i - 1] @ failed_mid[i - 1 : 0 : -1])
        expected[i] = (failed[i - 1] + earlier - expected[i - 1] * failed_mid[0]) / (
            1.0 - failed_mid[0]
        )
        growth[i - 1] = expected[i] - expected[i - 1]
    rates = (growth / step_s).tolist()
    ends = tuple((step_s * np.arange(1, _POINTS + 1)).tolist())
    return GroupFailureRate(ends, (*rates, 1.0 / distribution.mean_s))
