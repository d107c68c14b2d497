"""Random sets of lost nodes, against closed forms within their intervals, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.studies.gemini.failure_sets import (
    LossSets,
    uniform_domain_sets,
    uniform_sets,
)
from faultline.experiments.studies.gemini.proportions import proportion_interval
from faultline.experiments.studies.gemini.time_to_loss import time_to_loss_by_monte_carlo
from faultline.strategies.in_memory.node_groups import NodeGroups, Placement
from faultline.strategies.in_memory.reliability import time_to_loss, weibull_failed_by
from faultline.strategies.in_memory.survival import (
    loss_given_domains,
    loss_given_nodes,
    loss_in_window,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

PLACEMENTS: tuple[Placement, ...] = ("across-domains", "neighbours")
STRAY = 4.0
"""Standard errors that a mean may stray: of a thousand such tests one in 16 would fail."""


def check(gone: np.ndarray, expected: float) -> None:
    error = (expected * (1.0 - expected) / gone.size) ** 0.5
    assert abs(gone.mean() - expected) <= STRAY * error + 1e-12


@given(
    pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 11)), max_size=30),
    size=st.integers(1, 4),
    tolerated=st.integers(0, 3),
    placement=st.sampled_from(PLACEMENTS),
)
def test_losses_are_those_of_the_groups(
    pairs: list[tuple[int, int]], size: int, tolerated: int, placement: Placement
) -> None:
    groups = NodeGroups(12, size, tolerated, placement)
    index = np.array([one for one, _ in pairs], dtype=np.int64)
    node = np.array([node for _, node in pairs], dtype=np.int64)
    found = LossSets.with_repeats(5, index, node).lost(groups)
    assert found.tolist() == [
        not groups.survives(node for other, node in pairs if other == one) for one in range(5)
    ]


def test_all_sets_of_a_size_are_equally_likely() -> None:
    drawn = uniform_sets(np.random.default_rng(5), 40_000, 6, 3)
    masks = np.zeros(40_000, dtype=np.int64)
    np.add.at(masks, drawn.set_index, 1 << drawn.node)
    sets, counts = np.unique(masks, return_counts=True)
    assert len(sets) == 20
    assert {bin(one).count("1") for one in sets.tolist()} == {3}
    assert chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize(("size", "tolerated", "lost"), [(2, 1, 16), (16, 1, 8), (4, 2, 60)])
def test_lost_nodes_against_the_closed_form(size: int, tolerated: int, lost: int) -> None:
    groups = NodeGroups(1024, size, tolerated, "across-domains")
    drawn = uniform_sets(np.random.default_rng(lost), 20_000, 1024, lost)
    check(drawn.lost(groups), loss_given_nodes(groups, lost))


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(
    ("nodes", "size", "tolerated"), [(1024, 16, 1), (1000, 3, 2), (100, 40, 9)]
)
def test_lost_domains_against_the_closed_form(
    placement: Placement, nodes: int, size: int, tolerated: int
) -> None:
    groups = NodeGroups(nodes, size, tolerated, placement)
    drawn = uniform_domain_sets(np.random.default_rng(nodes), 5_000, nodes, 8, 4)
    check(drawn.lost(groups), loss_given_domains(groups, 8, 4))


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(("size", "tolerated"), [(2, 1), (8, 1), (3, 2)])
def test_windows_against_the_closed_form(placement: Placement, size: int, tolerated: int) -> None:
    """Of 1,024 nodes 20 fail on average, and of their 128 domains one in two windows."""
    sets, groups = 5_000, NodeGroups(1024, size, tolerated, placement)
    rng = np.random.default_rng(7)
    single = np.repeat(np.arange(sets), rng.poisson(20.0, sets))
    whole = np.repeat(np.arange(sets), rng.poisson(0.5, sets))
    of_domains = rng.integers(128, size=whole.size)[:, np.newaxis] * 8 + np.arange(8)
    drawn = LossSets.with_repeats(
        sets,
        np.concatenate([single, np.repeat(whole, 8)]),
        np.concatenate([rng.integers(1024, size=single.size), of_domains.ravel()]),
    )
    check(drawn.lost(groups), loss_in_window(groups, 8, 20.0 / 1024, 0.5 / 128, 1.0))


def test_more_nodes_than_there_are_cannot_be_lost() -> None:
    with pytest.raises(UserError, match="5 lost of 4"):
        uniform_sets(np.random.default_rng(0), 1, 4, 5)


@given(trials=st.integers(1, 10_000), data=st.data())
def test_the_interval_of_a_share_is_wilson_s(trials: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, trials))
    expected = binomtest(hits, trials).proportion_ci(method="wilson")
    low, high = proportion_interval(hits, trials)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert 0.0 <= low <= hits / trials <= high <= 1.0 + 1e-15


@pytest.mark.parametrize(("tolerated", "expected"), [(0, 2.34), (1, 7.79), (2, 12.37)])
def test_time_to_a_tenth_of_loss_probability(tolerated: int, expected: float) -> None:
    """F(t) = 1 - exp(-(t/50)^3), 1,024 nodes in groups of 16 (Wang et al. 2023 (REFT))."""
    estimate, low, high = time_to_loss_by_monte_carlo(0.1, 50.0, 3.0, 1024, 16, tolerated, 4000, 3)
    exact = time_to_loss(0.1, weibull_failed_by(50.0, 3.0), 1024, 16, tolerated, 100.0)
    assert exact == pytest.approx(expected, abs=0.02)
    half = (high - low) / 2
    assert low - half < exact < high + half
    assert low < estimate < high
    assert high - low < 0.1 * exact


def test_the_interval_of_a_time_holds_it_as_often_as_it_says() -> None:
    exact = time_to_loss(0.3, weibull_failed_by(50.0, 3.0), 32, 4, 1, 100.0)
    held = 0
    for seed in range(200):
        _, low, high = time_to_loss_by_monte_carlo(0.3, 50.0, 3.0, 32, 4, 1, 200, seed)
        held += low <= exact <= high
    assert 180 <= held <= 200


@pytest.mark.parametrize(
    ("nodes", "tolerated", "trials", "message"),
    [(30, 1, 100, "divisor"), (32, 4, 100, "fewer losses"), (32, 1, 10, "too few")],
)
def test_lifetimes_that_cannot_be_drawn_are_refused(
    nodes: int, tolerated: int, trials: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        time_to_loss_by_monte_carlo(0.1, 50.0, 3.0, nodes, 4, tolerated, trials, 0)
