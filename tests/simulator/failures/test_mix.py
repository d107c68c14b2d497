"""A mix of causes: rates, places and independence, against closed forms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import exp, sqrt

import numpy as np
import pytest
from faultline.simulator.failures.distributions import Constant, Uniform
from faultline.simulator.failures.failure import Failure, JobLayout
from faultline.simulator.failures.mix import Cause, CauseMix, stream_index
from faultline.simulator.failures.models import SharedFailures
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
    return SharedFailures(mix).failures_until(span_s, seed)


def test_the_rates_of_a_mix_add_up() -> None:
    assert MIX.mtbf_s == pytest.approx(1 / (8.5 * PER_GPU_S * 144))


def test_failures_come_in_order_as_often_as_the_causes_say() -> None:
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
    clocks = SharedFailures(MIX).clocks(0, "renewal")
    clocks.take_while_down(0, SPAN_S)
    assert abs(clocks.failures - rate * SPAN_S) < 4 * sqrt(rate * SPAN_S)
    assert sum(clocks.failures_by_cause.values()) == clocks.failures
    # Group 1 stands on hosts 1 and 2; all are alike, so the worst group is as bad as group 0.
    assert MIX.survival(1000.0) == pytest.approx(exp(-rate * 1000.0))


def test_all_groups_on_a_component_go_down_together() -> None:
    clocks = SharedFailures(MIX).clocks(1, "renewal")
    by_time: dict[float, set[int]] = {}
    for group in range(12):
        while clocks.next_failure_s[group] <= SPAN_S / 10:
            by_time.setdefault(clocks.take_at_occurrence(group), set()).add(group)
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


@given(seed=st.integers(0, 2**63), order=st.permutations(list(range(12)) * 3))
def test_clocks_do_not_depend_on_the_order_of_questions(seed: int, order: list[int]) -> None:
    mixed, sorted_ = (SharedFailures(MIX).clocks(seed, "renewal") for _ in range(2))
    for group in order:
        mixed.take_at_occurrence(group)
    for group in sorted(order):
        sorted_.take_at_occurrence(group)
    assert mixed.next_failure_s == sorted_.next_failure_s
    assert mixed.failures_by_cause == sorted_.failures_by_cause


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
