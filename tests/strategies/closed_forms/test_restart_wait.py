"""Waiting for the slowest restart: against the one-group formula and a simulation of many."""

from __future__ import annotations

from math import exp, expm1

import numpy as np
import pytest
from faultline.strategies.closed_forms.lifetimes import Survival
from faultline.strategies.closed_forms.restart_wait import wait_for_slowest


def exponential(mean_s: float) -> Survival:
    return lambda time_s: exp(-time_s / mean_s)


@pytest.mark.parametrize("mean_s", [2000.0, 5000.0, 50_000.0])
def test_one_group_needs_an_interval_without_failure(mean_s: float) -> None:
    """(exp(T_r/m) - 1) m, the mean wait for the first gap of T_r in a Poisson process."""
    survival = exponential(mean_s)
    wait = wait_for_slowest(1, 1000.0, survival, survival)
    # Steps of T_r/400.
    assert wait.mean_s == pytest.approx(expm1(1000.0 / mean_s) * mean_s, rel=0.005)


def test_without_failures_a_restart_takes_its_time() -> None:
    survival = exponential(1e12)
    wait = wait_for_slowest(1000, 3600.0, survival, survival)
    assert wait.mean_s == pytest.approx(3600.0, rel=1e-3)
    assert wait.survival(0.0) == pytest.approx(1.0, abs=1e-6)


def test_many_groups_wait_for_the_slowest() -> None:
    """N = 100, T_r = 1, mean 20: simulated by the definition; some are down when all are back."""
    groups, mean, trials = 100, 20.0, 2000
    rng = np.random.default_rng(1)
    ends, down = np.zeros(trials), np.zeros(trials)
    for trial in range(trials):
        begun = np.zeros(groups)
        failure = rng.exponential(mean, groups)
        while np.any(early := failure <= begun + 1.0):
            begun[early] = failure[early]
            failure[early] += rng.exponential(mean, int(early.sum()))
        ends[trial] = begun.max() + 1.0
        down[trial] = (failure <= ends[trial]).mean()
    survival = exponential(mean)
    wait = wait_for_slowest(groups, 1.0, survival, survival)
    assert abs(wait.mean_s - ends.mean()) < 4 * ends.std() / trials**0.5 + 0.0025
    # The form takes the mean for the end of the wait: the share that is down curves by 1 %.
    tolerance = 4 * down.std() / trials**0.5 + 0.01 * down.mean()
    assert abs(1.0 - wait.survival(0.0) - down.mean()) < tolerance
    assert wait.survival(10.0) == pytest.approx(wait.survival(0.0) * exp(-10.0 / mean), rel=1e-6)
