"""How likely groups of nodes survive lost nodes and lost scale-up domains, by exact counting.

Scale-up domains are runs of nodes: domain i has nodes ``i*D`` to ``(i+1)*D - 1``, the last one
maybe fewer. Counts are whole numbers. A polynomial is held as its value at a power of 2 that no
coefficient reaches, so that products of polynomials are products of whole numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from math import comb, expm1
from typing import TypeVar

from faultline.strategies.errors import StrategyError
from faultline.strategies.in_memory.node_groups import NodeGroups

Weight = TypeVar("Weight", int, float)

Footprint = tuple[tuple[int, int], ...]
"""Domains that a group has nodes in, each with the number of these nodes."""


def loss_given_nodes(groups: NodeGroups, lost: int) -> float:
    """Return the probability that some group is gone after `lost` nodes, all sets equally likely.

    Sets of k nodes that every group survives are the coefficient of x^k in the product over
    groups of ``sum over j <= t of C(n, j) x^j``; there are C(N, k) sets in all. It does not depend
    on the placement, but for nodes that are left over.

    Raises
    ------
    StrategyError
        If there are not that many nodes.
    """
    _check("lost", lost, groups.nodes, "nodes")
    sets = comb(groups.nodes, lost)
    # No coefficient up to x^k exceeds the number of sets of that size, nor of half of all nodes.
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
    """Return the probability that some group is gone after `lost` domains of D nodes each.

    All are equally likely, and are lost with all their nodes.

    Raises
    ------
    StrategyError
        If there are not that many domains, or a domain has no nodes.
    """
    _check_domain(domain_nodes)
    domains = -(-groups.nodes // domain_nodes)
    _check("lost", lost, domains, "domains")
    bits = domains + 1
    survived = _sum_over_failed_domains(
        groups, domain_nodes, held=1, failed=1 << bits, survives=lambda _size, _losses: 1
    )
    sets = comb(domains, lost)
    return (sets - (survived >> bits * lost & (1 << bits) - 1)) / sets


def loss_probability(
    groups: NodeGroups, domain_nodes: int, node_failed: float, domain_failed: float
) -> float:
    """Return the probability that some group is gone if nodes and domains fail independently.

    A node fails by itself with `node_failed`, a domain with all its nodes with `domain_failed`.
    Good to about 1e-13: it is 1 minus the probability of survival.

    Raises
    ------
    StrategyError
        If a domain has no nodes.
    """
    _check_domain(domain_nodes)

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
    """Return the probability that some group is gone after a time in which nothing is rebuilt.

    Nodes by themselves, and domains with all their nodes, fail by Poisson processes, independent of
    each other: each has failed with probability ``1 - exp(-rate * window)``, rates of one node and
    one domain in 1/s, the time since all state was protected in seconds.
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
    """Sum, over all sets of failed domains that no group is gone by, the product of all weights.

    Domains weigh `held` or `failed`; a group of `size` nodes that loses `losses` of them with its
    domains weighs ``survives(size, losses)``. Groups are visited one after the other. A domain
    becomes part of the state with its first group, and is summed out after its last one; so a
    state is a small set of failed domains, few of which share a group.
    """
    footprints = _footprints(groups, domain_nodes)
    last = {domain: place for place, footprint in enumerate(footprints) for domain, _ in footprint}
    met: set[int] = set()
    states: dict[int, Weight] = {0: held**0}
    for place, (footprint, count) in enumerate(footprints.items()):
        states = _surviving(states, footprint, groups.tolerated)
        for domain, _ in footprint:
            if domain not in met:
                met.add(domain)
                states = {state: weight * held for state, weight in states.items()} | {
                    state | 1 << domain: weight * failed for state, weight in states.items()
                }
                # At once, so that a group of many domains does not make states of all their sets.
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
    """Return the domains of each group, and how many groups share them, in the order of groups."""
    return Counter(
        tuple(Counter(node // domain_nodes for node in groups.nodes_of(group)).items())
        for group in range(groups.groups)
    )


def _losses(footprint: Footprint, failed_domains: int) -> int:
    return sum(nodes for domain, nodes in footprint if failed_domains >> domain & 1)


def _check(key: str, lost: int, most: int, what: str) -> None:
    if not 0 <= lost <= most:
        raise StrategyError(key, f"{lost} of {most} {what}", f"use 0 to {most}")


def _check_domain(domain_nodes: int) -> None:
    if domain_nodes < 1:
        raise StrategyError("domain_nodes", f"is {domain_nodes}", "use 1 or more")
