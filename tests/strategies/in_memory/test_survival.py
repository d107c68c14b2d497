"""Survival of lost nodes and domains, against every way to lose them and earlier formulas."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from math import exp

import pytest
from faultline.strategies.errors import StrategyError
from faultline.strategies.in_memory import reliability
from faultline.strategies.in_memory.node_groups import NodeGroups, Placement
from faultline.strategies.in_memory.survival import (
    loss_given_domains,
    loss_given_nodes,
    loss_in_window,
    loss_probability,
)
from faultline.strategies.in_memory.wasted_time import expected_wasted_time_s, wasted_time_s
from hypothesis import given, settings
from hypothesis import strategies as st

PLACEMENTS: tuple[Placement, ...] = ("across-domains", "neighbours")


@st.composite
def placed_groups(draw: st.DrawFn) -> NodeGroups:
    positions = draw(st.integers(1, 3))
    rows = draw(st.integers(1, 12 // positions))
    return NodeGroups(
        rows * positions,
        draw(st.integers(1, min(rows, 5))),
        draw(st.integers(0, 3)),
        draw(st.sampled_from(PLACEMENTS)),
        positions,
    )


def domains_of(nodes: int, domain_nodes: int) -> list[range]:
    return [
        range(first, min(first + domain_nodes, nodes)) for first in range(0, nodes, domain_nodes)
    ]


@given(groups=placed_groups(), data=st.data())
@settings(max_examples=40)
def test_lost_nodes_against_every_set_of_them(groups: NodeGroups, data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, groups.nodes))
    sets = list(combinations(range(groups.nodes), lost))
    gone = sum(not groups.survives(one) for one in sets)
    assert loss_given_nodes(groups, lost) == gone / len(sets)


@given(groups=placed_groups(), domain_nodes=st.integers(1, 6), data=st.data())
@settings(max_examples=60)
def test_lost_domains_against_every_set_of_them(
    groups: NodeGroups, domain_nodes: int, data: st.DataObject
) -> None:
    domains = domains_of(groups.nodes, domain_nodes)
    lost = data.draw(st.integers(0, len(domains)))
    sets = list(combinations(domains, lost))
    gone = sum(not groups.survives(node for domain in one for node in domain) for one in sets)
    assert loss_given_domains(groups, domain_nodes, lost) == gone / len(sets)


def every_outcome(
    groups: NodeGroups, domain_nodes: int, node_failed: float, domain_failed: float
) -> Iterator[tuple[set[int], float]]:
    """Yield every set of failed nodes and domains, as lost nodes, with its probability."""
    domains = domains_of(groups.nodes, domain_nodes)
    for nodes in product((False, True), repeat=groups.nodes):
        for wholes in product((False, True), repeat=len(domains)):
            lost = {node for node, failed in enumerate(nodes) if failed}
            lost |= {
                node
                for domain, failed in zip(domains, wholes, strict=True)
                if failed
                for node in domain
            }
            chance = 1.0
            for failed in nodes:
                chance *= node_failed if failed else 1.0 - node_failed
            for failed in wholes:
                chance *= domain_failed if failed else 1.0 - domain_failed
            yield lost, chance


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(
    ("nodes", "size", "tolerated", "domain_nodes"),
    [(8, 2, 1, 2), (8, 4, 1, 2), (7, 3, 2, 2), (8, 4, 2, 3), (6, 1, 0, 3)],
)
def test_nodes_and_domains_together_against_every_outcome(
    placement: Placement, nodes: int, size: int, tolerated: int, domain_nodes: int
) -> None:
    groups = NodeGroups(nodes, size, tolerated, placement)
    expected = sum(
        chance
        for lost, chance in every_outcome(groups, domain_nodes, 0.15, 0.1)
        if not groups.survives(lost)
    )
    found = loss_probability(groups, domain_nodes, 0.15, 0.1)
    assert found == pytest.approx(expected, abs=1e-12)
    assert 0.0 < found < 1.0


@pytest.mark.parametrize("lost", [1, 2, 3, 8, 40])
def test_gemini_is_groups_that_tolerate_all_but_one(lost: int) -> None:
    groups = NodeGroups(128, 4, 3, "across-domains")
    exact = reliability.gemini_recovery_probability(128, 4, lost)
    assert 1.0 - loss_given_nodes(groups, lost) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("tolerated", [0, 1, 2])
def test_without_domain_failures_it_is_reft_s_formula(placement: Placement, tolerated: int) -> None:
    groups = NodeGroups(1024, 16, tolerated, placement)
    expected = reliability.loss_probability(0.004, 1024, 16, tolerated)
    assert loss_probability(groups, 8, 0.004, 0.0) == pytest.approx(expected, abs=1e-11)


def test_one_lost_domain_by_placement() -> None:
    """Two hosts of each pair of neighbours are in one domain; across domains none are."""
    for size, tolerated in ((2, 1), (16, 1), (3, 2)):
        assert loss_given_domains(NodeGroups(2048, size, tolerated, "neighbours"), 8, 1) == 1.0
        assert loss_given_domains(NodeGroups(2048, size, tolerated, "across-domains"), 8, 1) == 0.0


def test_two_lost_domains_across_domains() -> None:
    """Groups of 16 over 256 domains: a domain shares groups with 15 of the other 255."""
    groups = NodeGroups(2048, 16, 1, "across-domains")
    assert loss_given_domains(groups, 8, 2) == 15 / 255


def test_a_window_is_a_poisson_process_of_each_sort() -> None:
    """Unprotected memory survives if nothing fails: exp(-(nodes a + domains b) t)."""
    groups = NodeGroups(64, 1, 0, "neighbours")
    loss = loss_in_window(groups, 8, 1e-6, 3e-6, 3600.0)
    assert loss == pytest.approx(1.0 - exp(-(64 * 1e-6 + 8 * 3e-6) * 3600.0), abs=1e-12)


@given(
    groups=placed_groups(),
    domain_nodes=st.integers(1, 6),
    failed=st.floats(0, 1),
    more=st.floats(0, 1),
    domain_failed=st.floats(0, 1),
)
@settings(max_examples=40)
def test_more_failures_never_lose_less(
    groups: NodeGroups, domain_nodes: int, failed: float, more: float, domain_failed: float
) -> None:
    low, high = sorted((failed, more))
    less = loss_probability(groups, domain_nodes, low, domain_failed)
    assert 0.0 <= less <= loss_probability(groups, domain_nodes, high, domain_failed) + 1e-12
    assert less <= loss_probability(groups, domain_nodes, low, 1.0) + 1e-12


def test_more_than_there_are_cannot_be_lost() -> None:
    groups = NodeGroups(16, 2, 1, "neighbours")
    with pytest.raises(StrategyError, match="17 of 16 nodes; use 0 to 16"):
        loss_given_nodes(groups, 17)
    with pytest.raises(StrategyError, match="3 of 2 domains"):
        loss_given_domains(groups, 8, 3)
    with pytest.raises(StrategyError, match="domain_nodes"):
        loss_given_domains(NodeGroups(16, 2, 1, "neighbours"), 0, 0)


def test_wasted_time() -> None:
    """A checkpoint every 60 s that takes 60 s, brought back in 2 s: 60 + 30 + 2 s."""
    assert wasted_time_s(60.0, 60.0, 2.0) == 92.0
    assert expected_wasted_time_s(0.75, 92.0, 1000.0) == 0.75 * 92.0 + 250.0
    with pytest.raises(StrategyError, match="use at least 60 s"):
        wasted_time_s(60.0, 30.0, 2.0)
