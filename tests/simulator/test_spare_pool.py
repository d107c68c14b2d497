"""Spares and repairs: hardware is neither lost nor made."""

from __future__ import annotations

from faultline.simulator.spare_pool import SparePool
from hypothesis import given
from hypothesis import strategies as st


def test_spares_first_then_repaired_groups_in_the_order_of_their_failures() -> None:
    shop = SparePool(1, 100.0)
    shop.bring(2, 10.0)
    assert shop.next_ready_s == 0.0
    assert shop.collect([7, 3], 20.0) == (7,)
    assert shop.next_ready_s == 110.0
    assert shop.collect([3], 109.0) == ()
    assert shop.collect([3], 110.0) == (3,)


def test_a_repaired_group_whose_place_is_taken_is_a_spare() -> None:
    shop = SparePool(1, 100.0)
    shop.bring(1, 0.0)
    assert shop.collect([5], 1.0) == (5,)
    shop.bring(1, 200.0)
    assert shop.collect([6], 200.0) == (6,)


def test_a_restart_brings_everything_back() -> None:
    shop = SparePool(2, 1e9)
    shop.bring(2, 0.0)
    shop.collect([0, 1], 0.0)
    shop.restart()
    shop.bring(2, 5.0)
    assert shop.collect([0, 1], 5.0) == (0, 1)


def test_what_stands_by_fails_and_is_repaired() -> None:
    """Two live 30 s and 1,000 s: at 50 s one is under repair until 130 s, and lives 10 s more."""
    pool = SparePool(2, 100.0, iter([30.0, 1000.0, 10.0, 500.0, 7.0]))
    assert pool.collect([1, 2], 50.0) == (1,)
    assert pool.failures == 1
    # It failed again at 140 s, and is there from 240 s on.
    assert pool.collect([2], 239.0) == ()
    assert pool.failures == 2
    assert pool.collect([2], 240.0) == (2,)


@given(
    spares=st.integers(0, 4),
    repair_s=st.floats(0, 50),
    gaps_s=st.lists(st.tuples(st.floats(0, 30), st.integers(0, 3)), max_size=30),
)
def test_no_more_places_are_filled_than_there_is_hardware(
    spares: int, repair_s: float, gaps_s: list[tuple[float, int]]
) -> None:
    shop, now_s, down, brought = SparePool(spares, repair_s), 0.0, 0, []
    filled = 0
    for gap_s, failing in gaps_s:
        now_s += gap_s
        shop.bring(failing, now_s)
        brought += [now_s] * failing
        down += failing
        returning = shop.collect(list(range(down)), now_s)
        filled += len(returning)
        down -= len(returning)
        ready = spares + sum(time_s + repair_s <= now_s for time_s in brought)
        assert filled == min(ready, filled + down)
