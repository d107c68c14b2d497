"""Mixes of causes against closed forms: rates, places, kinds, failures that depend on others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import takewhile
from math import exp, log, sqrt

import numpy as np
import pytest
from faultline.simulator.failures.dependence import Dependence
from faultline.simulator.failures.distributions import (
    NEVER_S,
    Constant,
    Exponential,
    Lognormal,
    Uniform,
)
from faultline.simulator.failures.failure import LEVELS, Failure, JobLayout, Level, component_name
from faultline.simulator.failures.mix import Cause, CauseMix, stream_index
from faultline.simulator.failures.reactions import Reactions
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

LAYOUT = JobLayout(
    groups=12, gpus_per_group=12, gpus_per_host=8, gpus_per_domain=24, gpus_per_switch=48
)
PER_GPU_S = 1e-6
CAUSES = (
    Cause("gpu", "gpu", "hardware", 5 * PER_GPU_S, Uniform(100.0, 300.0)),
    Cause("host", "host", "hardware", 2 * PER_GPU_S, Constant(50.0)),
    Cause("switch", "switch", "network", 1 * PER_GPU_S),
    Cause("bug", "job", "software", 0.5 * PER_GPU_S),
)
MIX = CauseMix(CAUSES, LAYOUT)
SPAN_S = 4000 * MIX.mtbf_s


def drawn(mix: CauseMix, seed: int = 0, span_s: float = SPAN_S) -> list[Failure]:
    return mix.failures_until(span_s, seed)


def test_the_rates_of_a_mix_add_up() -> None:
    assert MIX.mtbf_s == pytest.approx(1 / (8.5 * PER_GPU_S * 144))


def test_failures_come_in_order_at_the_rates_of_their_causes() -> None:
    """Counts are Poisson: each within 4 standard deviations, and all together by chi-square."""
    failures = drawn(MIX)
    times = [failure.time_s for failure in failures]
    assert times == sorted(times)
    counted = Counter(failure.cause for failure in failures)
    expected = [cause.rate_per_gpu_s * 144 * SPAN_S for cause in CAUSES]
    for cause, mean in zip(CAUSES, expected, strict=True):
        assert abs(counted[cause.name] - mean) < 4 * sqrt(mean), cause.name
    total = len(failures)
    fit = stats.chisquare(
        [counted[cause.name] for cause in CAUSES],
        [mean * total / sum(expected) for mean in expected],
    )
    assert fit.pvalue > 1e-3


def test_times_between_failures_of_a_memoryless_mix_are_exponential() -> None:
    intervals = np.diff([0.0, *(failure.time_s for failure in drawn(MIX))])
    assert stats.kstest(intervals, "expon", args=(0, MIX.mtbf_s)).pvalue > 1e-3


@pytest.mark.parametrize("cause", CAUSES[:3], ids=lambda cause: cause.name)
def test_every_component_of_a_level_is_hit_alike(cause: Cause) -> None:
    mix = CauseMix((cause,), LAYOUT)
    hits = Counter(one.number for one in drawn(mix, span_s=20_000 * mix.mtbf_s))
    components = LAYOUT.components(cause.level)
    assert set(hits) == set(range(components))
    assert stats.chisquare([hits[n] for n in range(components)]).pvalue > 1e-3


def test_a_component_with_half_the_gpus_fails_half_as_often() -> None:
    """Five GPUs in hosts of two: the last host has one."""
    layout = JobLayout(1, 5, 2, 2, 2)
    mix = CauseMix((CAUSES[1],), layout)
    hits = Counter(one.number for one in drawn(mix, span_s=10_000 * mix.mtbf_s))
    total = sum(hits.values())
    assert (
        stats.chisquare([hits[n] for n in range(3)], [0.4 * total, 0.4 * total, 0.2 * total]).pvalue
        > 1e-3
    )


def test_a_group_fails_as_often_as_what_it_stands_on() -> None:
    """Group 0 has GPUs 0 to 11: hosts 0 and 1 (16 GPUs), switch 0 (48), 12 GPUs, and the job."""
    rate = PER_GPU_S * (5 * 12 + 2 * 16 + 1 * 48 + 0.5 * 144)
    clocks = MIX.clocks(0, "renewal")
    clocks.take_while_down(0, SPAN_S)
    assert abs(clocks.hits - rate * SPAN_S) < 4 * sqrt(rate * SPAN_S)
    assert sum(clocks.events_by_cause.values()) == clocks.hits
    # Group 1 stands on hosts 1 and 2; all are alike, so the worst group is as bad as group 0.
    assert MIX.survival(1000.0) == pytest.approx(exp(-rate * 1000.0))


def test_all_groups_on_a_component_go_down_together() -> None:
    clocks = MIX.clocks(1, "renewal")
    by_time: dict[float, set[int]] = {}
    for group in range(12):
        while clocks.next_failure_s[group] <= SPAN_S / 10:
            by_time.setdefault(clocks.take(group).time_s, set()).add(group)
    failures = drawn(MIX, seed=1, span_s=SPAN_S / 10)
    assert by_time == {one.time_s: set(one.groups) for one in failures}
    assert {len(groups) for groups in by_time.values()} == {1, 2, 4, 12}


@given(seed=st.integers(0, 2**63), keep=st.sets(st.integers(0, 3), min_size=1))
def test_the_failures_of_a_cause_depend_on_no_other(seed: int, keep: set[int]) -> None:
    few = replace(MIX, mixed=tuple(CAUSES[n] for n in sorted(keep, reverse=True)))
    names = {CAUSES[n].name for n in keep}
    span_s = 100 * MIX.mtbf_s
    of_all = [failure for failure in drawn(MIX, seed, span_s) if failure.cause in names]
    assert drawn(few, seed, span_s) == of_all


@given(seed=st.integers(0, 2**63), groups=st.sampled_from([1, 2, 3, 4, 6, 36, 144]))
def test_the_same_gpus_fail_at_the_same_times_however_they_are_grouped(
    seed: int, groups: int
) -> None:
    other = replace(MIX, layout=replace(LAYOUT, groups=groups, gpus_per_group=144 // groups))
    span_s = 50 * MIX.mtbf_s
    ours, theirs = drawn(MIX, seed, span_s), drawn(other, seed, span_s)
    assert [one[:6] for one in ours] == [one[:6] for one in theirs]
    assert len(ours) > 10


def test_seeds_and_causes_have_streams_of_their_own() -> None:
    assert drawn(MIX, 1) != drawn(MIX, 2)
    assert drawn(MIX, 1) == drawn(MIX, 1)
    assert len({stream_index(cause.name) for cause in CAUSES}) == 4


def test_repairs_are_drawn_from_their_distribution() -> None:
    failures = drawn(MIX)
    of_gpus = [one.repair_s for one in failures if one.cause == "gpu"]
    assert stats.kstest(of_gpus, "uniform", args=(100.0, 200.0)).pvalue > 1e-3
    assert {one.repair_s for one in failures if one.cause == "host"} == {50.0}
    assert {one.repair_s for one in failures if one.cause == "bug"} == {None}


def test_a_weibull_cause_keeps_its_rate_and_has_its_shape() -> None:
    """Times between failures in the whole job: scipy's Weibull of the same mean."""
    cause = replace(CAUSES[0], shape=0.78)
    mix = CauseMix((cause,), LAYOUT)
    intervals = np.diff([0.0, *(one.time_s for one in drawn(mix, span_s=4000 * mix.mtbf_s))])
    assert np.mean(intervals) == pytest.approx(mix.mtbf_s, rel=4 * 1.3 / sqrt(4000))
    law = stats.weibull_min(0.78, scale=mix.mtbf_s / stats.weibull_min(0.78).mean())
    assert stats.kstest(intervals, law.cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("level", "number", "machines"),
    [
        *(("gpu", 9, 1), ("adapter", 9, 1), ("host", 3, 1), ("domain", 1, 2), ("switch", 0, 4)),
        *(("group", 1, 4), ("job", 0, 8)),
    ],
)
def test_a_failure_takes_the_hosts_of_its_component(
    level: Level, number: int, machines: int
) -> None:
    """Two groups of 16 GPUs, in hosts of 4."""
    layout = JobLayout(2, 16, gpus_per_host=4, gpus_per_domain=8, gpus_per_switch=16)
    groups = layout.groups_of(level, number)
    failure = Failure(1.0, level, number, "any", "hardware", None, groups)
    assert len(layout.hosts_of(failure)) == machines


LARGE = JobLayout(
    groups=100, gpus_per_group=64, gpus_per_host=8, gpus_per_domain=8, gpus_per_switch=16
)
HOSTS = LARGE.components("host")
MEAN_S = 1_000.0
RATE = 1 / (MEAN_S * LARGE.gpus)
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


def test_a_slow_component_is_drawn_from_its_distributions_and_stops_no_group() -> None:
    mix = CauseMix((SLOW,), LARGE)
    assert (mix.causes, mix.mtbf_s, list(mix.batches(1))) == ((), NEVER_S, [])
    slow = conditions(mix, 2_000 * MEAN_S)
    assert len(slow) == pytest.approx(2_000, abs=4 * sqrt(2_000))
    assert stats.kstest([one.lasts_s for one in slow], "expon", (0, 300.0)).pvalue > 1e-3
    assert stats.kstest([one.factor for one in slow], "uniform", (1.2, 0.6)).pvalue > 1e-3


def test_what_is_evicted_stops_when_it_is_found_if_it_is_still_slow() -> None:
    """It is with probability exp(-100 / 300); a mix that ignores it has the very same slow GPUs."""
    ignoring = CauseMix((SLOW,), LARGE)
    evicting = replace(ignoring, reactions=Reactions(100.0))
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
    mix = CauseMix((FLAP,), LARGE, Reactions(retry_s=10.0))
    share = stats.norm.sf(log(10.0 / 5.0))
    assert mix.mtbf_s == pytest.approx(MEAN_S / share)
    flaps = conditions(mix, 4_000 * MEAN_S)
    assert max(one.lasts_s for one in flaps) == 10.0
    broken = sum(one.lasts_s == 10.0 for one in flaps)
    assert broken == pytest.approx(4_000 * share, abs=4 * sqrt(4_000 * share))


def test_groups_of_hosts_are_taken_at_once() -> None:
    mix = CauseMix((replace(HOST, kind="preemption", at_once=2.1),), LARGE)
    sizes = list(Counter(one.time_s for one in stops(mix, 6_000)).values())[:-1]
    assert np.mean(sizes) == pytest.approx(2.1, rel=0.08)
    alone = sum(size == 1 for size in sizes) / len(sizes)
    assert alone == pytest.approx(1 / 2.1, abs=4 * sqrt(0.25 / len(sizes)))


def test_a_scaled_mix_has_the_mean_time_and_keeps_the_shares_of_its_causes() -> None:
    mix = replace(MIX, harmless=(HOST,), dependence=Dependence(correlated_excess=2.8))
    scaled = mix.at_mtbf(900.0)
    assert scaled.mtbf_s == pytest.approx(900.0 / 2.8)
    before, after = (
        [one.rate_per_gpu_s for one in (*each.mixed, *each.harmless)] for each in (mix, scaled)
    )
    assert np.divide(after, before) == pytest.approx(MIX.mtbf_s / 900.0)
    assert scaled.hardware_shares() == pytest.approx(mix.hardware_shares())


def test_bursts_multiply_failures_and_leave_the_first_ones_as_they_are() -> None:
    alone = CauseMix((HOST,), LARGE)
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
    lemons = CauseMix((HOST,), LARGE, dependence=Dependence(lemon_shape=0.15))
    found = stops(lemons, 20_000)
    counts = sorted(Counter(one.number for one in found).values(), reverse=True)
    largest = stats.gamma(0.15, scale=1 / 0.15)
    half = 1 - stats.gamma(1.15, scale=1 / 0.15).cdf(largest.ppf(0.95))
    assert sum(counts[: HOSTS // 20]) / len(found) == pytest.approx(half, abs=0.1)
    factors = lemons.dependence.node_factors(HOSTS, 1)
    assert factors is not None
    mean_s = found[-1].time_s / len(found)
    assert mean_s == pytest.approx(MEAN_S / factors.mean(), rel=0.05)


def test_chains_of_the_same_failure_are_geometric_up_to_a_limit() -> None:
    """With q = 0.5 none of a half, one of a quarter, and so on; six in a row is the most."""
    mix = CauseMix((HOST,), LARGE, dependence=Dependence(recurrence=0.5))
    found = stops(mix, 4_000)
    lengths = Counter(len(one.recurs_s) for one in found)
    shares = [lengths[length] / len(found) for length in range(7)]
    expected = [*(0.5 ** (length + 1) for length in range(6)), 0.5**6]
    assert shares == pytest.approx(expected, abs=0.03)
    assert max(lengths) == 6
    delays_s = [delay_s for one in found for delay_s in one.recurs_s]
    assert stats.kstest(delays_s, "expon", (0, 660.0)).pvalue > 1e-3


def test_a_slow_part_of_the_network_that_cuts_no_group_off_slows_all() -> None:
    rails = replace(LARGE, gpus_per_switch=0)
    spine = Cause("spine", "switch", "partial", RATE, None, None, Constant(60.0), (1.5, 1.5))
    (first, *_) = conditions(CauseMix((spine,), rails), 20 * MEAN_S)
    assert first.groups == range(LARGE.groups)


sizes = st.integers(1, 20)
layouts = st.builds(JobLayout, sizes, sizes, sizes, sizes, sizes)
of_gpus = st.sampled_from([level for level in LEVELS if level != "cable"])


@given(layout=layouts, level=of_gpus)
def test_components_and_groups_are_runs_of_gpus(layout: JobLayout, level: Level) -> None:
    gpus = list(range(layout.groups * layout.gpus_per_group))
    size = layout.gpus_per_component(level)
    runs = [gpus[first : first + size] for first in range(0, len(gpus), size)]
    assert layout.gpus == len(gpus)
    assert layout.components(level) == len(runs)
    for number, run in enumerate(runs):
        assert list(layout.gpus_of(level, number)) == run
        groups = {gpu // layout.gpus_per_group for gpu in run}
        assert set(layout.groups_of(level, number)) == groups


@given(layout=layouts, level=of_gpus, data=st.data())
def test_a_group_feels_all_gpus_of_the_components_it_touches(
    layout: JobLayout, level: Level, data: st.DataObject
) -> None:
    group = data.draw(st.integers(0, layout.groups - 1))
    felt = sum(
        len(layout.gpus_of(level, number))
        for number in range(layout.components(level))
        if group in layout.groups_of(level, number)
    )
    assert layout.share_stopping(level, group) == pytest.approx(felt / layout.gpus)


@given(layout=layouts)
def test_a_cable_stops_no_group_and_slows_all(layout: JobLayout) -> None:
    assert list(layout.gpus_of("cable", 3)) == []
    assert layout.groups_of("cable", 3) == range(layout.groups)
    assert layout.share_stopping("cable", 0) == 0.0


def test_components_have_the_names_of_traces() -> None:
    assert component_name("gpu", 97) == "gpu-97"
    assert component_name("job", 0) == "job"
    failure = Failure(1.0, "domain", 2, "power", "hardware", None, range(3))
    assert failure.component == "domain-2"
