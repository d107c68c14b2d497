"""Kinds of failures in a mix, and failures that depend on each other, against closed forms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import takewhile
from math import exp, log, sqrt

import numpy as np
import pytest
from faultline.simulator.failures.dependence import Dependence
from faultline.simulator.failures.distributions import NEVER_S, Constant, Exponential, Lognormal
from faultline.simulator.failures.failure import Failure, JobLayout
from faultline.simulator.failures.mix import Cause, CauseMix
from faultline.simulator.failures.reactions import Evict, Reactions
from scipy import stats

LAYOUT = JobLayout(
    groups=100, gpus_per_group=64, gpus_per_host=8, gpus_per_domain=8, gpus_per_switch=16
)
HOSTS = LAYOUT.components("host")
MEAN_S = 1_000.0
RATE = 1 / (MEAN_S * LAYOUT.gpus)
HOST = Cause("host", "host", "hardware", RATE)
SLOW = Cause("slow", "gpu", "slow", RATE, None, None, Exponential(300.0), (1.2, 1.8))
FLAP = Cause("flap", "adapter", "flap", RATE, lasts=Lognormal(5.0, 1.0))


def stops(mix: CauseMix, count: int, seed: int = 1) -> list[Failure]:
    found: list[Failure] = []
    for batch in mix.batches(seed):
        found += batch
        if len(found) >= count:
            break
    return found


def conditions(mix: CauseMix, until_s: float, seed: int = 1) -> list[Failure]:
    return list(takewhile(lambda one: one.time_s < until_s, mix.disturbances(seed)))


def test_a_slow_component_is_drawn_from_its_distributions_and_stops_nobody() -> None:
    mix = CauseMix((SLOW,), LAYOUT)
    assert (mix.causes, mix.mtbf_s, list(mix.batches(1))) == ((), NEVER_S, [])
    slow = conditions(mix, 2_000 * MEAN_S)
    assert len(slow) == pytest.approx(2_000, abs=4 * sqrt(2_000))
    assert stats.kstest([one.lasts_s for one in slow], "expon", (0, 300.0)).pvalue > 1e-3
    assert stats.kstest([one.factor for one in slow], "uniform", (1.2, 0.6)).pvalue > 1e-3


def test_what_is_evicted_stops_when_it_is_found_if_it_is_still_slow() -> None:
    """It is with probability exp(-100 / 300); who ignores it meets the very same slow GPUs."""
    ignoring = CauseMix((SLOW,), LAYOUT)
    evicting = replace(ignoring, reactions=Reactions(Evict(100.0)))
    assert evicting.mtbf_s == pytest.approx(MEAN_S / exp(-1 / 3))
    before, after = (conditions(mix, 1_000 * MEAN_S) for mix in (ignoring, evicting))
    assert after == [one._replace(lasts_s=min(one.lasts_s, 100.0)) for one in before]
    expected = [
        one._replace(time_s=one.time_s + 100.0, kind="hardware", lasts_s=0.0, factor=1.0)
        for one in before
        if one.lasts_s > 100.0
    ]
    assert stops(evicting, len(expected))[: len(expected)] == expected


def test_flaps_stop_a_group_beyond_the_retries() -> None:
    mix = CauseMix((FLAP,), LAYOUT, Reactions(retry_s=10.0))
    share = stats.norm.sf(log(10.0 / 5.0))
    assert mix.mtbf_s == pytest.approx(MEAN_S / share)
    flaps = conditions(mix, 4_000 * MEAN_S)
    assert max(one.lasts_s for one in flaps) == 10.0
    broken = sum(one.lasts_s == 10.0 for one in flaps)
    assert broken == pytest.approx(4_000 * share, abs=4 * sqrt(4_000 * share))


def test_groups_of_hosts_are_taken_at_once() -> None:
    mix = CauseMix((replace(HOST, kind="preemption", at_once=2.1),), LAYOUT)
    sizes = list(Counter(one.time_s for one in stops(mix, 6_000)).values())[:-1]
    assert np.mean(sizes) == pytest.approx(2.1, rel=0.08)
    alone = sum(size == 1 for size in sizes) / len(sizes)
    assert alone == pytest.approx(1 / 2.1, abs=4 * sqrt(0.25 / len(sizes)))


def test_bursts_multiply_failures_and_leave_the_first_ones_as_they_are() -> None:
    alone = CauseMix((HOST,), LAYOUT)
    burst = replace(alone, dependence=Dependence(correlated_excess=2.8, excess_within_s=60.0))
    assert burst.mtbf_s == pytest.approx(MEAN_S / 2.8)
    found = stops(burst, 6_000)
    until_s = found[-1].time_s
    first = [one for one in stops(alone, 6_000) if one.time_s <= until_s]
    assert set(first) <= set(found)
    assert len(found) / len(first) == pytest.approx(2.8, rel=0.1)
    gaps_s = np.diff([one.time_s for one in found])
    # Of independent failures at this rate 1 of 12 follows within 30 s.
    assert np.mean(gaps_s < 30.0) > 0.3


def test_lemons_make_most_failures_at_the_same_mean_rate() -> None:
    """Of a gamma of shape 0.15 the largest 5 % hold half; the clock of all runs at their mean."""
    lemons = CauseMix((HOST,), LAYOUT, dependence=Dependence(lemon_shape=0.15))
    found = stops(lemons, 20_000)
    counts = sorted(Counter(one.number for one in found).values(), reverse=True)
    largest = stats.gamma(0.15, scale=1 / 0.15)
    half = 1 - stats.gamma(1.15, scale=1 / 0.15).cdf(largest.ppf(0.95))
    assert sum(counts[: HOSTS // 20]) / len(found) == pytest.approx(half, abs=0.1)
    factors = lemons.dependence.node_factors(HOSTS, 1)
    assert factors is not None
    mean_s = found[-1].time_s / len(found)
    assert mean_s == pytest.approx(MEAN_S / factors.mean(), rel=0.05)
    evicting = replace(lemons, dependence=Dependence(lemon_shape=0.15, evicted_after=3))
    kept = stops(evicting, 4_000)
    assert set(kept) <= set(found)
    late = [one for one in kept if one.time_s > kept[-1].time_s / 2]
    before = [one for one in found if kept[-1].time_s / 2 < one.time_s <= kept[-1].time_s]
    assert len(late) < 0.4 * len(before)


def test_chains_of_the_same_failure_are_geometric_up_to_a_limit() -> None:
    """With q = 0.5 and at most 2 in a row: none of a half, one of a quarter, two of a quarter."""
    mix = CauseMix((HOST,), LAYOUT, dependence=Dependence(recurrence=0.5, recurs_at_most=2))
    found = stops(mix, 4_000)
    lengths = Counter(len(one.recurs_s) for one in found)
    shares = [lengths[length] / len(found) for length in range(3)]
    assert shares == pytest.approx([0.5, 0.25, 0.25], abs=0.03)
    delays_s = [delay_s for one in found for delay_s in one.recurs_s]
    assert stats.kstest(delays_s, "expon", (0, 660.0)).pvalue > 1e-3


def test_a_slow_part_of_the_network_that_cuts_nobody_off_is_everybodys() -> None:
    rails = replace(LAYOUT, gpus_per_switch=0)
    spine = Cause("spine", "switch", "partial", RATE, None, None, Constant(60.0), (1.5, 1.5))
    (first, *_) = conditions(CauseMix((spine,), rails), 20 * MEAN_S)
    assert first.groups == range(LAYOUT.groups)
