"""How often a group fails, against closed forms and against renewal processes that are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.simulator.failures.distributions import Distribution, Exponential, Weibull
from faultline.simulator.failures.models import IndependentGroups
from faultline.simulator.failures.renewal_rate import constant_rate, renewal_rate
from numpy.typing import NDArray
from scipy.stats import gamma

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
