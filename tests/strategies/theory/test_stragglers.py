"""Dealing micro-batches and taking remedies, against all ways there are."""

from __future__ import annotations

from itertools import product
from math import inf

import pytest
from faultline.strategies.theory.stragglers import (
    Remedy,
    StragglerPolicy,
    balanced_shares,
    gather_stragglers,
    next_remedy,
)
from hypothesis import given
from hypothesis import strategies as st

PACES = st.lists(st.sampled_from([1.0, 1.1, 1.3, 1.5, 1.7, 2.0, 3.0, 12.0]), min_size=1, max_size=4)


@given(PACES, st.integers(1, 9))
def test_no_deal_of_all_is_better(paces: list[float], micro_batches: int) -> None:
    def last(deal: tuple[int, ...]) -> float:
        return max(share * pace for share, pace in zip(deal, paces, strict=True))

    every = product(range(micro_batches + 1), repeat=len(paces))
    found = balanced_shares(paces, micro_batches)
    assert sum(found) == micro_batches
    assert last(found) == pytest.approx(
        min(last(one) for one in every if sum(one) == micro_batches)
    )


@pytest.mark.parametrize(
    ("replicas", "each", "left"),
    # One of D at 1.7: it takes x of 32, and the others what is left, in whole micro-batches.
    [(2, 16, 1.7 * 12 / 16), (4, 8, 9 / 8), (8, 4, 5 / 4)],
)
def test_greyhounds_case(replicas: int, each: int, left: float) -> None:
    paces = [1.7] + [1.0] * (replicas - 1)
    deal = balanced_shares(paces, replicas * each)
    assert max(s * pace for s, pace in zip(deal, paces, strict=True)) / each == pytest.approx(left)


def test_a_large_job_is_dealt_at_once() -> None:
    paces = [1.0 + (number % 7) / 10 for number in range(100_000)]
    assert sum(balanced_shares(paces, 800_000)) == 800_000


def test_slow_nodes_come_together() -> None:
    """Four nodes in three groups, of two nodes each: the slowest ones' groups have room."""
    assert gather_stragglers([5, 2, 5, 7], 2) == [5, 5, 2, 2]
    assert gather_stragglers([5, 2], 1) == [5, 2]


@given(
    st.lists(st.floats(0.1, 1000), min_size=1, max_size=3),
    st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4),
    st.floats(0.0, 5000.0),
)
def test_ski_rental_is_at_most_twice_the_best_in_hindsight(
    prices: list[float], rates: list[float], length_s: float
) -> None:
    """Simulated event by event: slow for an unknown time, each remedy losing less.

    Of several remedies, the prices of those before the last come on top.
    """
    prices, rates = sorted(prices), sorted(rates, reverse=True)
    names = ("redeal", "swap", "restart")
    remedies = tuple(Remedy(*each) for each in zip(names, prices, strict=False))
    policy, rank = StragglerPolicy(remedies, 0.0), {one: n + 1 for n, one in enumerate(remedies)}
    state, now_s, lost_s, paid = 0, 0.0, 0.0, []
    while True:
        lost = dict.fromkeys(names, lost_s)
        taken = next_remedy(policy, lost, lambda one, now=state: rates[rank[one]] < rates[now])
        if taken:
            paid.append(taken.price_s)
            state = rank[taken]
            continue
        wanted = [one.price_s for one in remedies if one.price_s > lost_s]
        until_s = now_s + (min(wanted) - lost_s) / rates[state] if wanted and rates[state] else inf
        if until_s >= length_s:
            lost_s += (length_s - now_s) * rates[state]
            break
        now_s, lost_s = until_s, min(wanted)
    best = min(price + rate * length_s for price, rate in zip([0.0, *prices], rates, strict=False))
    assert lost_s + sum(paid) <= (2 * best + sum(paid[:-1])) * (1 + 1e-9)
    if len(prices) == 1:
        assert lost_s + sum(paid) <= 2 * best * (1 + 1e-9)
