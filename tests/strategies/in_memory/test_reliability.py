"""Survival of what is kept in memory: printed values, brute force and Monte Carlo."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from faultline.strategies.errors import StrategyError
from faultline.strategies.in_memory.reliability import (
    gemini_recovery_bound,
    gemini_recovery_probability,
    loss_probability,
    time_to_loss,
    weibull_failed_by,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(("tolerated", "expected"), [(0, 2.34), (1, 7.79), (2, 12.37)])
def test_times_to_a_tenth_of_failure_probability(tolerated: int, expected: float) -> None:
    """Wang et al. 2023 (REFT): F(t) = 1 - exp(-(t/50)^3), 1,024 nodes in groups of 16."""
    failed_by = weibull_failed_by(50.0, 3.0)
    assert time_to_loss(0.1, failed_by, 1024, 16, tolerated, 100.0) == pytest.approx(
        expected, rel=0.01
    )


@pytest.mark.parametrize("tolerated", [0, 1, 2, 3])
def test_loss_probability_against_monte_carlo(tolerated: int) -> None:
    rng = np.random.default_rng(11)
    trials, failed = 20_000, 0.12
    lost = (rng.random((trials, 6, 8)) < failed).sum(axis=2)
    observed = (lost > tolerated).any(axis=1).mean()
    expected = loss_probability(failed, 48, 8, tolerated)
    assert observed == pytest.approx(expected, abs=4 * (expected * (1 - expected) / trials) ** 0.5)


@given(failed=st.floats(0, 1), groups=st.integers(1, 50), group=st.integers(2, 16))
def test_more_tolerance_never_loses_more(failed: float, groups: int, group: int) -> None:
    losses = [loss_probability(failed, groups * group, group, t) for t in range(group + 1)]
    assert all(0.0 <= loss <= 1.0 for loss in losses)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] == 0.0


def test_a_probability_that_is_never_reached_is_said_to_be() -> None:
    with pytest.raises(StrategyError, match="stays below"):
        time_to_loss(0.5, lambda time: 0.0, 16, 4, 1, 10.0)


@pytest.mark.parametrize(("lost", "expected"), [(1, 1.0), (2, 14 / 15), (3, 0.8)])
def test_gemini_s_printed_probabilities(lost: int, expected: float) -> None:
    """93.3 % and 80 % for 16 machines in pairs (Wang et al. 2023 (GEMINI))."""
    assert gemini_recovery_bound(16, 2, lost) == pytest.approx(expected)


@pytest.mark.parametrize(("machines", "group"), [(8, 2), (9, 3), (8, 4)])
def test_gemini_against_every_way_to_lose_machines(machines: int, group: int) -> None:
    for lost in range(machines + 1):
        ways = list(combinations(range(machines), lost))
        survived = sum(
            all(
                any(machine not in gone for machine in range(first, first + group))
                for first in range(0, machines, group)
            )
            for gone in map(set, ways)
        )
        exact = gemini_recovery_probability(machines, group, lost)
        assert exact == pytest.approx(survived / len(ways))
        assert gemini_recovery_bound(machines, group, lost) <= exact + 1e-12
