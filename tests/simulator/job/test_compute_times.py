"""The slowest of n groups is one draw, and is distributed as if all n of them were drawn."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from faultline.simulator.job.compute_times import ComputeTimes
from scipy import stats

# Chance alone yields a smaller p-value once in a thousand seeds; the seeds are fixed.
SIGNIFICANCE = 0.001


def explicit_maxima(
    groups: int, stacks: int, jitter: float, minimum: float, draws: int
) -> np.ndarray:
    """Draw every factor of every group; the phase lasts as long as the slowest group's sum."""
    rng = np.random.default_rng(99)
    factors = 1.0 + jitter * rng.standard_normal((draws, groups, stacks))
    return 64.0 * factors.clip(min=minimum).sum(axis=2).max(axis=1)


@pytest.mark.parametrize("groups", [1, 2, 24, 200, 1000])
@pytest.mark.parametrize("stacks", [1, 3])
def test_one_draw_is_distributed_as_the_explicit_maximum(groups: int, stacks: int) -> None:
    times = ComputeTimes(64.0, 0.05, seed=groups + stacks)
    drawn = [times.slowest_s(groups, stacks) for _ in range(4000)]
    explicit = explicit_maxima(groups, stacks, 0.05, 0.1, 4000)
    assert stats.ks_2samp(drawn, explicit).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("jitter", [0.3, 1.0])
def test_large_jitter_is_cut_off_at_the_minimum(jitter: float) -> None:
    """Here the minimum is within reach, and both ways of drawing respect it."""
    times = ComputeTimes(64.0, jitter, seed=3)
    alone = [times.own_s(1) for _ in range(4000)]
    assert min(alone) == pytest.approx(6.4)
    slowest = [times.slowest_s(3, 2) for _ in range(4000)]
    explicit = explicit_maxima(3, 2, jitter, 0.1, 4000)
    assert stats.ks_2samp(slowest, explicit).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("stacks", [1, 4])
def test_one_group_s_own_time_is_normal_with_the_stated_spread(stacks: int) -> None:
    times = ComputeTimes(64.0, 0.05, seed=5)
    own = [times.own_s(stacks) for _ in range(10_000)]
    reference = stats.norm(64.0 * stacks, 64.0 * 0.05 * sqrt(stacks))
    assert stats.kstest(own, reference.cdf).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("jitter", [0.0, 0.05, 0.3])
def test_no_draw_exceeds_the_bound(jitter: float) -> None:
    times = ComputeTimes(64.0, jitter, seed=6)
    bound = times.longest_s(2)
    assert all(times.own_s(2) <= bound and times.slowest_s(500, 2) <= bound for _ in range(3000))


def test_without_jitter_every_group_takes_the_stated_time() -> None:
    times = ComputeTimes(64.0, 0.0, seed=1)
    assert times.own_s(3) == times.slowest_s(200, 3) == times.longest_s(3) == 192.0


@pytest.mark.parametrize(("groups", "stacks"), [(1, 1), (24, 3), (1000, 2)])
def test_draws_announced_ahead_are_those_that_are_made(groups: int, stacks: int) -> None:
    """To the last bit, however few of them are passed over, and over several blocks."""
    made = ComputeTimes(64.0, 0.05, seed=2)
    announcing = ComputeTimes(64.0, 0.05, seed=2)
    assert made.draws_ahead
    drawn = [made.slowest_s(groups, stacks) for _ in range(5000)]
    announced_s: list[float] = []
    while len(announced_s) < len(drawn):
        ahead_s = announcing.slowest_ahead_s(groups, stacks, wanted=300.0)[:211]
        announcing.pass_over(len(ahead_s))
        announced_s += [*ahead_s.tolist(), announcing.slowest_s(groups, stacks)]
        assert announcing.drawn == len(announced_s)
    assert announced_s[: len(drawn)] == drawn


def test_without_jitter_all_that_is_announced_is_the_stated_time() -> None:
    times = ComputeTimes(64.0, 0.0, seed=2)
    assert times.draws_ahead
    assert set(times.slowest_ahead_s(200, 3, wanted=float("inf")).tolist()) == {192.0}


def test_where_the_minimum_is_within_reach_nothing_is_announced() -> None:
    assert not ComputeTimes(64.0, 0.3, seed=2).draws_ahead
