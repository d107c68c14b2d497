"""Failure clocks: which group fails when depends on the seed and the group, and on nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf

import numpy as np
import pytest
from faultline.simulator.failures.clocks import ClockRule, EventClocks, RenewalClocks
from faultline.simulator.failures.distributions import Exponential, Weibull
from faultline.simulator.failures.failure import Failure
from faultline.simulator.failures.models import IndependentGroups
from faultline.simulator.failures.random_streams import Purpose, stream
from faultline.simulator.failures.trace import Trace
from faultline.simulator.loop.run import simulate
from faultline.simulator.loop.training import Training
from faultline.simulator.replay.engine import ReplayEngine
from faultline.strategies.plugins.registry import build_strategy
from hypothesis import example, given
from hypothesis import strategies as st

from tests.simulator.helpers import NEVER_S, Scripted, small_job

STUDY_S = Weibull.from_mean(0.78, 60_000.0)


@pytest.mark.parametrize("rule", ["renewal", "from-detection"])
def test_a_failure_taken_when_it_happens_is_followed_by_a_whole_interval(rule: ClockRule) -> None:
    clocks = RenewalClocks(Scripted({0: [50.0, 30.0]}), 1, 0, rule)
    assert clocks.take(0).time_s == 50.0
    assert clocks.next_failure_s == [80.0]
    assert (clocks.hits, clocks.hits_while_down) == (1, 0)


@pytest.mark.parametrize("rule", ["renewal", "from-detection"])
def test_failures_of_a_group_that_is_down_are_counted_apart(rule: ClockRule) -> None:
    """Intervals 10, 20, 30, 40 come due at 10, 30, 60, 100: two of them by 59, the third at 60."""
    clocks = RenewalClocks(Scripted({0: [10.0, 20.0, 30.0, 40.0]}), 1, 0, rule)
    clocks.take_while_down(0, 59.0)
    assert (clocks.hits, clocks.hits_while_down) == (2, 2)
    clocks.take_while_down(0, 60.0)
    assert (clocks.hits, clocks.hits_while_down) == (3, 3)
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
        alone.take(0)
        among.take(0)
        among.take(1)
    assert len(set(among.next_failure_s)) == groups


@given(seed=st.integers(0, 2**63), order=st.permutations([0, 0, 1, 1, 2, 2] * 4))
def test_the_kth_interval_of_a_group_does_not_depend_on_what_others_did(
    seed: int, order: list[int]
) -> None:
    """24 failures in any order: more than a block of draws a group."""
    mixed, sorted_ = (RenewalClocks(STUDY_S, 3, seed, "renewal") for _ in range(2))
    for group in order:
        mixed.take(group)
    for group in sorted(order):
        sorted_.take(group)
    assert mixed.next_failure_s == sorted_.next_failure_s


def test_under_renewal_all_schemes_see_failures_at_the_very_same_moments() -> None:
    """Failures come at the sums of the intervals, so those up to a common time are as many."""
    taken = []
    for name, redundancy in (("checkpoint", 1), ("replication", 3), ("spare", 3)):
        job = small_job(STUDY_S, groups=12, steps=10**6, compute_s=64.0, time_limit_s=400_000.0)
        training = Training(job, build_strategy(name, 12, redundancy))
        engine = ReplayEngine(job)
        simulate(training, engine)
        for group in range(12):
            engine.clocks.take_while_down(group, 500_000.0)
        taken.append((engine.clocks.hits, engine.clocks.next_failure_s))
    assert taken[0] == taken[1] == taken[2]
    assert taken[0][0] > 50


@given(
    st.integers(0, 2**200), st.sampled_from(Purpose), st.one_of(st.integers(0, 99), st.integers(0))
)
@example(0, Purpose.GROUP_FAILURES, 0)
@example(2**32, Purpose.COMPUTE_JITTER, 2**32)
@example(2**128, Purpose.STANDBY_LIVES, 1)
def test_a_stream_is_the_child_of_its_seed_by_purpose_and_index(
    seed: int, purpose: Purpose, index: int
) -> None:
    spawned = np.random.SeedSequence(seed, spawn_key=(int(purpose), index))
    expected = np.random.Generator(np.random.PCG64(spawned)).random(3)
    assert (stream(seed, purpose, index).random(3) == expected).all()


def failure(time_s: float, groups: range, cause: str = "power") -> Failure:
    return Failure(time_s, "host", 0, cause, "hardware", None, groups)


RECORDED = (
    failure(10.0, range(0, 2)),
    failure(30.0, range(1, 3), "switch"),
    failure(30.0, range(0, 1)),
    failure(50.0, range(0, 3)),
)


def clocks_of(recorded: tuple[Failure, ...], groups: int, **rest: str) -> EventClocks:
    trace = Trace(recorded, groups, 100.0, **rest)  # type: ignore[arg-type]
    return trace.clocks(0, "renewal")


def test_a_failure_of_several_groups_is_each_one_s_next_and_hits_each() -> None:
    clocks = clocks_of(RECORDED, 4)
    assert clocks.next_failure_s == [10.0, 10.0, 30.0, inf]
    assert clocks.peek(0) is clocks.peek(1)
    assert clocks.peek(1) == RECORDED[0]
    assert clocks.peek(3).time_s == inf
    clocks.take(0, 64.0)
    assert clocks.next_failure_s == [30.0, 10.0, 30.0, inf]
    assert clocks.take(1).time_s == 10.0
    assert clocks.peek(1) == RECORDED[1]
    clocks.take_while_down(0, 49.0)
    assert (clocks.hits, clocks.hits_while_down) == (3, 1)
    clocks.take_while_down(0, 1e9)
    assert clocks.next_failure_s == [inf, 30.0, 30.0, inf]
    clocks.take(1, 64.0)
    # Both groups took the failure at 10, which is one event.
    assert clocks.hits == 5
    assert clocks.events_by_cause == {"power": 3, "switch": 1}
    assert clocks.events == 4


def test_a_repeated_trace_goes_on_and_spares_the_groups_that_it_spared() -> None:
    clocks = clocks_of(RECORDED, 4, after_end="repeat")
    times = [clocks.take(2).time_s for _ in range(6)]
    assert times == [30.0, 50.0, 130.0, 150.0, 230.0, 250.0]
    assert clocks.next_failure_s[3] == inf


def test_groups_that_never_fail_are_no_hits_of_an_event() -> None:
    """Of each failure of three groups, group 2 is spared: two hits, and the next is a new event."""
    both = [failure(time_s, range(0, 3)) for time_s in (1.0, 2.0)]
    clocks = EventClocks(iter([both]), 3, [2], ["power"])
    for expected in ((1, 1), (1, 2), (2, 3), (2, 4)):
        clocks.take((expected[1] - 1) % 2)
        assert (clocks.events, clocks.hits) == expected


def test_nothing_is_read_beyond_what_a_clock_needs() -> None:
    read = []

    def batches() -> Iterator[list[Failure]]:
        for time_s in (1.0, 2.0, 3.0, 4.0):
            read.append(time_s)
            yield [failure(time_s, range(0, 2))]

    clocks = EventClocks(batches(), 2, (), ["power"])
    assert read == [1.0]
    clocks.take_while_down(1, 2.5)
    assert read == [1.0, 2.0, 3.0]
    assert clocks.next_failure_s == [1.0, 3.0]


def test_a_sequence_has_no_intervals_that_begin_at_detection() -> None:
    model = Trace(RECORDED, 4, 100.0)
    with pytest.raises(ValueError, match="renewal"):
        model.clocks(0, "from-detection")


def test_only_a_trace_that_is_repeated_may_leave_no_time_for_a_restart() -> None:
    """Groups 0 and 1 fail at 10, 30 and again at 110, group 2 at 30 and 130: gaps of 80 and 100."""
    once, again = (Trace(RECORDED[:3], 3, 100.0, after) for after in ("none", "repeat"))
    assert once.survival(1e9) == 1.0
    assert again.survival(79.0) == 1.0
    assert again.survival(80.0) == 0.0


@given(times=st.lists(st.integers(0, 9), min_size=1, max_size=20), data=st.data())
def test_every_group_meets_its_failures_in_order_and_no_other(
    times: list[int], data: st.DataObject
) -> None:
    recorded = []
    for time_s in sorted(times):
        first = data.draw(st.integers(0, 4))
        recorded.append(failure(float(time_s), range(first, data.draw(st.integers(first, 4)) + 1)))
    clocks = clocks_of(tuple(recorded), 5)
    for group in range(5):
        met = []
        while clocks.next_failure_s[group] < inf:
            met.append(clocks.take(group))
        assert met == [one for one in recorded if group in one.groups]
    assert clocks.hits == sum(len(one.groups) for one in recorded)
    assert clocks.events == len(recorded)


def test_independent_groups_report_their_failures_as_well() -> None:
    model = IndependentGroups(Exponential(400.0), 4)
    assert model.mtbf_s == 100.0
    failures = model.failures_until(1000.0, seed=3)
    times = [one.time_s for one in failures]
    assert times == sorted(times)
    assert times[-1] <= 1000.0
    clocks = model.clocks(3, "renewal")
    assert times[0] == min(clocks.next_failure_s)
    assert clocks.peek(2).time_s == clocks.next_failure_s[2]
    assert clocks.peek(2).groups == range(2, 3)
    counted = Counter(one.number for one in failures)
    for group in range(4):
        clocks.take_while_down(group, 1000.0)
    assert clocks.hits == clocks.events == sum(counted.values()) > 0
    assert clocks.events_by_cause == {}
