"""Survival of lost nodes and domains, against every way to lose them and earlier formulas."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from math import exp

import numpy as np
import pytest
from faultline.experiments.studies.gemini.closed_forms import (
    expected_wasted_time_s,
    gemini_recovery_bound,
    wasted_time_s,
)
from faultline.experiments.studies.gemini.survival import (
    loss_given_domains,
    loss_given_nodes,
    loss_in_window,
    loss_probability,
)
from faultline.experiments.studies.reft.failures import time_to_loss, weibull_failed_by
from faultline.strategies.protection import node_groups
from faultline.strategies.protection.node_groups import NodeGroups, Placement
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples

PLACEMENTS: tuple[Placement, ...] = ("across-domains", "neighbours")


@st.composite
def placed_groups(draw: st.DrawFn, most_nodes: int = 80) -> NodeGroups:
    positions = draw(st.integers(1, 4))
    rows = draw(st.integers(1, most_nodes // positions))
    return NodeGroups(
        rows * positions,
        draw(st.integers(1, rows)),
        draw(st.integers(0, 5)),
        draw(st.sampled_from(PLACEMENTS)),
        positions,
    )


@given(groups=placed_groups())
def test_every_node_is_in_the_one_group_that_names_it(groups: NodeGroups) -> None:
    """A group is no smaller than requested, and its nodes hold the same part."""
    members = [groups.nodes_of(group) for group in range(groups.groups)]
    named = {node: group for group, nodes in enumerate(members) for node in nodes}
    assert named == {node: groups.group_of(node) for node in range(groups.nodes)}
    assert sum(map(len, members)) == groups.nodes
    assert min(map(len, members)) >= groups.size
    assert all(len({node % groups.positions for node in nodes}) == 1 for nodes in members)


@given(groups=placed_groups(), data=st.data())
def test_survival_is_that_no_group_loses_more_than_it_tolerates(
    groups: NodeGroups, data: st.DataObject
) -> None:
    lost = data.draw(st.lists(st.integers(0, groups.nodes - 1)))
    losses = [len(set(groups.nodes_of(group)) & set(lost)) for group in range(groups.groups)]
    assert groups.survives(lost) == all(count <= groups.tolerated for count in losses)


def test_neighbours_are_side_by_side_and_the_last_group_takes_what_is_left() -> None:
    groups = NodeGroups(11, 3, 1, "neighbours")
    assert [list(groups.nodes_of(k)) for k in range(3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9, 10]]


def test_across_domains_is_far_apart_and_the_first_groups_take_what_is_left() -> None:
    groups = NodeGroups(11, 3, 1, "across-domains")
    assert [list(groups.nodes_of(k)) for k in range(3)] == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8]]


def test_rows_of_two_nodes_that_hold_different_parts() -> None:
    """Four replicas of two nodes each, in pairs: even nodes with even ones, odd with odd ones."""
    near, far = (NodeGroups(8, 2, 1, placement, 2) for placement in reversed(PLACEMENTS))
    assert [list(near.nodes_of(k)) for k in range(4)] == [[0, 2], [4, 6], [1, 3], [5, 7]]
    assert [list(far.nodes_of(k)) for k in range(4)] == [[0, 4], [2, 6], [1, 5], [3, 7]]


def test_a_domain_takes_one_node_of_a_group_or_a_whole_group() -> None:
    """Domains of 4 nodes: the nodes of one are in four groups, or are one group."""
    assert NodeGroups(16, 4, 1, "across-domains").survives(range(4))
    assert not NodeGroups(16, 4, 1, "neighbours").survives(range(4))


def domains_of(nodes: int, domain_nodes: int) -> list[range]:
    return [
        range(first, min(first + domain_nodes, nodes)) for first in range(0, nodes, domain_nodes)
    ]


@given(groups=placed_groups(12), data=st.data())
@examples(0.4)
def test_lost_nodes_against_every_set_of_them(groups: NodeGroups, data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, groups.nodes))
    sets = list(combinations(range(groups.nodes), lost))
    gone = sum(not groups.survives(one) for one in sets)
    assert loss_given_nodes(groups, lost) == gone / len(sets)


@given(groups=placed_groups(12), domain_nodes=st.integers(1, 6), data=st.data())
@examples(0.6)
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


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("tolerated", [0, 1, 2])
def test_without_domain_failures_it_is_reft_s_formula(placement: Placement, tolerated: int) -> None:
    groups = NodeGroups(1024, 16, tolerated, placement)
    expected = node_groups.loss_probability(0.004, 1024, 16, tolerated)
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


def test_wasted_time() -> None:
    """A checkpoint every 60 s that takes 60 s, brought back in 2 s: 60 + 30 + 2 s."""
    assert wasted_time_s(60.0, 60.0, 2.0) == 92.0
    assert expected_wasted_time_s(0.75, 92.0, 1000.0) == 0.75 * 92.0 + 250.0


@pytest.mark.parametrize(("tolerated", "expected"), [(0, 2.34), (1, 7.79), (2, 12.37)])
def test_times_to_a_tenth_of_failure_probability(tolerated: int, expected: float) -> None:
    """Wang et al. 2023 (REFT): F(t) = 1 - exp(-(t/50)^3), 1,024 nodes in groups of 16."""
    failed_by = weibull_failed_by(50.0, 3.0)
    assert time_to_loss(0.1, failed_by, 1024, 16, tolerated, 100.0) == pytest.approx(
        expected, rel=0.01
    )


@pytest.mark.parametrize("tolerated", [0, 1, 2, 3])
def test_loss_probability_against_monte_carlo(tolerated: int) -> None:
    rng = np.random.default_rng(11)
    trials, failed = 20_000, 0.12
    lost = (rng.random((trials, 6, 8)) < failed).sum(axis=2)
    observed = (lost > tolerated).any(axis=1).mean()
    expected = node_groups.loss_probability(failed, 48, 8, tolerated)
    assert observed == pytest.approx(expected, abs=4 * (expected * (1 - expected) / trials) ** 0.5)


@pytest.mark.parametrize(("lost", "expected"), [(1, 1.0), (2, 14 / 15), (3, 0.8)])
def test_gemini_s_printed_probabilities(lost: int, expected: float) -> None:
    """93.3 % and 80 % for 16 machines in pairs (Wang et al. 2023 (GEMINI))."""
    assert gemini_recovery_bound(16, 2, lost) == pytest.approx(expected)
