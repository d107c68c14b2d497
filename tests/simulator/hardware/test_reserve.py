"""Reserves of machines: ready ones leave in exchange for failed ones, and none is added."""

from __future__ import annotations

from math import inf

from faultline.simulator.hardware.reserve import Reserve
from hypothesis import given
from hypothesis import strategies as st


def test_a_failed_machine_takes_the_place_of_the_one_that_replaces_it() -> None:
    reserve = Reserve(1, repair_s=100.0)
    assert reserve.exchange([110.0, 120.0], 10.0) == 1
    assert (reserve.ready(109.0), reserve.ready(110.0)) == (0, 1)
    assert reserve.exchange([130.0], 110.0) == 1
    assert len(reserve) == 1


def test_a_repair_that_ends_now_is_there_whatever_its_sum_is_rounded_to() -> None:
    reserve = Reserve(1, repair_s=0.0)
    reserve.exchange([0.1 + 0.2], 0.0)
    assert reserve.ready(0.3) == 1
    assert reserve.exchange([9.0], 0.3) == 1


def test_it_knows_when_several_machines_are_ready() -> None:
    reserve = Reserve(3, repair_s=0.0)
    reserve.exchange([5.0, 9.0], 0.0)
    assert [reserve.next_ready_s(machines) for machines in (0, 1, 2, 3, 4)] == [
        inf,
        0.0,
        5.0,
        9.0,
        inf,
    ]


def test_a_ready_machine_fails_and_is_repaired() -> None:
    """Two live 30 s and 1,000 s: at 50 s one is under repair until 130 s, and lives 10 s more."""
    reserve = Reserve(2, 100.0, iter([30.0, 1000.0, 10.0, 500.0]))
    assert reserve.exchange([1e9, 1e9], 50.0) == 1
    assert reserve.failures == 1
    # It fails again at 140 s, and is ready from 240 s on.
    assert [reserve.ready(time_s) for time_s in (129.0, 130.0, 141.0, 239.0, 240.0)] == [
        *(0, 1, 0, 0, 1)
    ]
    assert reserve.failures == 2


@given(
    machines=st.integers(0, 4),
    exchanges=st.lists(
        st.tuples(st.floats(0, 30), st.lists(st.floats(0, 50), max_size=3)), max_size=30
    ),
)
def test_no_more_machines_leave_than_are_ready(
    machines: int, exchanges: list[tuple[float, list[float]]]
) -> None:
    """A list of the times at which each machine is ready is the independent account."""
    reserve, now_s, ready_s = Reserve(machines, 0.0), 0.0, [0.0] * machines
    for gap_s, repairs_s in exchanges:
        now_s += gap_s
        failed = [now_s + repair_s for repair_s in repairs_s]
        ready_s.sort()
        expected = min(len(failed), sum(one <= now_s * (1 + 1e-12) for one in ready_s))
        assert reserve.exchange(failed, now_s) == expected
        ready_s = ready_s[expected:] + failed[:expected]
        assert len(reserve) == machines
