"""Emulators, and how far inputs swing a lead, beside functions that are known."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.experiments.analysis.design import Design, SimulatedCosts
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.analysis.input_scales import scales_of
from faultline.experiments.analysis.sensitivity import Swing, swings
from scipy.stats import norm

from tests.experiments.analysis.sobol import sobol_design


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
    for errors in emulator.leave_out().values():
        assert errors.shape == (128,)
        assert np.quantile(errors, 0.5) < 0.01
        assert np.quantile(errors, 0.95) < 0.04


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


def test_an_input_swings_the_lead_as_its_function_does(emulator: Emulator) -> None:
    found = {one.name: one for one in swings(emulator, "first")}
    assert next(iter(found)) == "restart"
    others = norm.ppf(emulator.unit)
    for name, column in (("restart", 1), ("rate", 0), ("own", 2)):
        leads = []
        for quantile in (0.1, 0.9):
            at = others.copy()
            at[:, column] = norm.ppf(quantile)
            first, second = np.exp(log_times(at)).mean(axis=1)
            leads.append(second - first)
        size_s = np.exp(14.0)
        assert found[name].ends_s == pytest.approx(leads, abs=0.01 * size_s)
    assert found["none"].size_s < 0.1 * found["own"].size_s + 0.002 * np.exp(14.0)


def test_an_input_turns_the_advice_where_both_are_expected_at_the_same_time(
    emulator: Emulator,
) -> None:
    restart = swings(emulator, "first")[0]
    ((turn, below, above),) = restart.turns()
    assert [emulator.candidates[place] for place in (below, above)] == ["first", "second"]
    at = norm.ppf(emulator.unit)
    at[:, 1] = norm.ppf(turn)
    first, second = np.exp(log_times(at)).mean(axis=1)
    assert first == pytest.approx(second, rel=0.02)
    scale = scales_of(Design(("restart",), emulator.unit[:, 1:2], emulator.unit[:, 1:2]))
    text = restart.turns_text(emulator.candidates, scale["restart"])
    assert text.startswith("below ")
    assert text.endswith(" first, above second")


@pytest.mark.parametrize(("place", "turns"), [(1, 0), (12, 1), (36, 0), (38, 0)])
def test_a_turn_beyond_or_at_the_end_of_the_range_is_not_named(place: int, turns: int) -> None:
    """The 80 % range has the positions from 5 to 36: a turn after 36 may lie at its end."""
    stops = np.linspace(0.0, 1.0, 42)
    swing = Swing("restart", stops, np.zeros(42), (np.arange(42) > place).astype(np.intp))
    assert len(swing.turns()) == turns


def test_costs_beyond_a_floor_are_predicted_by_their_own_logarithm() -> None:
    """What failures cost is ten times as much at one end of an input as at the other."""
    design = sobol_design({"rate": lambda unit: unit}, 32, seed=3)
    beyond = np.exp(3.0 * norm.ppf(design.unit[:, 0]))
    costs = SimulatedCosts(("one",), design, (100.0 + beyond)[None, :, None])
    emulator = Emulator(costs)
    assert emulator.to_json()["processes"][0]["floor"] == pytest.approx(98.0, rel=2e-3)
    middle = np.array([[0.5]])
    assert np.exp(emulator.log_times(middle)[0, 0]) == pytest.approx(101.0, rel=2e-3)
