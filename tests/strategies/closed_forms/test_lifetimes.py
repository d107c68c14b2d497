"""From failures to time: against distributions whose order statistics are known."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, gamma

import numpy as np
import pytest
from faultline.strategies.closed_forms.lifetimes import (
    GroupLifetimes,
    mean_time_to_wipe_out_s,
    stationary_excess,
)
from faultline.strategies.closed_forms.stacked_types import StackedTypes
from faultline.strategies.closed_forms.wipe_out import DisjointSets
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaincc


def weibull(shape: float, scale_s: float) -> Callable[[float], float]:
    return lambda time_s: exp(-((time_s / scale_s) ** shape))


@pytest.mark.parametrize("groups", [1, 7, 300])
def test_exponential_groups_fail_at_the_rate_of_those_left(groups: int) -> None:
    """tau_k = m N / (N - k) with m = 300 s."""
    lifetimes = GroupLifetimes(groups, weibull(1.0, 300.0 * groups))
    expected = 300.0 * groups / (groups - np.arange(groups))
    np.testing.assert_allclose(lifetimes.holding_times_s, expected, rtol=1e-6)


@given(shape=st.floats(0.4, 3.0), groups=st.integers(1, 500))
def test_the_first_of_weibull_groups_is_weibull(shape: float, groups: int) -> None:
    """The minimum of N has the scale N^(-1/k)."""
    found = mean_time_to_wipe_out_s(DisjointSets(groups, 1), weibull(shape, 5e4))
    assert found == pytest.approx(5e4 * groups ** (-1 / shape) * gamma(1 + 1 / shape), rel=1e-6)


@given(shape=st.floats(0.5, 2.0), redundancy=st.integers(1, 6), groups=st.integers(6, 60))
def test_time_in_each_state_adds_up_to_the_time_to_a_wipe_out(
    shape: float, redundancy: int, groups: int
) -> None:
    """Sum of P(k) tau_k = integral of R(1 - S(t)), as order and times are independent."""
    lifetimes = GroupLifetimes(groups, weibull(shape, 1e4))
    law = DisjointSets(groups, redundancy)
    by_states_s = float(law.outliving @ lifetimes.holding_times_s)
    assert lifetimes.life(law).mean_s == pytest.approx(by_states_s, rel=1e-5)


def test_a_pair_of_exponential_groups_by_hand() -> None:
    """Mean of the larger of two: 3/2 of the mean of one."""
    assert mean_time_to_wipe_out_s(DisjointSets(2, 2), weibull(1.0, 10.0)) == pytest.approx(15.0)


def test_fewer_groups_left_and_their_age_lengthen_a_life() -> None:
    """N = 200, r = 9, mean 300 s a failure: 47 % beyond mu m; new Weibull groups die young."""
    law = StackedTypes(200, 9)
    lives_s = [
        mean_time_to_wipe_out_s(law, weibull(shape, 6e4 / gamma(1 + 1 / shape)))
        for shape in (0.5, 0.78, 1.0)
    ]
    exact_s = 6e4 * float((law.outliving / (200 - np.arange(200))).sum())
    assert lives_s == sorted(lives_s)
    # P(k) and R(p) are two approximations of the same layout, within 0.3 %.
    assert lives_s[-1] == pytest.approx(exact_s, rel=0.003)


@given(shape=st.floats(0.4, 3.0), time=st.floats(0.0, 20.0))
def test_the_time_left_to_a_weibull_process(shape: float, time: float) -> None:
    """S_e(t) = Q(1/k, (t/scale)^k), the regularised upper incomplete gamma function."""
    scale_s = 5e4
    left = stationary_excess(weibull(shape, scale_s), scale_s * gamma(1 + 1 / shape))
    assert left(time * scale_s) == pytest.approx(gammaincc(1 / shape, time**shape), abs=1e-6)


def test_memoryless_groups_have_no_age() -> None:
    left = stationary_excess(weibull(1.0, 50.0), 50.0)
    for time_s in (0.0, 0.1, 10.0, 200.0):
        assert left(time_s) == pytest.approx(exp(-time_s / 50.0), abs=3e-7)


def test_groups_may_be_down_from_the_start() -> None:
    """With a third of three exponential groups down, the first state lasts a fraction (2/3)^3."""
    lifetimes = GroupLifetimes(3, lambda time_s: exp(-time_s / 9.0) * 2 / 3)
    assert lifetimes.failed_at_start == pytest.approx(1 / 3)
    assert lifetimes.holding_times_s[0] == pytest.approx((2 / 3) ** 3 * 3.0, rel=1e-6)
    assert lifetimes.life(DisjointSets(3, 1)).mean_s == pytest.approx((2 / 3) ** 3 * 3.0, rel=1e-6)


def test_a_group_that_never_fails_has_no_mean_time() -> None:
    with pytest.raises(ValueError, match="does not fall to 0"):
        GroupLifetimes(3, lambda time_s: 1.0)


def test_a_law_is_applied_once() -> None:
    lifetimes, law = GroupLifetimes(60, weibull(0.8, 5e4)), StackedTypes(60, 3)
    life = lifetimes.life(law)
    assert lifetimes.life(law) is life
    assert lifetimes.life(StackedTypes(60, 3)).mean_s == life.mean_s
    assert lifetimes.life(StackedTypes(60, 4)).mean_s > life.mean_s
