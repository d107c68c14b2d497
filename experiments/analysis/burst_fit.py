"""Bursts in the times of failures: the mean number of failures in a burst, and their delay.

A burst is a first failure and m others on average, each after an exponential time of mean d. First
failures are memoryless. Within a time t after any failure, m (1 - exp(-t / d)) more failures
follow than chance explains. m and d maximise the Palm likelihood of the differences between times
(Tanaka, Ogata and Stoyan 2008, Biometrical Journal 50). Their intervals come from logs drawn with
the fitted values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from faultline.experiments.analysis.intervals import Interval
from numpy.typing import NDArray

_WITHIN_S = 12 * 3600.0
"""Failures further apart belong to different bursts."""
_DELAYS_S = np.geomspace(10.0, _WITHIN_S / 3, 30)[:, None]
"""Candidates for the mean delay, in seconds."""
_EDGES_S = np.concatenate([[0.0], np.geomspace(1.0, _WITHIN_S, 150)])
_NEAR = np.exp(-(_EDGES_S[1:] + _EDGES_S[:-1]) / 2 / _DELAYS_S) / _DELAYS_S
"""Density of delays, by mean delay and by bin of differences."""
_NEWTON_STEPS = 15
_TINY = 1e-300
_FEWEST_FOLLOWERS, _MOST_FOLLOWERS = 1e-9, 20.0
_LEAST_FAILURES = 20
_MOST_FAILURES = 5_000
"""Only this many of the latest failures are fitted: more add no precision."""
_DRAWS = 99
_RARE = 0.05
_TAILS = (0.025, 0.975)

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bursts:
    """Size and duration of bursts, with 95 % intervals."""

    excess: Interval  # Mean failures of a burst, the first included.
    within_s: Interval  # Mean time from the first failure of a burst to another one, in seconds.
    p_independent: float  # Probability of so many close failures if all are independent.

    @property
    def found(self) -> bool:
        """Whether independent failures are unlikely (5 %) to come so close together."""
        return self.p_independent < _RARE


def fit_bursts(times_s: Sequence[float], span_s: float) -> Bursts | None:
    """Fit bursts to failures seen in a span of seconds; None for fewer than 20 distinct times.

    Failures at the same instant count as one.
    """
    times = np.unique(np.asarray(times_s, dtype=float))
    if len(times) > _MOST_FAILURES:
        begin_s = times[-_MOST_FAILURES - 1]
        times, span_s = times[-_MOST_FAILURES:] - begin_s, span_s - float(begin_s)
    if len(times) < _LEAST_FAILURES or span_s < 2 * _WITHIN_S:
        return None
    followers, delay_s = _fitted(times, span_s)
    rng = np.random.default_rng(len(times))
    alike = [_fitted(_drawn(len(times), span_s, 0.0, 1.0, rng), span_s) for _ in range(_DRAWS)]
    p_independent = (1 + sum(one[0] >= followers for one in alike)) / (1 + _DRAWS)
    drawn = np.array(
        [
            _fitted(_drawn(len(times), span_s, followers, delay_s, rng), span_s)
            for _ in range(_DRAWS)
        ]
    )
    fitted = np.array([followers, delay_s])
    tails = np.quantile(drawn, _TAILS, axis=0)
    # The basic interval of the bootstrap, in logarithms (Davison and Hinkley 1997, eq. 5.6).
    low, high = fitted**2 / tails[::-1]
    high[0] = min(high[0], _MOST_FOLLOWERS)
    if p_independent >= _RARE:
        low, high = np.array([0.0, low[1]]), tails[1]
    return Bursts(
        Interval(1.0 + followers, 1.0 + float(low[0]), 1.0 + float(high[0])),
        Interval(delay_s, float(low[1]), float(high[1])),
        p_independent,
    )


def _drawn(
    count: int, span_s: float, followers: float, delay_s: float, rng: np.random.Generator
) -> _Floats:
    """Return the times of about `count` failures in bursts."""
    first = rng.uniform(0.0, span_s, rng.poisson(count / (1.0 + followers)))
    each = rng.geometric(1.0 / (1.0 + followers), len(first)) - 1
    others = np.repeat(first, each) + rng.exponential(delay_s, int(each.sum()))
    times: _Floats = np.sort(np.concatenate([first, others]))
    return times[times < span_s]


def _fitted(times: _Floats, span_s: float) -> tuple[float, float]:
    """Return the mean number of failures after a first one, and their mean delay in seconds."""
    if not len(times):
        return _FEWEST_FOLLOWERS, float(_DELAYS_S[0, 0])
    ends = np.searchsorted(times, times + _WITHIN_S, side="right")
    parts = [times[at + 1 : end] - times[at] for at, end in enumerate(ends)]
    pairs = np.histogram(np.concatenate(parts), _EDGES_S)[0]
    # The observed time after each failure, and the rate of all failures.
    watched_s = np.minimum(_WITHIN_S, span_s - times)
    rate = len(times) / span_s
    # The likelihood is concave in the followers, so Newton steps find the best for each delay.
    expected = -np.expm1(-watched_s / _DELAYS_S).sum(axis=1)
    followers = np.full(len(_DELAYS_S), 0.1)
    for _ in range(_NEWTON_STEPS):
        shares = _NEAR / (rate + followers[:, None] * _NEAR)
        slope, bend = shares @ pairs - expected, shares**2 @ pairs
        # A step below 0 halves the value instead: the slope is steep there.
        followers = np.clip(followers + slope / (bend + _TINY), followers / 2, _MOST_FOLLOWERS)
    likelihoods = np.log(rate + followers[:, None] * _NEAR) @ pairs - followers * expected
    return _between_the_best(likelihoods, followers)


def _between_the_best(likelihoods: _Floats, followers: _Floats) -> tuple[float, float]:
    """Return followers and delay at the top of the parabola through the three best delays."""
    best = int(np.clip(np.argmax(likelihoods), 1, len(likelihoods) - 2))
    below, at, above = likelihoods[best - 1 : best + 2].tolist()
    bend = below - 2 * at + above
    shift = float(np.clip((below - above) / (2 * bend), -1.0, 1.0)) if bend < 0.0 else 0.0
    places, there = np.arange(len(likelihoods)), best + shift
    delay_s = float(np.exp(np.interp(there, places, np.log(_DELAYS_S[:, 0]))))
    return float(np.interp(there, places, followers)), delay_s
