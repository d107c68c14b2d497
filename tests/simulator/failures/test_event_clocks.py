"""Clocks that follow one sequence of failures, shared by several groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf

import pytest
from faultline.simulator.failures.clocks import EventClocks
from faultline.simulator.failures.distributions import Exponential
from faultline.simulator.failures.failure import Failure
from faultline.simulator.failures.models import IndependentGroups, SharedFailures
from faultline.simulator.failures.trace import Trace
from hypothesis import given
from hypothesis import strategies as st


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
    return SharedFailures(trace).clocks(0, "renewal")


def test_a_failure_of_several_groups_is_each_one_s_next_and_counts_for_each() -> None:
    clocks = clocks_of(RECORDED, 4)
    assert clocks.next_failure_s == [10.0, 10.0, 30.0, inf]
    assert clocks.due(1) == RECORDED[0]
    assert clocks.due(3) is None
    clocks.take(0, 64.0)
    assert clocks.next_failure_s == [30.0, 10.0, 30.0, inf]
    assert clocks.take_at_occurrence(1) == 10.0
    assert clocks.due(1) == RECORDED[1]
    clocks.take_while_down(0, 49.0)
    assert (clocks.failures, clocks.failures_while_down) == (3, 1)
    clocks.take_while_down(0, 1e9)
    assert clocks.next_failure_s == [inf, 30.0, 30.0, inf]
    clocks.take(1, 64.0)
    assert clocks.failures_by_cause == {"power": 4, "switch": 1}
    assert clocks.failures == 5


def test_a_repeated_trace_goes_on_and_spares_who_was_spared() -> None:
    clocks = clocks_of(RECORDED, 4, after_end="repeat")
    times = [clocks.take_at_occurrence(2) for _ in range(6)]
    assert times == [30.0, 50.0, 130.0, 150.0, 230.0, 250.0]
    assert clocks.next_failure_s[3] == inf


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


def test_a_sequence_has_no_intervals_that_begin_when_somebody_notices() -> None:
    model = SharedFailures(Trace(RECORDED, 4, 100.0))
    with pytest.raises(ValueError, match="renewal"):
        model.clocks(0, "from-detection")


def test_only_a_trace_that_is_repeated_may_leave_no_time_for_a_restart() -> None:
    """Groups 0 and 1 fail at 10, 30 and again at 110, group 2 at 30 and 130: gaps of 80 and 100."""
    once, again = (Trace(RECORDED[:3], 3, 100.0, after) for after in ("none", "repeat"))
    assert once.survival(1e9) == 1.0
    assert again.survival(79.0) == 1.0
    assert again.survival(80.0) == 0.0


@given(
    times=st.lists(st.integers(0, 9), min_size=1, max_size=20),
    data=st.data(),
)
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
            met.append(clocks.due(group))
            clocks.take_at_occurrence(group)
        assert met == [one for one in recorded if group in one.groups]
    assert clocks.failures == sum(len(one.groups) for one in recorded)


def test_independent_groups_tell_their_failures_as_well() -> None:
    model = IndependentGroups(Exponential(400.0), 4)
    assert model.mtbf_s == 100.0
    failures = model.failures_until(1000.0, seed=3)
    times = [one.time_s for one in failures]
    assert times == sorted(times)
    assert times[-1] <= 1000.0
    clocks = model.clocks(3, "renewal")
    assert times[0] == min(clocks.next_failure_s)
    assert clocks.due(2).time_s == clocks.next_failure_s[2]
    assert clocks.due(2).groups == range(2, 3)
    counted = Counter(one.number for one in failures)
    for group in range(4):
        clocks.take_while_down(group, 1000.0)
    assert clocks.failures == sum(counted.values()) > 0
    assert clocks.failures_by_cause == {}
