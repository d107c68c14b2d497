"""From failures to time: known order statistics, Young's rule, a simulation of many restarts."""

from __future__ import annotations

from math import exp, expm1, gamma, sqrt

import numpy as np
import pytest
from faultline.strategies.theory.checkpoint_period import Costs
from faultline.strategies.theory.lifetimes import (
    GroupLifetimes,
    Life,
    Survival,
    availability_of_lives,
    best_period_of_lives_s,
    kept_periods,
    stationary_excess,
    wait_for_slowest,
)
from faultline.strategies.theory.stacked_types import StackedTypes
from faultline.strategies.theory.wipe_out import DisjointSets, WipeOutLaw
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import gammaincc


def weibull(shape: float, scale_s: float) -> Survival:
    return lambda time_s: exp(-((time_s / scale_s) ** shape))


def mean_time_to_wipe_out_s(law: WipeOutLaw, survival: Survival) -> float:
    return GroupLifetimes(law.groups, survival).life(law).mean_s


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
    """N = 200, r = 9, mean 300 s a failure: 47 % beyond mu m; new Weibull groups fail early."""
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
@example(shape=1.0, time=2.0)  # Memoryless groups have no age.
def test_the_time_left_to_a_weibull_process(shape: float, time: float) -> None:
    """S_e(t) = Q(1/k, (t/scale)^k), the regularised upper incomplete gamma function."""
    scale_s = 5e4
    left = stationary_excess(weibull(shape, scale_s), scale_s * gamma(1 + 1 / shape))
    assert left(time * scale_s) == pytest.approx(gammaincc(1 / shape, time**shape), abs=1e-6)


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


def memoryless(mean_s: float) -> Life:
    return GroupLifetimes(1, lambda time_s: exp(-time_s / mean_s)).life(DisjointSets(1, 1))


@given(mean_s=st.floats(10.0, 1e6), period=st.floats(0.01, 5.0))
def test_periods_kept_by_memoryless_lives(mean_s: float, period: float) -> None:
    """A geometric sum: 1 / (exp(T_c/T_f) - 1)."""
    found = kept_periods(memoryless(mean_s), period * mean_s)
    assert found == pytest.approx(1 / expm1(period), rel=1e-3)


def test_the_best_period_of_long_lives_is_young_s() -> None:
    """sqrt(2 T_s T_f), and T_s/3 more by the next order (Daly 2006)."""
    life, rule_s = memoryless(1e6), sqrt(2 * 10.0 * 1e6) + 10.0 / 3
    found = best_period_of_lives_s(life, 10.0, 11.0)
    # The optimum is flat: 3 % beside it costs 4e-6.
    assert found == pytest.approx(rule_s, rel=0.03)
    best, by_rule = (availability_of_lives(life, p, 10.0, 500.0) for p in (found, rule_s))
    assert best == pytest.approx(by_rule, rel=1e-5)


@pytest.mark.parametrize("redundancy", [2, 5, 9])
def test_no_other_period_is_better(redundancy: int) -> None:
    life = GroupLifetimes(200, lambda time_s: exp(-time_s / 6e4)).life(
        StackedTypes(200, redundancy)
    )
    best_s = best_period_of_lives_s(life, 58.8, 60.0)
    best = availability_of_lives(life, best_s, 58.8, 3600.0)
    for period_s in np.geomspace(60.0, 3 * life.mean_s, 300):
        assert availability_of_lives(life, float(period_s), 58.8, 3600.0) <= best + 1e-6


def test_for_long_lives_the_plain_availability_is_right() -> None:
    """To first order in T_c/T_f, here 0.01: the second is (T_r + T_c)/T_f times that."""
    life, costs = memoryless(1e6), Costs(300.0, 50.0, 1000.0, 64.0, 2.0)
    exact = availability_of_lives(life, 1e4, costs.save_s, costs.restart_s)
    assert costs.availability(1e4, 1e6) == pytest.approx(exact, rel=2e-4)


@pytest.mark.parametrize("mean_s", [2000.0, 5000.0, 50_000.0])
def test_one_group_needs_an_interval_without_failure(mean_s: float) -> None:
    """(exp(T_r/m) - 1) m, the mean wait for the first gap of T_r in a Poisson process."""
    survival = weibull(1.0, mean_s)
    wait = wait_for_slowest(1, 1000.0, survival, survival)
    # Steps of T_r/400.
    assert wait.mean_s == pytest.approx(expm1(1000.0 / mean_s) * mean_s, rel=0.005)


def test_without_failures_a_restart_takes_its_time() -> None:
    survival = weibull(1.0, 1e12)
    wait = wait_for_slowest(1000, 3600.0, survival, survival)
    assert wait.mean_s == pytest.approx(3600.0, rel=1e-3)
    assert wait.survival(0.0) == pytest.approx(1.0, abs=1e-6)


def test_a_restart_that_no_group_survives_has_no_end_to_count_from() -> None:
    survival = weibull(0.78, 1.0)
    wait = wait_for_slowest(8, 1e9, survival, survival)
    assert wait.mean_s >= 1e9
    assert wait.survival(0.0) == 1.0


def test_many_groups_wait_for_the_slowest() -> None:
    """N = 100, T_r = 1, mean 20: simulated by the definition; some are down when all are back."""
    groups, mean, trials = 100, 20.0, 2000
    rng = np.random.default_rng(1)
    ends, down = np.zeros(trials), np.zeros(trials)
    for trial in range(trials):
        begun = np.zeros(groups)
        failure = rng.exponential(mean, groups)
        while np.any(early := failure <= begun + 1.0):
            begun[early] = failure[early]
            failure[early] += rng.exponential(mean, int(early.sum()))
        ends[trial] = begun.max() + 1.0
        down[trial] = (failure <= ends[trial]).mean()
    survival = weibull(1.0, mean)
    wait = wait_for_slowest(groups, 1.0, survival, survival)
    assert abs(wait.mean_s - ends.mean()) < 4 * ends.std() / trials**0.5 + 0.0025
    # The form takes the mean for the end of the wait: the share that is down curves by 1 %.
    tolerance = 4 * down.std() / trials**0.5 + 0.01 * down.mean()
    assert abs(1.0 - wait.survival(0.0) - down.mean()) < tolerance
    assert wait.survival(10.0) == pytest.approx(wait.survival(0.0) * exp(-10.0 / mean), rel=1e-6)
