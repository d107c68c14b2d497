"""What becomes of a whole job whose replicas have broken GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from faultline.strategies.nonuniform.damage import Damage, HitDomain
from faultline.strategies.nonuniform.replica_plan import ReplicaPlan


@dataclass(frozen=True, slots=True)
class HitReplica:
    """A replica with broken GPUs, after spares and packing.

    Attributes
    ----------
    group : int
        The group that stands for it.
    domains : tuple of HitDomain
        The domains with broken GPUs that are in it, the worst first.
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
    after the other, the worst first (`packing.packed`). The groups of a pod that are hit most stand
    for them.

    Parameters
    ----------
    damage : Damage
        What is broken.
    spare_domains : int
        Whole domains that stand by.
    pod_groups : int
        Groups in a row whose domains may change places with one another.
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


def unpacked_replicas(damage: Damage, spare_domains: int) -> list[HitReplica]:
    """Return the replicas that are hit, the worst first, if domains stay where they are.

    Spare domains take the places of the worst ones, whichever group these are in.
    """
    hit: dict[int, list[HitDomain]] = {}
    for one in damage.domains()[spare_domains:]:
        hit.setdefault(one.group, []).append(one)
    return [HitReplica(group, tuple(domains)) for group, domains in hit.items()]


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
    """How the job goes on.

    Attributes
    ----------
    members : tuple of int
        Groups that train, in ascending order.
    sequences : int
        What they train in an iteration.
    reduced_degree : int or None
        The lowest tensor-parallel degree of a member; None where all are whole.
    power : float
        Mean power of the job's GPUs over their rating.
    hit : dict of int to ReplicaPlan
        What members do that have broken GPUs.
    """

    members: tuple[int, ...]
    sequences: int
    reduced_degree: int | None
    power: float
    hit: Mapping[int, ReplicaPlan]


def job_plan(groups: int, hit: Sequence[HitReplica], plans: Sequence[ReplicaPlan]) -> JobPlan:
    """Return how a job goes on.

    Parameters
    ----------
    groups : int
        All replicas.
    hit : sequence of HitReplica
        Those with broken GPUs, the worst first.
    plans : sequence of ReplicaPlan
        What a replica does for 0, 1, ... broken GPUs in its worst domain.

    Returns
    -------
    JobPlan
        Without members where no replica is left: the job then waits for repairs, however long.
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
