"""The same decisions in plain Python, as slowly and plainly as can be."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import comb

from faultline.strategies.nonuniform.replica_plan import ReplicaPlan


def batch(
    failed: Sequence[int], domains_per_replica: int, plans: Sequence[ReplicaPlan], *, packing: bool
) -> int:
    """Sequences of the job: domains fill replicas in their order, or sorted, the worst left out."""
    replicas = len(failed) // domains_per_replica
    order = sorted(failed)[: replicas * domains_per_replica] if packing else list(failed)
    total = 0
    for replica in range(replicas):
        first = replica * domains_per_replica
        total += plans[max(order[first : first + domains_per_replica])].sequences
    return total


def best_batch(
    failed: Sequence[int], domains_per_replica: int, plans: Sequence[ReplicaPlan]
) -> int:
    """Sequences of the job under the best of all assignments of domains to replicas."""
    if len(failed) < domains_per_replica:
        return 0
    best = 0
    # Either the last domain is left out, or it is in a replica with some of the others.
    if len(failed) % domains_per_replica:
        best = best_batch(failed[:-1], domains_per_replica, plans)
    for chosen in combinations(range(len(failed) - 1), domains_per_replica - 1):
        rest = [value for place, value in enumerate(failed[:-1]) if place not in chosen]
        worst = max([failed[-1], *(failed[place] for place in chosen)])
        mine = plans[worst].sequences
        best = max(best, mine + best_batch(rest, domains_per_replica, plans))
    return best


def spares(
    failed: Sequence[int],
    domains_per_replica: int,
    plans: Sequence[ReplicaPlan],
    wanted: int,
    step: int,
) -> int:
    """The fewest healthy domains, in steps, that bring the job to a batch."""
    more = 0
    while batch([*failed, *[0] * more], domains_per_replica, plans, packing=True) < wanted:
        more += step
    return more


def available(gpus: int, domain_gpus: int, failed: int) -> Fraction:
    """The chance that a domain has no failed GPU, from numbers of subsets."""
    return Fraction(comb(gpus - domain_gpus, failed), comb(gpus, failed))
