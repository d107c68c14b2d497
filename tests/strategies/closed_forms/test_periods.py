"""The best fixed period of lives, against memoryless lives and Young's rule."""

from __future__ import annotations

from math import exp, expm1, sqrt

import numpy as np
import pytest
from faultline.strategies.checkpoint_period import Costs
from faultline.strategies.closed_forms.lifetimes import GroupLifetimes, Life
from faultline.strategies.closed_forms.periods import (
    availability_of_lives,
    best_period_of_lives_s,
    kept_periods,
)
from faultline.strategies.closed_forms.stacked_types import StackedTypes
from faultline.strategies.closed_forms.wipe_out import DisjointSets
from hypothesis import given
from hypothesis import strategies as st


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
