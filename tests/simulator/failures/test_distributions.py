"""Distributions keep their promises, and groups fail at their stated rates."""

from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np
import pytest
from faultline.simulator.failures.distributions import (
    Distribution,
    DistributionError,
    Exponential,
    Weibull,
)
from faultline.simulator.failures.models import IndependentGroups, constant_rate, renewal_rate
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.stats import gamma

ALL = [Exponential(60_000.0), Weibull(0.78, 51_979.0), Weibull(1.0, 300.0), Weibull(3.5, 2.0)]
positive = st.floats(1e-3, 1e9)
not_positive = st.one_of(st.floats(max_value=0.0), st.sampled_from([nan, inf, -inf]))


@pytest.mark.parametrize("distribution", ALL, ids=repr)
def test_samples_have_the_stated_mean_and_variance(distribution: Distribution) -> None:
    """Both within 4.5 standard errors, which chance exceeds once in 150,000 times.

    The mean of n draws scatters by sqrt(variance / n); their variance by sqrt((m4 - variance^2)/n)
    with the fourth central moment m4, here that of the draws.
    """
    n = 200_000
    drawn = np.array(distribution.sample(np.random.default_rng(1), n))
    variance = distribution.variance_s2
    fourth = float(((drawn - drawn.mean()) ** 4).mean())
    assert drawn.min() > 0
    assert abs(drawn.mean() - distribution.mean_s) < 4.5 * sqrt(variance / n)
    assert abs(drawn.var() - variance) < 4.5 * sqrt((fourth - variance**2) / n)


@pytest.mark.parametrize(
    ("distribution", "reference"),
    [
        (Exponential(60_000.0), stats.expon(scale=60_000.0)),
        (Weibull(0.78, 51_979.0), stats.weibull_min(0.78, scale=51_979.0)),
    ],
)
def test_the_whole_distribution_is_that_of_scipy(
    distribution: Distribution, reference: stats.rv_continuous
) -> None:
    drawn = distribution.sample(np.random.default_rng(2), 20_000)
    assert stats.kstest(drawn, reference.cdf).pvalue > 0.001
    assert distribution.mean_s == pytest.approx(float(reference.mean()))
    assert distribution.variance_s2 == pytest.approx(float(reference.var()))


@pytest.mark.parametrize(
    ("groups", "scale_s"), [(200, 51_979.0), (600, 155_937.0), (1000, 259_894.0)]
)
def test_the_study_s_scale_follows_from_its_mean(groups: int, scale_s: float) -> None:
    """Lee et al. 2026 (SPARe): shape 0.78, mean 300 s * N; scales in whole seconds."""
    assert Weibull.from_mean(0.78, 300.0 * groups).scale_s == pytest.approx(scale_s, abs=1.0)


@given(shape=st.floats(0.1, 20.0), mean_s=positive)
def test_a_weibull_made_from_its_mean_has_that_mean(shape: float, mean_s: float) -> None:
    made = Weibull.from_mean(shape, mean_s)
    assert made.shape == shape
    assert made.mean_s == pytest.approx(mean_s, rel=1e-12)


@given(mean_s=positive)
def test_a_weibull_of_shape_1_is_exponential(mean_s: float) -> None:
    weibull, exponential = Weibull.from_mean(1.0, mean_s), Exponential(mean_s)
    assert weibull.variance_s2 == pytest.approx(exponential.variance_s2)


@given(value=not_positive, good=positive)
def test_what_is_not_positive_and_finite_is_refused_by_name(value: float, good: float) -> None:
    with pytest.raises(DistributionError, match="mean_s must be a positive number"):
        Exponential(value)
    with pytest.raises(DistributionError, match="shape must be a positive number"):
        Weibull(value, good)
    with pytest.raises(DistributionError, match="scale_s must be a positive number"):
        Weibull(good, value)
    with pytest.raises(DistributionError, match="mean_s must be a positive number"):
        Weibull.from_mean(good, value)
    with pytest.raises(DistributionError, match="shape must be a positive number"):
        Weibull.from_mean(value, good)


def test_one_seed_gives_one_sample() -> None:
    for one in ALL:
        first, again, other = (one.sample(np.random.default_rng(s), 8) for s in (3, 3, 4))
        assert first == again
        assert first != other


MEAN_S = 60_000.0


class Erlang:
    """The sum of two exponential times, whose renewal density has a closed form.

    Stages of rate a: m(t) = a/2 * (1 - exp(-2 a t)).
    """

    mean_s = MEAN_S
    variance_s2 = MEAN_S**2 / 2

    def survival(self, time_s: float) -> float:
        return float(gamma.sf(time_s, 2, scale=MEAN_S / 2))

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        drawn: list[float] = rng.gamma(2, MEAN_S / 2, size).tolist()
        return drawn


def test_exponential_is_constant() -> None:
    rate = renewal_rate(Exponential(MEAN_S))
    for now_s in np.linspace(0.0, 6 * MEAN_S, 500):
        # The midpoint rule is of second order: (1/100)^2 of the mean, over 12.
        assert rate(float(now_s)) == pytest.approx(1 / MEAN_S, rel=1e-4)
    assert constant_rate(0.25)(1e9) == 0.25


def test_a_rate_holds_until_the_next_one_begins() -> None:
    rate = renewal_rate(Weibull(0.78, MEAN_S))
    begins_s, changes = 0.0, 0
    while (ends_s := rate.holds_until_s(begins_s)) < np.inf:
        assert rate(begins_s) == rate(float(np.nextafter(ends_s, 0.0)))
        changes += rate(begins_s) != rate(ends_s)
        begins_s = ends_s
    assert changes > 300
    assert constant_rate(0.25).holds_until_s(0.0) == np.inf


def test_an_erlang_process_has_its_closed_form() -> None:
    rate = renewal_rate(Erlang())
    a = 2 / MEAN_S
    for end_s in rate.ends_s[:-1]:
        middle_s = end_s - rate.ends_s[0] / 2
        expected = a / 2 * (1 - np.exp(-2 * a * middle_s))
        assert rate(middle_s) == pytest.approx(expected, rel=1e-3, abs=1e-3 / MEAN_S)


def drawn_failures(distribution: Distribution, edges_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Count failures of 20,000 groups in each interval of time, by drawing their intervals."""
    groups, rng = 20_000, np.random.default_rng(11)
    counts = np.zeros(len(edges_s) - 1, dtype=np.int64)
    times = np.zeros(groups)
    while (times < edges_s[-1]).any():
        times += np.asarray(distribution.sample(rng, groups))
        counts += np.histogram(times, edges_s)[0]
    return counts


@pytest.mark.parametrize("shape", [0.78, 1.5])
def test_weibull_groups_fail_as_often_as_drawn(shape: float) -> None:
    """Counts over 20,000 groups in 16 intervals: a Poisson count would vary by its root.

    Counts of a renewal process vary less for shapes above 1 and by up to a variance-to-mean ratio
    of C^2 = 1.7 for shape 0.78; 5 standard errors of that cover all 16 intervals.
    """
    distribution = Weibull.from_mean(shape, MEAN_S)
    rate = renewal_rate(distribution)
    edges_s = np.array([0.0, *rate.ends_s])[::25]
    counts = drawn_failures(distribution, edges_s)
    for first, count in enumerate(counts):
        middles_s = np.array(rate.ends_s[25 * first : 25 * (first + 1)]) - rate.ends_s[0] / 2
        expected = 20_000 * rate.ends_s[0] * sum(rate(float(at_s)) for at_s in middles_s)
        assert abs(count - expected) < 5 * np.sqrt(1.7 * expected), first


@pytest.mark.parametrize(("shape", "young_fail_most"), [(0.78, True), (1.5, False)])
def test_the_young_fail_most_below_shape_one(shape: float, young_fail_most: bool) -> None:
    rate = IndependentGroups(Weibull.from_mean(shape, MEAN_S), 200).group_failure_rate()
    assert (rate(0.0) > 1.5 / MEAN_S) == young_fail_most
    # The table ends at four means, where the rate is at its limit.
    assert rate(3.99 * MEAN_S) == pytest.approx(1 / MEAN_S, rel=0.02)
    assert rate(100 * MEAN_S) == 1 / MEAN_S
