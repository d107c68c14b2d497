"""Decisions over uncertain inputs, beside problems whose solutions are known analytically."""

from __future__ import annotations

from dataclasses import replace
from math import isnan, sqrt

import numpy as np
import pytest
from faultline.experiments.analysis.decision import (
    INDIFFERENCE,
    judge,
    leads_over_input,
    value_of_information,
)
from faultline.experiments.analysis.design import Design, SimulatedCosts, sobol_design
from scipy.stats import norm

SAMPLES = 1024


def normal_design(inputs: int, seed: int = 1, samples: int = SAMPLES) -> Design:
    """Return a design whose inputs are standard normal."""
    names = [f"input{place}" for place in range(inputs)]
    return sobol_design(dict.fromkeys(names, norm.ppf), samples, seed)


def costs_of(
    design: Design, *rows: np.ndarray, luck: float = 0.0, seeds: int = 2
) -> SimulatedCosts:
    """Return costs with independent normal luck per sample and seed, shared by all candidates."""
    random = np.random.default_rng(5)
    drawn = luck * random.standard_normal((1, len(design), seeds))
    names = tuple("abcdefgh"[: len(rows)])
    return SimulatedCosts(names, design, np.array(rows)[:, :, None] + drawn)


@pytest.fixture(scope="module")
def race() -> SimulatedCosts:
    """Two candidates whose difference is 1 + 2 x0 + x1; x2 has no effect on it."""
    design = normal_design(3)
    x = design.values
    first = 100.0 + 3.0 * x[:, 2]
    return costs_of(design, first, first + 1.0 + 2.0 * x[:, 0] + x[:, 1])


def loss(mean: float, deviation: float) -> float:
    """Return E max(0, -N(mean, deviation)): the unit normal loss (Raiffa & Schlaifer 1961)."""
    z = mean / deviation
    return float(deviation * (norm.pdf(z) - z * norm.cdf(-z)))


def test_a_linear_race_has_its_analytic_probability_and_regret(race: SimulatedCosts) -> None:
    first, second = judge(race)
    assert (first.candidate, second.candidate) == ("a", "b")
    exact = norm.cdf(1 / sqrt(5))
    assert first.best.low < exact < first.best.high
    assert first.best.mean + second.best.mean == pytest.approx(1.0)
    assert first.regret.low < loss(1.0, sqrt(5)) < first.regret.high
    assert second.regret.low < loss(-1.0, sqrt(5)) < second.regret.high
    # Regret exceeds t with the probability that the difference is below -t.
    exact_quantile = -(1.0 + sqrt(5) * norm.ppf(0.05))
    assert first.regret_95 == pytest.approx(exact_quantile, rel=0.1)


def test_a_linear_race_has_its_analytic_value_of_information(race: SimulatedCosts) -> None:
    found = {one.name: one.value for one in value_of_information(race)}
    assert list(found) == ["input0", "input1", "input2"]
    for name, deviation in (("input0", 2.0), ("input1", 1.0)):
        assert found[name].low < loss(1.0, deviation) < found[name].high
    assert found["input0"].mean == pytest.approx(loss(1.0, 2.0), rel=0.15)
    assert found["input2"].mean == pytest.approx(0.0, abs=0.01)


def test_leads_follow_the_input(race: SimulatedCosts) -> None:
    quantiles = np.array([0.1, 0.5, 0.9])
    leads = leads_over_input(race, 0, quantiles)
    assert leads == pytest.approx(1.0 + 2.0 * norm.ppf(quantiles), abs=0.3)


def test_one_scheme_under_two_names_ties() -> None:
    design = normal_design(2)
    row = 100.0 + design.values.sum(axis=1)
    same = costs_of(design, row, row, luck=1.0)
    assert [one.best.mean for one in judge(same)] == [0.5, 0.5]
    assert [one.within.mean for one in judge(same)] == [1.0, 1.0]
    assert [one.value.mean for one in value_of_information(same)] == [0.0, 0.0]
    assert [one.tied for one in judge(same)] == [True, True]


def test_an_input_without_effect_has_no_value_on_average() -> None:
    """The choice is by noise alone; an estimate on the fitted samples would be above zero."""
    values = []
    for seed in range(20):
        design = normal_design(1, seed, 128)
        random = np.random.default_rng(seed)
        costs = costs_of(design, 100.0 + random.normal(size=128), 100.0 + random.normal(size=128))
        (one,) = value_of_information(costs)
        values.append(one.value)
        assert one.value.low <= 0.0
    assert sum(value.mean > 0.15 for value in values) <= 1


def test_bands_split_inputs_and_luck() -> None:
    design = normal_design(1, samples=4096)
    row = 100.0 + 3.0 * design.values[:, 0]
    band = judge(costs_of(design, row, luck=4.0, seeds=4))[0].bands
    reach = float(norm.ppf(0.9))
    assert band.parameter_share == pytest.approx(9 / 25, abs=0.02)
    assert band.parameters == pytest.approx((100 - 3 * reach, 100 + 3 * reach), abs=0.15)
    assert band.luck == pytest.approx((-4 * reach, 4 * reach), abs=0.15)
    assert (band.low, band.high) == pytest.approx((100 - 5 * reach, 100 + 5 * reach), abs=0.25)
    single = judge(costs_of(design, 100.0 + design.values[:, 0], seeds=1))[0].bands
    assert isnan(single.luck[0])
    assert single.mean == pytest.approx(100.0, abs=0.01)


def test_a_stopped_run_counts_as_a_lower_bound() -> None:
    """One run of 128 stopped at 2,000 does not hide that the candidate is the best elsewhere."""
    design = normal_design(1, samples=64)
    row = 100.0 + design.values[:, 0]
    costs = replace(costs_of(design, row - 50.0, row), cap_s=2000.0)
    costs.costs[0, 3, 1] = 2000.0
    first, second = judge(costs)
    assert (first.candidate, second.candidate) == ("a", "b")
    assert (first.stopped, second.stopped) == (1 / 64, 0.0)
    stopped_s = (2000.0 + row[3] - 50.0) / 2
    assert first.regret.mean == pytest.approx((stopped_s - row[3]) / 64)
    assert value_of_information(costs) != []


def test_one_candidate_has_no_value_of_information() -> None:
    """Nothing is computed, which is not the same as a value of zero."""
    design = normal_design(2, samples=64)
    assert value_of_information(costs_of(design, 100.0 + design.values[:, 0])) == []


def test_a_candidate_that_is_later_at_each_sample_does_not_tie() -> None:
    """One very late sample makes the interval of the mean difference contain 0."""
    design = normal_design(1, samples=16)
    first = 100.0 + design.values[:, 0]
    late = 1.5 * first
    late[3] += 3000.0
    _, second = judge(costs_of(design, first, late))
    assert (second.regret.low < 0.0, second.tied) == (True, False)


def test_candidates_within_the_indifference_zone_tie() -> None:
    design = normal_design(1, samples=64)
    row = 100.0 + design.values[:, 0]
    close = judge(costs_of(design, row, row + 0.9 * 100 * INDIFFERENCE, row + 3.0))
    assert [one.tied for one in close] == [True, True, False]
    assert [one.within.mean for one in close] == pytest.approx([1.0, 1.0, 0.0], abs=0.05)
