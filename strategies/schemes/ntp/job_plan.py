"""The broken GPUs of a job's scale-up domains, and the replicas that the domains form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from faultline.strategies.interface.scheme import Hit


class HitDomain(NamedTuple):
    """A scale-up domain with broken GPUs."""

    failed: int  # Number of its broken GPUs.
    group: int  # Its group.
    domain: int  # Its number in the group: its pipeline stage.


class Damage:
    """Broken GPUs of a job's groups, each a row of scale-up domains.

    A group's GPUs are numbered consecutively through its domains. If the size of a domain does not
    divide a group, the last domain is smaller, and its broken GPUs count as in a whole one. A group
    smaller than a domain is one domain.
    """

    def __init__(self, domain_gpus: int) -> None:
        self._domain_gpus = domain_gpus
        self._gpus_per_group = domain_gpus
        self._hits: dict[int, list[Hit]] = {}
        # Cached, because groups are queried far more often than they are hit.
        self._failed: dict[int, tuple[int, ...]] = {}

    def add(self, hit: Hit) -> None:
        """Record broken GPUs."""
        self._gpus_per_group = hit.gpus_per_group
        self._hits.setdefault(hit.group, []).append(hit)
        self._failed.pop(hit.group, None)

    def forget(self, groups: Iterable[int]) -> None:
        """Remove all records of groups that left or were replaced."""
        for group in groups:
            self._hits.pop(group, None)
            self._failed.pop(group, None)

    def clear(self) -> None:
        """Remove all records."""
        self._hits.clear()
        self._failed.clear()

    @property
    def groups(self) -> list[int]:
        """Groups that have broken GPUs, in ascending order."""
        return sorted(self._hits)

    @property
    def domain_gpus(self) -> int:
        """GPUs per domain: those of a group, if that is smaller than a domain."""
        return min(self._domain_gpus, self._gpus_per_group)

    @property
    def domains_per_group(self) -> int:
        """Domains per group; 1 until the first failure, which states the group's size."""
        return -(-self._gpus_per_group // self.domain_gpus)

    def failed(self, group: int) -> tuple[int, ...]:
        """Return the numbers of broken GPUs of a group's damaged domains, the worst first."""
        if group not in self._failed:
            self._failed[group] = tuple(sorted(self._count(group).values(), reverse=True))
        return self._failed[group]

    def domains(self) -> list[HitDomain]:
        """Return the domains that have broken GPUs, the worst first."""
        domains = [
            HitDomain(failed, group, domain)
            for group in self.groups
            for domain, failed in self._count(group).items()
        ]
        return sorted(domains, key=lambda hit: (-hit.failed, hit.group, hit.domain))

    def worst(self, group: int) -> int:
        """Return the broken GPUs of a group's worst domain."""
        return max(self.failed(group), default=0)

    def _count(self, group: int) -> dict[int, int]:
        size = self.domain_gpus
        broken: dict[int, set[int]] = {}
        for hit in self._hits.get(group, ()):
            for domain in range(hit.first_gpu // size, hit.last_gpu // size + 1):
                first = max(hit.first_gpu, domain * size)
                last = min(hit.last_gpu, (domain + 1) * size - 1)
                broken.setdefault(domain, set()).update(range(first, last + 1))
        return {domain: len(gpus) for domain, gpus in broken.items()}


@dataclass(frozen=True, slots=True)
class HitReplica:
    """A replica with broken GPUs, after spares and packing.

    `group` represents it; `domains` are its domains with broken GPUs, the worst first.
    """

    group: int
    domains: tuple[HitDomain, ...]

    @property
    def worst(self) -> int:
        """Broken GPUs of its worst domain."""
        return self.domains[0].failed


def packed_replicas(damage: Damage, pod_groups: int) -> list[HitReplica]:
    """Return the damaged replicas, the worst first, if damaged domains are packed within pods.

    The damaged domains of a pod fill its replicas one after the other, the worst first
    (`throughput.packed`). The most damaged groups of the pod represent these replicas. A pod is
    `pod_groups` consecutive groups, whose domains may be exchanged.
    """
    pods: dict[int, list[HitDomain]] = {}
    for domain in damage.domains():
        pods.setdefault(domain.group // pod_groups, []).append(domain)
    most_hit = sorted(
        damage.groups, key=lambda group: (-len(damage.failed(group)), -sum(damage.failed(group)))
    )
    replicas, stages = [], damage.domains_per_group
    for pod, domains in pods.items():
        groups = (group for group in most_hit if group // pod_groups == pod)
        replicas += [
            HitReplica(next(groups), tuple(domains[first : first + stages]))
            for first in range(0, len(domains), stages)
        ]
    return sorted(replicas, key=lambda replica: -replica.worst)


Place = tuple[int, int]
"""A group and a stage of it."""


def domains_in_places(
    replicas: Sequence[HitReplica], stages: int, pod_groups: int
) -> dict[Place, Place]:
    """Return the domains that have moved, by their new places.

    A domain that moves into a replica takes the place of its own stage, unless that has a broken
    domain. The domain it replaces takes a free place of the pod, of its own stage if possible.
    """
    domain_at: dict[Place, Place] = {}
    for replica in replicas:
        inside: dict[int, HitDomain] = {}
        # Domains of the replica itself keep their places.
        for hit in sorted(replica.domains, key=lambda hit: hit.group != replica.group):
            inside.setdefault(hit.domain, hit)
        free_stages = iter(sorted(set(range(stages)) - set(inside)))
        inside |= {next(free_stages): hit for hit in replica.domains if inside[hit.domain] != hit}
        domain_at |= {(replica.group, at): (hit.group, hit.domain) for at, hit in inside.items()}
    vacated = set(domain_at.values()) - set(domain_at)
    pushed_out = set(domain_at) - set(domain_at.values())
    for keeps_stage in (True, False):
        # The last of each list is the first free place.
        free_places: dict[Place, list[Place]] = defaultdict(list)
        for place in sorted(vacated, reverse=True):
            free_places[place[0] // pod_groups, place[1] if keeps_stage else 0].append(place)
        for domain in sorted(pushed_out):
            nearby = free_places[domain[0] // pod_groups, domain[1] if keeps_stage else 0]
            if nearby:
                place = nearby.pop()
                vacated.remove(place)
                pushed_out.remove(domain)
                domain_at[place] = domain
    return {place: domain for place, domain in domain_at.items() if place != domain}
