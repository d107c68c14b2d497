"""Bursts: the fit finds what was drawn, and nothing where failures are independent."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.experiments.analysis.burst_fit import fit_bursts
from numpy.typing import NDArray

DAY_S = 86_400.0


def bursts(
    first: int, followers: float, delay_s: float, span_s: float, seed: int
) -> NDArray[np.float64]:
    """Draw bursts one by one, as the simulation does."""
    rng = np.random.default_rng(seed)
    times = []
    for begin_s in rng.uniform(0.0, span_s, rng.poisson(first)):
        times.append(begin_s)
        more = rng.geometric(1.0 / (1.0 + followers)) - 1 if followers else 0
        times += [begin_s + rng.exponential(delay_s) for _ in range(more)]
    return np.array([time_s for time_s in sorted(times) if time_s < span_s])


def test_a_long_log_reveals_the_bursts_that_were_drawn() -> None:
    found = fit_bursts(bursts(2_000, 0.8, 600.0, 400 * DAY_S, 1), 400 * DAY_S)
    assert found is not None
    assert found.found
    assert found.excess.mean == pytest.approx(1.8, rel=0.1)
    assert found.within_s.mean == pytest.approx(600.0, rel=0.2)


def test_independent_failures_have_no_bursts() -> None:
    """At the rate that the test states: 5 % of the logs."""
    found = [fit_bursts(bursts(80, 0.0, 1.0, 60 * DAY_S, seed), 60 * DAY_S) for seed in range(40)]
    assert sum(one is not None and one.found for one in found) <= 6
    assert all(one is None or one.found or one.excess.low == 1.0 for one in found)


def test_one_burst_alone_is_fitted() -> None:
    """Some logs that are drawn for its interval have no failure at all."""
    found = fit_bursts([DAY_S + 20.0 * at for at in range(30)], 60 * DAY_S)
    assert found is not None
    assert found.found
    assert np.isfinite([found.excess.low, found.excess.high, found.within_s.high]).all()


def test_few_failures_and_short_logs_reveal_nothing() -> None:
    assert fit_bursts([float(at) for at in range(19)], 60 * DAY_S) is None
    assert fit_bursts([100.0 * at for at in range(40)], 4_000.0) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "followers", "delay_s", "days"), [(110, 0.8, 600.0, 60), (200, 0.5, 1_800.0, 60)]
)
def test_intervals_hold_what_was_drawn(
    first: int, followers: float, delay_s: float, days: float
) -> None:
    fits = [
        fit_bursts(bursts(first, followers, delay_s, days * DAY_S, seed), days * DAY_S)
        for seed in range(100)
    ]
    excess = [one.excess.low <= 1.0 + followers <= one.excess.high for one in fits if one]
    within = [one.within_s.low <= delay_s <= one.within_s.high for one in fits if one]
    assert 90 <= sum(excess) <= 99
    assert 88 <= sum(within) <= 100
