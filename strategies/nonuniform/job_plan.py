"""Which GPUs of a job's scale-up domains are broken, and what becomes of the whole job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from faultline.strategies.base import Hit
from faultline.strategies.nonuniform.replica_plan import ReplicaPlan


class HitDomain(NamedTuple):
    """A scale-up domain with broken GPUs."""

    failed: int  # How many of its GPUs.
    group: int  # The group whose it is,
    domain: int  # and which of that group's domains: its pipeline stage.


class Damage:
    """Broken GPUs of a job's groups, each a row of scale-up domains.

    A group's GPUs are numbered through its domains. Where the size of a domain does not divide a
    group, the last domain is smaller, and what is broken of it counts as if it were whole. A group
    smaller than a domain is one domain.
    """

    def __init__(self, domain_gpus: int) -> None:
        self._domain_gpus = domain_gpus
        self._gpus_per_group = domain_gpus
        self._hits: dict[int, list[Hit]] = {}
        # Groups are asked about far more often than they are hit.
        self._failed: dict[int, tuple[int, ...]] = {}

    def add(self, hit: Hit) -> None:
        """Something broke."""
        self._gpus_per_group = hit.gpus_per_group
        self._hits.setdefault(hit.group, []).append(hit)
        self._failed.pop(hit.group, None)

    def remove(self, hit: Hit) -> bool:
        """It is repaired; returns whether it was known to be broken."""
        hits = self._hits.get(hit.group, [])
        if hit not in hits:
            return False
        hits.remove(hit)
        self._failed.pop(hit.group, None)
        if not hits:
            del self._hits[hit.group]
        return True

    def forget(self, groups: Iterable[int]) -> None:
        """Nothing of these groups is of interest any more: they are gone, or were replaced."""
        for group in groups:
            self._hits.pop(group, None)
            self._failed.pop(group, None)

    def clear(self) -> None:
        """Nothing is broken."""
        self._hits.clear()
        self._failed.clear()

    @property
    def groups(self) -> list[int]:
        """Groups that have broken GPUs, in ascending order."""
        return sorted(self._hits)

    @property
    def domain_gpus(self) -> int:
        """GPUs of a domain: those of a group, if that is smaller than a domain."""
        return min(self._domain_gpus, self._gpus_per_group)

    @property
    def domains_per_group(self) -> int:
        """Domains of a group; 1 until something broke for the first time: nobody can say."""
        return -(-self._gpus_per_group // self.domain_gpus)

    def failed(self, group: int) -> tuple[int, ...]:
        """Return the broken GPUs of each domain of a group that has any, the worst first."""
        if group not in self._failed:
            self._failed[group] = tuple(sorted(self._count(group).values(), reverse=True))
        return self._failed[group]

    def domains(self) -> list[HitDomain]:
        """Return the domains that have broken GPUs, the worst first."""
        hit = [
            HitDomain(failed, group, domain)
            for group in self.groups
            for domain, failed in self._count(group).items()
        ]
        return sorted(hit, key=lambda one: (-one.failed, one.group, one.domain))

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
    """A replica with broken GPUs, after spares and packing: the group that stands for it.

    The domains with broken GPUs that are in it come the worst first.
    """

    group: int
    domains: tuple[HitDomain, ...]

    @property
    def worst(self) -> int:
        """Broken GPUs of its worst domain."""
        return self.domains[0].failed


def packed_replicas(damage: Damage, spare_domains: int, pod_groups: int) -> list[HitReplica]:
    """Return the replicas that are hit, the worst first, if hit domains are packed within pods.

    Spare domains take the places of the worst domains; the others of a pod fill one of its replicas
    after the other, the worst first (`throughput.packed`). The groups of a pod that are hit most
    stand for them. A pod are `pod_groups` groups in a row, whose domains may change places.
    """
    pods: dict[int, list[HitDomain]] = {}
    for one in damage.domains()[spare_domains:]:
        pods.setdefault(one.group // pod_groups, []).append(one)
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
    """Return which domain is in which place, of those that are not where they began.

    Who comes into a replica takes the place of its own stage if that has no broken domain; who is
    pushed out takes a place that was left in the pod, of its own stage if there is one.
    """
    taken: dict[Place, Place] = {}
    for replica in replicas:
        inside: dict[int, HitDomain] = {}
        # Those of the replica itself stay, whoever comes.
        for one in sorted(replica.domains, key=lambda one: one.group != replica.group):
            inside.setdefault(one.domain, one)
        free = iter(sorted(set(range(stages)) - set(inside)))
        inside |= {next(free): one for one in replica.domains if inside[one.domain] != one}
        taken |= {(replica.group, at): (one.group, one.domain) for at, one in inside.items()}
    left = sorted(set(taken.values()) - set(taken))
    pushed_out = sorted(set(taken) - set(taken.values()))
    for keeps_stage in (True, False):
        for domain, place in product(list(pushed_out), list(left)):
            alike = place[1] == domain[1] or not keeps_stage
            near = place[0] // pod_groups == domain[0] // pod_groups
            if alike and near and domain in pushed_out and place in left:
                left.remove(place)
                pushed_out.remove(domain)
                taken[place] = domain
    return {place: domain for place, domain in taken.items() if place != domain}


@dataclass(frozen=True, slots=True)
class JobPlan:
    """How the job goes on: groups that train, in ascending order, and what in an iteration.

    `reduced_degree` is the lowest tensor-parallel degree of a member, None where all are whole;
    `power` the mean of the job's GPUs over their rating; `hit` what members do that have broken
    GPUs.
    """

    members: tuple[int, ...]
    sequences: int
    reduced_degree: int | None
    power: float
    hit: Mapping[int, ReplicaPlan]


def job_plan(groups: int, hit: Sequence[HitReplica], plans: Sequence[ReplicaPlan]) -> JobPlan:
    """Return how a job goes on; without members where no replica is left.

    Such a job waits for repairs, however long. Plans say what a replica does for 0, 1, ... broken
    GPUs in its worst domain.
    """
    whole = plans[0]
    of_hit = {replica.group: plans[replica.worst] for replica in hit}
    at_work = {group: plan for group, plan in of_hit.items() if plan.sequences}
    away = of_hit.keys() - at_work.keys()
    sequences = (groups - len(of_hit)) * whole.sequences
    sequences += sum(plan.sequences for plan in at_work.values())
    degrees = [plan.degree for plan in at_work.values() if plan.degree < whole.degree]
    members = tuple(group for group in range(groups) if group not in away)
    power = 1.0 + sum(plan.power - 1.0 for plan in of_hit.values()) / groups
    return JobPlan(members, sequences, min(degrees, default=None), power, at_work)
