"""The probability that groups of nodes survive lost nodes and scale-up domains, by exact counting.

Scale-up domains are runs of nodes: domain i has nodes ``i*D`` to ``(i+1)*D - 1``; the last one may
have fewer. Counts are whole numbers. A polynomial is represented by its value at a power of 2 that
exceeds all coefficients, so that products of polynomials are products of whole numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from math import comb, expm1
from typing import TypeVar

from faultline.strategies.protection.node_groups import NodeGroups

Weight = TypeVar("Weight", int, float)

Footprint = tuple[tuple[int, int], ...]
"""The domains of a group's nodes, each with the number of these nodes."""


def loss_given_nodes(groups: NodeGroups, lost: int) -> float:
    """Return the probability that some group is lost after `lost` nodes, all sets equally likely.

    The number of sets of k nodes that all groups survive is the coefficient of x^k in the product
    over groups of ``sum over j <= t of C(n, j) x^j``; there are C(N, k) sets in total. The
    placement has no effect, except for left-over nodes.
    """
    sets = comb(groups.nodes, lost)
    # Up to x^k no coefficient exceeds the number of sets of that size, or of half of all nodes.
    bits = comb(groups.nodes, min(lost, groups.nodes // 2)).bit_length() + 1
    mask = (1 << bits * (lost + 1)) - 1
    sizes = Counter(len(groups.nodes_of(group)) for group in range(groups.groups))
    product = 1
    for size, count in sizes.items():
        most = min(groups.tolerated, size)
        one_group = sum(comb(size, j) << bits * j for j in range(most + 1))
        product = product * pow(one_group, count, mask + 1) & mask
    return (sets - (product >> bits * lost)) / sets


def loss_given_domains(groups: NodeGroups, domain_nodes: int, lost: int) -> float:
    """Return the probability that some group is lost after `lost` domains of D nodes each.

    All sets of domains are equally likely; a domain is lost with all its nodes.
    """
    domains = -(-groups.nodes // domain_nodes)
    bits = domains + 1
    survived = _sum_over_failed_domains(
        groups, domain_nodes, held=1, failed=1 << bits, survives=lambda _size, _losses: 1
    )
    sets = comb(domains, lost)
    return (sets - (survived >> bits * lost & (1 << bits) - 1)) / sets


def loss_probability(
    groups: NodeGroups, domain_nodes: int, node_failed: float, domain_failed: float
) -> float:
    """Return the probability that some group is lost if nodes and domains fail independently.

    `node_failed` is the probability that a single node fails, `domain_failed` that a domain fails
    with all its nodes. The error is about 1e-13, because the result is 1 minus the probability of
    survival.
    """

    @cache
    def survives(size: int, losses: int) -> float:
        left = size - losses
        return sum(
            comb(left, j) * node_failed**j * (1.0 - node_failed) ** (left - j)
            for j in range(min(groups.tolerated - losses, left) + 1)
        )

    survived = _sum_over_failed_domains(
        groups, domain_nodes, held=1.0 - domain_failed, failed=domain_failed, survives=survives
    )
    return min(1.0, max(0.0, 1.0 - survived))


def loss_in_window(
    groups: NodeGroups,
    domain_nodes: int,
    node_rate_per_s: float,
    domain_rate_per_s: float,
    window_s: float,
) -> float:
    """Return the probability that some group is lost within a time without rebuilding.

    Single nodes, and domains with all their nodes, fail by independent Poisson processes: each has
    failed with probability ``1 - exp(-rate * window)``. Rates are per node and per domain, in 1/s;
    `window_s` is the time since all state was protected, in seconds.
    """
    return loss_probability(
        groups,
        domain_nodes,
        -expm1(-node_rate_per_s * window_s),
        -expm1(-domain_rate_per_s * window_s),
    )


def _sum_over_failed_domains(
    groups: NodeGroups,
    domain_nodes: int,
    *,
    held: Weight,
    failed: Weight,
    survives: Callable[[int, int], Weight],
) -> Weight:
    """Sum the product of all weights over all sets of failed domains that lose no group.

    A domain has the weight `held` or `failed`. A group of `size` nodes that loses `losses` of them
    with its domains has the weight ``survives(size, losses)``. Groups are visited in order. A
    domain joins the state with its first group and is summed out after its last one, so that a
    state is a small set of failed domains, few of which share a group.
    """
    footprints = _footprints(groups, domain_nodes)
    last = {domain: place for place, footprint in enumerate(footprints) for domain, _ in footprint}
    visited: set[int] = set()
    states: dict[int, Weight] = {0: held**0}
    for place, (footprint, count) in enumerate(footprints.items()):
        states = _surviving(states, footprint, groups.tolerated)
        for domain, _ in footprint:
            if domain not in visited:
                visited.add(domain)
                states = {state: weight * held for state, weight in states.items()} | {
                    state | 1 << domain: weight * failed for state, weight in states.items()
                }
                # Pruned here, because a group of many domains would create states for all sets.
                states = _surviving(states, footprint, groups.tolerated)
        size = sum(nodes for _, nodes in footprint)
        done = sum(1 << domain for domain, _ in footprint if last[domain] == place)
        summed: dict[int, Weight] = {}
        for state, weight in states.items():
            survived = weight * survives(size, _losses(footprint, state)) ** count
            rest = state & ~done
            summed[rest] = summed[rest] + survived if rest in summed else survived
        states = summed
    return states.get(0, held - held)


def _surviving(
    states: dict[int, Weight], footprint: Footprint, tolerated: int
) -> dict[int, Weight]:
    return {
        state: weight for state, weight in states.items() if _losses(footprint, state) <= tolerated
    }


@lru_cache(maxsize=16)
def _footprints(groups: NodeGroups, domain_nodes: int) -> Mapping[Footprint, int]:
    """Return the domains of each group with the number of groups that share them, in order."""
    return Counter(
        tuple(Counter(node // domain_nodes for node in groups.nodes_of(group)).items())
        for group in range(groups.groups)
    )


def _losses(footprint: Footprint, failed_domains: int) -> int:
    return sum(nodes for domain, nodes in footprint if failed_domains >> domain & 1)
