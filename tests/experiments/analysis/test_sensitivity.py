"""Emulators and effect indices, beside functions whose values and indices are known."""

from __future__ import annotations

from math import pi

import numpy as np
import pytest
from faultline.experiments.analysis.design import SimulatedCosts, sobol_design
from faultline.experiments.analysis.emulator import Emulator, OutOfDesignError
from faultline.experiments.analysis.sensitivity import decisive_effects, total_effects
from scipy.stats import norm


def ishigami(unit: np.ndarray) -> np.ndarray:
    """Return sin x1 + 7 sin^2 x2 + 0.1 x3^4 sin x1 for x uniform in (-pi, pi)."""
    x = pi * (2.0 * unit - 1.0)
    return np.asarray(
        np.sin(x[:, 0]) + 7.0 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])
    )


def test_ishigamis_indices_are_the_analytic_ones() -> None:
    """Ishigami & Homma 1990, with the analytic variances of Saltelli et al. 2000."""
    first = 0.5 * (1.0 + 0.1 * pi**4 / 5.0) ** 2
    second = 7.0**2 / 8.0
    mixed = 0.1**2 * pi**8 * (1 / 18 - 1 / 50)
    whole = first + second + mixed
    exact = {"a": (first + mixed) / whole, "b": second / whole, "c": mixed / whole, "none": 0.0}
    effects = {one.name: one for one in total_effects(tuple(exact), ishigami, samples=2048)}
    for name, total in exact.items():
        assert effects[name].total == pytest.approx(total, abs=2 * effects[name].error + 1e-9)
        assert effects[name].error < 0.1
    assert total_effects(("a", "b"), lambda unit: np.zeros(len(unit)))[0].total == 0.0


def log_times(scores: np.ndarray) -> np.ndarray:
    """Return curved logarithmic times of two candidates; the last input has no effect."""
    rate, restart, own = scores[:, 0], scores[:, 1], scores[:, 2]
    lost = 0.1 * np.exp(0.4 * rate + 0.5 * restart)
    first = 14.0 - np.log1p(-np.minimum(lost, 0.8))
    second = 14.05 + 0.1 * np.exp(0.4 * rate) + 0.02 * own
    return np.array([first, second])


@pytest.fixture(scope="module")
def noisy() -> SimulatedCosts:
    """Simulated times with luck of 1 % per run."""
    names = ["rate", "restart", "own", "none"]
    design = sobol_design(dict.fromkeys(names, norm.ppf), 128, 3)
    logs = log_times(design.values)[:, :, None]
    luck = 0.01 * np.random.default_rng(7).standard_normal((2, 128, 2))
    return SimulatedCosts(("first", "second"), design, np.exp(logs + luck))


@pytest.fixture(scope="module")
def emulator(noisy: SimulatedCosts) -> Emulator:
    return Emulator(noisy)


def test_an_emulator_predicts_samples_that_it_has_not_seen(emulator: Emulator) -> None:
    unit = np.random.default_rng(8).uniform(*emulator.range, (500, 4))
    errors = np.abs(np.expm1(emulator.log_times(unit) - log_times(norm.ppf(unit))))
    assert np.quantile(errors, 0.5) < 0.01
    assert np.quantile(errors, 0.95) < 0.04
    # Luck of 1 % per run is averaged out: predictions are closer than a simulation of two runs.
    assert np.sqrt(np.mean(errors**2)) < 0.01


def test_the_leave_out_error_is_that_of_fits_without_the_sample(emulator: Emulator) -> None:
    for error in emulator.leave_out().values():
        assert error.median < 0.01
        assert error.percentile_95 < 0.04
        # Of 128 samples: 80 % and three standard errors.
        assert 0.69 < error.coverage < 0.91


def test_an_emulator_refuses_to_extrapolate(emulator: Emulator) -> None:
    unit = np.full((2, 4), 0.5)
    unit[1, 2] = 1.0 - 1e-9
    with pytest.raises(OutOfDesignError, match="own at quantile 1 of its prior is beyond"):
        emulator.log_times(unit)


def test_the_exported_formula_predicts_the_same(emulator: Emulator) -> None:
    data = emulator.to_json()
    unit = np.random.default_rng(9).uniform(*emulator.range, (20, 4))
    scores, points = norm.ppf(unit), np.array(data["points"])
    for place, one in enumerate(data["processes"]):
        apart = (scores[:, None] - points) / np.array(one["lengths"])
        root = np.sqrt(5.0 * (apart**2).sum(axis=2))
        kernel = one["amplitude"] * (1 + root + root**2 / 3) * np.exp(-root)
        kernel += one["offset"] + one["slope"] * scores @ points.T
        beyond_floor = one["mean"] + kernel @ np.array(one["weights"])
        predicted = np.log(one["floor"] + np.exp(beyond_floor))
        assert predicted == pytest.approx(emulator.log_times(unit)[place], abs=1e-3)


def test_an_input_without_effect_has_no_index(emulator: Emulator) -> None:
    (effects,) = decisive_effects(emulator, "first").values()
    assert [one.name for one in effects[:2]] == ["restart", "rate"]
    totals = {one.name: one.total for one in effects}
    assert totals["none"] < 0.01
    assert totals["own"] < 0.1
    assert decisive_effects(emulator, "first")["second"] == effects


def test_costs_beyond_a_floor_are_predicted_by_their_own_logarithm() -> None:
    """What failures cost is ten times as much at one end of an input as at the other."""
    design = sobol_design({"rate": lambda unit: unit}, 32, seed=3)
    beyond = np.exp(3.0 * norm.ppf(design.unit[:, 0]))
    costs = SimulatedCosts(("one",), design, (100.0 + beyond)[None, :, None])
    emulator = Emulator(costs)
    assert emulator.to_json()["processes"][0]["floor"] == pytest.approx(98.0, rel=2e-3)
    middle = np.array([[0.5]])
    assert np.exp(emulator.log_times(middle)[0, 0]) == pytest.approx(101.0, rel=2e-3)
