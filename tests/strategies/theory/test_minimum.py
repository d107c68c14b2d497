"""The minimum between two bounds: the same trials, to the last digit, as SciPy's."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, exp, sqrt

import pytest
from faultline.strategies.theory.minimum import minimum_between
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

FUNCTIONS: dict[str, Callable[[float, float], float]] = {
    "parabola": lambda x, at: (x - at) ** 2,
    "corner": lambda x, at: abs(x - at),
    "cusp": lambda x, at: sqrt(abs(x - at)),
    "bell": lambda x, at: -exp(-(((x - at) / 100.0) ** 2)),
    "waves": lambda x, at: cos(x / at),
    "steps": lambda x, at: round(3.0 * x / at) * (50.0 - x),
    "level": lambda x, at: 1.0,
    "rising": lambda x, at: x,
    "falling": lambda x, at: -x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(
    at=st.floats(1e-3, 1e4), low=st.floats(0.0, 1e4), width=st.sampled_from([0.0, 1e-5, 1.0, 1e5])
)
def test_trials_are_those_of_scipy(name: str, at: float, low: float, width: float) -> None:
    trials: list[float] = []
    expected: list[float] = []

    def function(x: float, into: list[float]) -> float:
        into.append(float(x))
        return FUNCTIONS[name](float(x), at)

    found = minimum_between(lambda x: function(x, trials), low, low + width)
    scipys = minimize_scalar(
        lambda x: function(x, expected), bounds=(low, low + width), method="bounded"
    )
    assert trials == expected
    assert found == scipys.x


def test_a_minimum_is_found_as_precisely_as_its_place_can_be() -> None:
    """A tenth of a parabola's steps: its vertex lies within sqrt(2.2e-16) of 300, plus 1e-5 / 3."""
    assert minimum_between(lambda x: (x - 300.0) ** 2, 1.0, 1e6) == pytest.approx(300.0, abs=2e-5)
