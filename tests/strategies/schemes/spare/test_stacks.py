"""The incremental matching of RECTLR against networkx, brute force and its own invariants."""

from __future__ import annotations

from itertools import product

import networkx as nx
import numpy as np
import pytest
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.schemes.spare.golomb import largest_redundancy, optimal_rulers, ruler_for
from faultline.strategies.schemes.spare.stacks import StackedShards
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples


def stacks_of_survivors(shards: StackedShards) -> dict[int, list[int]]:
    """The stacks of the groups that are alive, by group."""
    return {u: shards.stack(u) for u in range(shards.groups) if shards.alive(u)}


def feasible(stacks: dict[int, list[int]], types: int, slots: int) -> bool:
    """Whether all types fit on hosts with `slots` places each, by Hopcroft and Karp."""
    graph: nx.Graph = nx.Graph()
    sources = [("type", i) for i in range(types)]
    graph.add_nodes_from(sources)
    for group, stack in stacks.items():
        for shard_type, slot in product(stack, range(slots)):
            graph.add_edge(("type", shard_type), ("place", group, slot))
    matching = nx.bipartite.hopcroft_karp_matching(graph, top_nodes=sources)
    return sum(node[0] == "type" for node in matching) == types


def smallest_stack(stacks: dict[int, list[int]], types: int, start: int, most: int) -> int | None:
    """The smallest feasible S from `start` to `most`; None for a wipe-out."""
    return next((s for s in range(start, most + 1) if feasible(stacks, types, s)), None)


def covered(stacks: dict[int, list[int]], types: int, slots: int) -> bool:
    """Whether the first `slots` of the survivors hold all types as they stand."""
    return {i for stack in stacks.values() for i in stack[:slots]} == set(range(types))


def fewest_moves(stacks: dict[int, list[int]], types: int, slots: int) -> int:
    """Fewest types that have to leave their (group, slot), by min-cost flow over explicit slots."""
    graph: nx.DiGraph = nx.DiGraph()
    for i in range(types):
        graph.add_edge("source", ("type", i), capacity=1, weight=0)
    for group, stack in stacks.items():
        for slot in range(slots):
            graph.add_edge(("place", group, slot), "sink", capacity=1, weight=0)
            for i in stack:
                cost = 0 if stack[slot] == i else 1
                graph.add_edge(("type", i), ("place", group, slot), capacity=1, weight=cost)
    graph.add_node("source", demand=-types)
    graph.add_node("sink", demand=types)
    return int(nx.min_cost_flow_cost(graph))


def fail_and_compare(shards: StackedShards, failed: list[int]) -> bool:
    """Fail groups, compare RECTLR's result with the oracles; False after a wipe-out."""
    types, before = shards.groups, shards.stacks
    stacks = {u: s for u, s in stacks_of_survivors(shards).items() if u not in failed}
    reordering = shards.fail(failed)
    expected = smallest_stack(stacks, types, before, shards.redundancy)
    if expected is None:
        assert reordering is None
        return False
    assert reordering is not None
    assert reordering.stacks == expected == shards.stacks
    assert reordering.grew_by == expected - before
    if covered(stacks, types, before):
        assert reordering.fixed
    assert reordering.moved_types == fewest_moves(stacks, types, expected)
    assert_consistent(shards, stacks, reordering.moved_types)
    return True


def assert_consistent(shards: StackedShards, before: dict[int, list[int]], moved: int) -> None:
    after = stacks_of_survivors(shards)
    for group, stack in after.items():
        assert sorted(stack) == sorted(before[group])
    served = shards.assignment()
    in_place = 0
    for shard_type, group in enumerate(served):
        slot = after[group].index(shard_type)
        assert slot < shards.stacks
        in_place += before[group][slot] == shard_type
    assert shards.groups - in_place <= moved


@pytest.mark.parametrize(("groups", "redundancy"), [(7, 3), (13, 4), (24, 3), (24, 5), (40, 6)])
@pytest.mark.parametrize("seed", range(4))
def test_one_failure_after_another_until_wipe_out(groups: int, redundancy: int, seed: int) -> None:
    shards = StackedShards(groups, redundancy)
    order = np.random.default_rng(seed).permutation(groups)
    survived = 0
    for group in order.tolist():
        if not fail_and_compare(shards, [group]):
            break
        survived += 1
    assert redundancy - 1 <= survived < groups


@examples(0.6)
@given(data=st.data())
def test_any_batches_of_failures(data: st.DataObject) -> None:
    groups = data.draw(st.integers(4, 30))
    redundancy = data.draw(st.integers(1, min(5, largest_redundancy(groups))))
    shards = StackedShards(groups, redundancy)
    order = data.draw(st.permutations(range(groups)))
    while order:
        size = data.draw(st.integers(1, 5))
        batch, order = sorted(order[:size]), order[size:]
        if not fail_and_compare(shards, batch):
            break


def test_large_layout_stays_as_good_as_hopcroft_karp() -> None:
    shards = StackedShards(200, 9)
    order = np.random.default_rng(11).permutation(200).tolist()
    for count, group in enumerate(order):
        if shards.fail([group]) is None:
            assert not feasible(stacks_of_survivors(shards), 200, 9)
            break
        if count % 12 == 0 and shards.stacks > 1:
            stacks = stacks_of_survivors(shards)
            assert feasible(stacks, 200, shards.stacks)
            assert shards.stacks >= -(-200 // len(stacks))
    assert count > 50


def test_reset_restores_the_first_layout() -> None:
    shards = StackedShards(24, 4)
    first = [shards.stack(u) for u in range(24)]
    shards.fail([3, 4, 5])
    shards.reset()
    assert [shards.stack(u) for u in range(24)] == first
    assert shards.stacks == 1
    assert shards.survivors == 24


@pytest.mark.parametrize("order", sorted(optimal_rulers()))
def test_rulers_have_distinct_differences_also_modulo_n(order: int) -> None:
    marks = optimal_rulers()[order]
    groups = max(order, 2 * marks[-1] + 1)
    assert ruler_for(groups, order) == marks
    differences = [(a - b) % groups for a in marks for b in marks if a != b]
    assert len(differences) == len(set(differences))


@pytest.mark.parametrize("order", range(2, 29))
def test_a_ruler_that_is_half_the_circle_is_refused(order: int) -> None:
    """With N = 2 max(mark), types at a distance of max(mark) share two hosts."""
    longest = optimal_rulers()[order][-1]
    with pytest.raises(StrategyError, match=f"needs more than {2 * longest} groups"):
        ruler_for(2 * longest, order)
    assert largest_redundancy(2 * longest) < order <= largest_redundancy(2 * longest + 1)


def test_two_types_share_at_most_one_group() -> None:
    shards = StackedShards(60, 6)
    hosts = [{u for u in range(60) if i in shards.stack(u)} for i in range(60)]
    assert all(len(h) == 6 for h in hosts)
    assert all(len(hosts[i] & hosts[j]) <= 1 for i in range(60) for j in range(i))


@pytest.mark.parametrize(("groups", "redundancy"), [(33, 6), (200, 29), (10, 0), (4, 4)])
def test_layout_without_a_ruler_is_refused(groups: int, redundancy: int) -> None:
    with pytest.raises(StrategyError, match=r"strategy\.redundancy"):
        StackedShards(groups, redundancy)
