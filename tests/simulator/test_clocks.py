"""Failure clocks: who fails when depends on the seed and the group, and on nothing else."""

from __future__ import annotations

import pytest
from faultline.simulator.failures.clocks import ClockRule, RenewalClocks
from faultline.simulator.failures.distributions import Weibull
from faultline.simulator.job import Job
from faultline.simulator.random_streams import Purpose, stream
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import play
from faultline.simulator.training import Training
from faultline.strategies.registry import build_strategy
from hypothesis import given
from hypothesis import strategies as st

from tests.simulator.helpers import NEVER_S, SOUND, STUDY, Scripted, replayed, small_job

STUDY_S = Weibull.from_mean(0.78, 60_000.0)


def test_renewal_counts_from_the_failure_and_from_detection_counts_from_its_notice() -> None:
    """Intervals 50, 30; the failure at 50 is noticed at 64: the next comes at 80, or at 94."""
    clocks = {
        rule: RenewalClocks(Scripted({0: [50.0, 30.0]}), 1, 0, rule)
        for rule in ("renewal", "from-detection")
    }
    for clock in clocks.values():
        assert clock.next_failure_s == [50.0]
        clock.take(0, 64.0)
        assert clock.failures == 1
    assert clocks["renewal"].next_failure_s == [80.0]
    assert clocks["from-detection"].next_failure_s == [94.0]


@pytest.mark.parametrize("rule", ["renewal", "from-detection"])
def test_a_failure_taken_when_it_happens_is_followed_by_a_whole_interval(rule: ClockRule) -> None:
    clocks = RenewalClocks(Scripted({0: [50.0, 30.0]}), 1, 0, rule)
    assert clocks.take_at_occurrence(0) == 50.0
    assert clocks.next_failure_s == [80.0]
    assert (clocks.failures, clocks.failures_while_down) == (1, 0)


@pytest.mark.parametrize("rule", ["renewal", "from-detection"])
def test_failures_of_a_group_that_is_down_are_counted_apart(rule: ClockRule) -> None:
    """Intervals 10, 20, 30, 40 come due at 10, 30, 60, 100: two of them by 59, the third at 60."""
    clocks = RenewalClocks(Scripted({0: [10.0, 20.0, 30.0, 40.0]}), 1, 0, rule)
    clocks.take_while_down(0, 59.0)
    assert (clocks.failures, clocks.failures_while_down) == (2, 2)
    clocks.take_while_down(0, 60.0)
    assert (clocks.failures, clocks.failures_while_down) == (3, 3)
    assert clocks.next_failure_s == [100.0]


def test_a_group_without_further_intervals_never_fails() -> None:
    assert RenewalClocks(Scripted({}), 3, 0, "renewal").next_failure_s == [NEVER_S] * 3


@given(seed=st.integers(0, 2**63), groups=st.integers(2, 12))
def test_a_group_s_failures_do_not_depend_on_how_many_groups_there_are(
    seed: int, groups: int
) -> None:
    alone = RenewalClocks(STUDY_S, 1, seed, "renewal")
    among = RenewalClocks(STUDY_S, groups, seed, "renewal")
    for _ in range(20):
        assert among.next_failure_s[0] == alone.next_failure_s[0]
        alone.take_at_occurrence(0)
        among.take_at_occurrence(0)
        among.take_at_occurrence(1)
    assert len(set(among.next_failure_s)) == groups


@given(seed=st.integers(0, 2**63), order=st.permutations([0, 0, 1, 1, 2, 2] * 4))
def test_the_kth_interval_of_a_group_does_not_depend_on_what_others_did(
    seed: int, order: list[int]
) -> None:
    """24 failures in any order: more than a block of draws a group."""
    mixed, sorted_ = (RenewalClocks(STUDY_S, 3, seed, "renewal") for _ in range(2))
    for group in order:
        mixed.take_at_occurrence(group)
    for group in sorted(order):
        sorted_.take_at_occurrence(group)
    assert mixed.next_failure_s == sorted_.next_failure_s


def test_streams_differ_by_seed_purpose_and_component() -> None:
    named = [
        (seed, purpose, index) for seed in (0, 1) for purpose in Purpose for index in (0, 1, 2)
    ]
    first = {name: float(stream(*name).random()) for name in named}
    assert len(set(first.values())) == len(named)
    assert first == {name: float(stream(*name).random()) for name in named}


class Recording:
    """A distribution that remembers what it handed out, by stream in order of first use."""

    mean_s, variance_s2 = STUDY_S.mean_s, STUDY_S.variance_s2

    def __init__(self) -> None:
        self.handed_out: dict[int, list[float]] = {}
        self._keep = []

    def sample(self, rng, size):
        self._keep.append(rng)
        drawn = STUDY_S.sample(rng, size)
        self.handed_out.setdefault(id(rng), []).extend(drawn)
        return drawn


@pytest.mark.parametrize("rules", [SOUND, STUDY])
def test_all_schemes_live_through_the_same_intervals(rules) -> None:
    handed_out = []
    for name, redundancy in (("checkpoint", 1), ("replication", 3), ("spare", 3)):
        failures = Recording()
        job: Job = small_job(
            failures, rules, groups=12, steps=10**6, compute_s=64.0, time_limit_s=400_000.0
        )
        progress = replayed(job, build_strategy(name, 12, redundancy))
        assert progress.failures > 24
        handed_out.append(list(failures.handed_out.values()))
    for group in range(12):
        shortest = min(len(of_scheme[group]) for of_scheme in handed_out)
        starts = {tuple(of_scheme[group][:shortest]) for of_scheme in handed_out}
        assert len(starts) == 1


def test_under_renewal_all_schemes_see_failures_at_the_very_same_moments() -> None:
    """Failures come at the sums of the intervals, so those up to a common time are as many."""
    taken = []
    for name, redundancy in (("checkpoint", 1), ("replication", 3), ("spare", 3)):
        job = small_job(STUDY_S, groups=12, steps=10**6, compute_s=64.0, time_limit_s=400_000.0)
        training = Training(job.work, job.rules, build_strategy(name, 12, redundancy))
        engine = ReplayEngine(job)
        play(training, engine)
        for group in range(12):
            engine.clocks.take_while_down(group, 500_000.0)
        taken.append((engine.clocks.failures, engine.clocks.next_failure_s))
    assert taken[0] == taken[1] == taken[2]
    assert taken[0][0] > 50
