"""Decisions over uncertain inputs, beside problems whose solutions are known analytically."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from faultline.experiments.analysis.decision import (
    INDIFFERENCE,
    judge,
    value_of_information,
)
from faultline.experiments.analysis.design import Design, SimulatedCosts
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from tests.experiments.analysis.sobol import sobol_design

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
    # The loss is over the worlds in which it loses more than `INDIFFERENCE`: about 1 of 100.
    beyond = loss(1.0 + 1.0, sqrt(5)) / norm.cdf(-2.0 / sqrt(5)) + 1.0
    assert first.loss_if_wrong == pytest.approx(beyond, rel=0.1)


def test_a_linear_race_has_its_analytic_value_of_information(race: SimulatedCosts) -> None:
    found = {one.name: one.value for one in value_of_information(race)}
    assert list(found) == ["input0", "input1", "input2"]
    for name, deviation in (("input0", 2.0), ("input1", 1.0)):
        assert found[name].low < loss(1.0, deviation) < found[name].high
    assert found["input0"].mean == pytest.approx(loss(1.0, 2.0), rel=0.15)
    assert found["input2"].mean == pytest.approx(0.0, abs=0.01)


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
    """Logarithms of times: inputs spread them by 0.03, luck by 0.04, together by 0.05."""
    design = normal_design(1, samples=4096)
    luck = 0.04 * np.random.default_rng(5).standard_normal((1, 4096, 4))
    logs = np.log(100.0) + 0.03 * design.values[:, :1] + luck
    band = judge(SimulatedCosts(("a",), design, np.exp(logs)))[0].bands
    reach = np.exp(0.05 * norm.ppf(0.9))
    assert band.input_share == pytest.approx(9 / 25, abs=0.02)
    assert (band.low, band.high) == pytest.approx((100 / reach, 100 * reach), rel=2.5e-3)
    short = judge(SimulatedCosts(("a",), design, np.exp(logs), simulated_share=0.25))[0].bands
    reach = np.exp(sqrt(0.03**2 + 0.25 * 0.04**2) * norm.ppf(0.9))
    assert (short.low, short.high) == pytest.approx((100 / reach, 100 * reach), rel=2.5e-3)
    assert short.input_share == pytest.approx(9 / 13, abs=0.03)


def test_without_inputs_the_band_is_luck_alone() -> None:
    nothing = sobol_design({}, 2048, 0)
    logs = 0.04 * np.random.default_rng(5).standard_normal((1, 2048, 2))
    for share, spread in ((1.0, 0.04), (0.25, 0.02)):
        costs = SimulatedCosts(("a",), nothing, 100 * np.exp(logs), simulated_share=share)
        band = judge(costs)[0].bands
        assert band.input_share == 0.0
        reach = np.exp(spread * norm.ppf(0.9))
        assert (band.low, band.high) == pytest.approx((100 / reach, 100 * reach), rel=3e-3)


def test_runs_of_the_whole_job_are_their_own_band() -> None:
    """One run of six waits for a repair: the mean is beyond most runs, and no end of the band."""
    random = np.random.default_rng(3)
    runs = np.where(random.random((64, 2)) < 1 / 6, 150.0, 107.0 + random.random((64, 2)))
    costs = SimulatedCosts(("a",), normal_design(1, samples=64), runs[None])
    band = judge(costs)[0].bands
    assert (band.low, band.high) == pytest.approx(tuple(np.quantile(runs, (0.1, 0.9))))


def test_rare_bad_luck_of_short_runs_averages_out() -> None:
    """One short run of 16 takes ten times as long: the whole job has that mean, and little luck."""
    runs = np.where(np.arange(128) % 16, 100.0, 1000.0).reshape(1, 64, 2)
    costs = SimulatedCosts(("a",), sobol_design({}, 64, 0), runs, simulated_share=1e-4)
    band = judge(costs)[0].bands
    assert (band.low, band.high) == pytest.approx((band.mean, band.mean), rel=0.03)


@given(st.lists(st.floats(1e-3, 1e9), min_size=8, max_size=8), st.floats(0.01, 1.0))
def test_a_band_is_positive_and_within_the_runs(times: list[float], share: float) -> None:
    design = normal_design(1, samples=4)
    runs = np.array(times).reshape(1, 4, 2)
    band = judge(SimulatedCosts(("a",), design, runs, simulated_share=share))[0].bands
    assert 0.0 < runs.min() <= band.low <= band.high <= runs.max()
    assert 0.0 <= band.input_share <= 1.0


def test_a_capped_run_counts_as_the_cap() -> None:
    """One run of 128 at the cap does not hide that the candidate is the best elsewhere."""
    design = normal_design(1, samples=64)
    row = 100.0 + design.values[:, 0]
    costs = replace(costs_of(design, row - 50.0, row), cap_s=2000.0)
    costs.costs[0, 3, 1] = 2000.0
    first, second = judge(costs)
    assert (first.candidate, second.candidate) == ("a", "b")
    assert (first.capped, second.capped) == (1 / 64, 0.0)
    capped_s = (2000.0 + row[3] - 50.0) / 2
    assert first.regret.mean == pytest.approx((capped_s - row[3]) / 64)
    assert first.loss_if_wrong == pytest.approx(capped_s - row[3])
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
