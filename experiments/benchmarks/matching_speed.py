"""The matching alone: groups fail in random order until a shard type has lost all its hosts."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from itertools import product
from random import Random
from statistics import fmean
from time import perf_counter
from typing import Any, NamedTuple

from faultline.experiments.benchmarks.measurement import Answer, Case, Measurement, measured
from faultline.strategies.stacks import StackedShards

SECTION = "matching, a failure"
_SIZES = ((200, 9), (600, 8), (1000, 9))
_ORDERS = 20
_SAMPLES = 5

Stacks = dict[int, list[int]]
"""The shard types of each survivor, by group."""


class Decision(NamedTuple):
    """One reordering that was decided: from which stacks, with which result, in which time."""

    stacks: Stacks
    smallest: int
    result: int
    seconds: float


def matching_cases(quick: bool) -> list[Case]:
    """Return a case for each size; if quick, for the smallest."""
    sizes = _SIZES[:1] if quick else _SIZES
    return [Case(SECTION, _title(*size), partial(_measure, *size)) for size in sizes]


def _title(groups: int, redundancy: int) -> str:
    return f"SPARe r = {redundancy}, N = {groups:,}"


def _measure(groups: int, redundancy: int) -> list[Measurement]:
    answer = measured(time_matching, groups, redundancy, _ORDERS, _SAMPLES)
    return [
        Measurement(
            SECTION,
            _title(groups, redundancy),
            answer["microseconds"],
            "us",
            ratio=answer["networkx_ratio"],
            ratio_to="networkx, from scratch",
        )
    ]


def time_matching(groups: int, redundancy: int, orders: int, samples: int) -> Answer:
    """Time `StackedShards.fail`, and networkx on some of the same decisions.

    Returns
    -------
    dict
        ``microseconds`` a failure over all orders, wipe-outs included; ``failures``; and
        ``networkx_ratio``, over `samples` reorderings of the first order.

    Raises
    ------
    RuntimeError
        If networkx decides otherwise.
    """
    shards = StackedShards(groups, redundancy)
    total_s, failures = 0.0, 0
    for seed in range(orders):
        seconds = _fail_until_wipe_out(shards, _order(groups, seed))
        total_s += sum(seconds)
        failures += len(seconds)
    decisions = _reorderings(shards, _order(groups, 0))
    chosen = decisions[:: max(1, len(decisions) // samples)][:samples]
    networkx_s = fmean(_time_networkx(decision, groups, redundancy) for decision in chosen)
    return {
        "microseconds": total_s / failures * 1e6,
        "failures": failures,
        "networkx_ratio": networkx_s / fmean(decision.seconds for decision in chosen),
    }


def _order(groups: int, seed: int) -> list[int]:
    order = list(range(groups))
    Random(seed).shuffle(order)
    return order


def _fail_until_wipe_out(shards: StackedShards, order: list[int]) -> list[float]:
    """Return the seconds of each decision, the wipe-out included."""
    shards.reset()
    seconds = []
    for group in order:
        started = perf_counter()
        reordering = shards.fail((group,))
        seconds.append(perf_counter() - started)
        if reordering is None:
            break
    return seconds


def _reorderings(shards: StackedShards, order: list[int]) -> list[Decision]:
    """Return the decisions that took more than a look whether all types stand where they stood."""
    shards.reset()
    decisions = []
    for group in order:
        smallest = shards.stacks
        started = perf_counter()
        reordering = shards.fail((group,))
        seconds = perf_counter() - started
        if reordering is None:
            break
        if not reordering.fixed:
            survivors = (other for other in range(shards.groups) if shards.alive(other))
            stacks = {other: shards.stack(other) for other in survivors}
            decisions.append(Decision(stacks, smallest, reordering.stacks, seconds))
    return decisions


def _time_networkx(decision: Decision, types: int, redundancy: int) -> float:
    """Time the search for the smallest stack at which a matching covers all types."""
    import_module("networkx")  # beforehand: this is not what is timed
    started = perf_counter()
    sizes = range(decision.smallest, redundancy + 1)
    result = next((size for size in sizes if _feasible(decision.stacks, types, size)), None)
    seconds = perf_counter() - started
    if result != decision.result:
        raise RuntimeError(f"networkx finds a stack of {result}, not of {decision.result}")
    return seconds


def _feasible(stacks: Stacks, types: int, size: int) -> bool:
    import networkx as nx

    graph: Any = nx.Graph()
    sources = [("type", shard_type) for shard_type in range(types)]
    graph.add_nodes_from(sources)
    for group, stack in stacks.items():
        for shard_type, slot in product(stack, range(size)):
            graph.add_edge(("type", shard_type), ("place", group, slot))
    matching = nx.bipartite.hopcroft_karp_matching(graph, top_nodes=sources)
    return all(source in matching for source in sources)
