"""Which nodes share a group: every node has one, far apart or side by side."""

from __future__ import annotations

import pytest
from faultline.strategies.errors import StrategyError
from faultline.strategies.in_memory.node_groups import NodeGroups, Placement
from hypothesis import given
from hypothesis import strategies as st

PLACEMENTS: tuple[Placement, ...] = ("across-domains", "neighbours")


@st.composite
def placed_groups(draw: st.DrawFn) -> NodeGroups:
    rows, positions = draw(st.integers(1, 20)), draw(st.integers(1, 4))
    return NodeGroups(
        rows * positions,
        draw(st.integers(1, rows)),
        draw(st.integers(0, 5)),
        draw(st.sampled_from(PLACEMENTS)),
        positions,
    )


@given(groups=placed_groups())
def test_every_node_is_in_the_one_group_that_names_it(groups: NodeGroups) -> None:
    named = {node: group for group in range(groups.groups) for node in groups.nodes_of(group)}
    assert named == {node: groups.group_of(node) for node in range(groups.nodes)}
    assert sum(len(groups.nodes_of(group)) for group in range(groups.groups)) == groups.nodes


@given(groups=placed_groups())
def test_no_group_is_smaller_than_asked_for(groups: NodeGroups) -> None:
    assert min(len(groups.nodes_of(group)) for group in range(groups.groups)) >= groups.size


@given(groups=placed_groups())
def test_a_group_has_nodes_that_hold_the_same_part(groups: NodeGroups) -> None:
    for group in range(groups.groups):
        assert len({node % groups.positions for node in groups.nodes_of(group)}) == 1


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


def test_a_node_named_twice_is_lost_once() -> None:
    assert NodeGroups(4, 2, 1, "neighbours").survives([1, 1])


@pytest.mark.parametrize(
    ("size", "tolerated", "positions", "key"),
    [
        (0, 1, 1, "size"),
        (7, 1, 1, "size"),
        (4, 1, 2, "size"),
        (2, -1, 1, "tolerated"),
        (2, 1, 4, "positions"),
        (2, 1, 0, "positions"),
        (1, 1, 12, "positions"),
    ],
)
def test_groups_that_cannot_be_are_refused(
    size: int, tolerated: int, positions: int, key: str
) -> None:
    with pytest.raises(StrategyError) as error:
        NodeGroups(6, size, tolerated, "neighbours", positions)
    assert error.value.where == key
