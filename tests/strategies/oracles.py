"""RECTLR's questions answered by other means, slowly: networkx and brute force."""

from __future__ import annotations

from itertools import product

import networkx as nx
from faultline.strategies.stacks import StackedShards


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


def fewest_moves_by_brute_force(stacks: dict[int, list[int]], types: int, slots: int) -> int | None:
    """The same by trying every assignment of types to places; only for a handful of types."""
    best: int | None = None

    def place(shard_type: int, taken: frozenset[tuple[int, int]], cost: int) -> None:
        nonlocal best
        if best is not None and cost >= best:
            return
        if shard_type == types:
            best = cost
            return
        for group, stack in stacks.items():
            if shard_type in stack:
                for slot in range(slots):
                    if (group, slot) not in taken:
                        moved = stack[slot] != shard_type
                        place(shard_type + 1, taken | {(group, slot)}, cost + moved)

    place(0, frozenset(), 0)
    return best
