"""Distributions keep their promises: means, variances, and what they refuse."""

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
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

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


@given(shape=positive, scale_s=positive, mean_s=positive)
def test_a_repr_makes_the_same_distribution_again(
    shape: float, scale_s: float, mean_s: float
) -> None:
    for one in (Weibull(shape, scale_s), Exponential(mean_s)):
        assert eval(repr(one)) == one


def test_one_seed_gives_one_sample() -> None:
    for one in ALL:
        first, again, other = (one.sample(np.random.default_rng(s), 8) for s in (3, 3, 4))
        assert first == again
        assert first != other
