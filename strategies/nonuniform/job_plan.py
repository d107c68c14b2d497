"""What becomes of a whole job whose replicas have broken GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faultline.strategies.nonuniform.damage import Damage
from faultline.strategies.nonuniform.replica_plan import ReplicaPlan


@dataclass(frozen=True, slots=True)
class HitReplicas:
    """The replicas with broken GPUs, after spares and packing.

    Attributes
    ----------
    worst : tuple of int
        Broken GPUs of the worst domain of each of them.
    groups : tuple of int
        The groups that stand for them, in the same order: those that are hit most come first.
    """

    worst: tuple[int, ...]
    groups: tuple[int, ...]


def packed_replicas(damage: Damage, spare_domains: int) -> HitReplicas:
    """Return the replicas that are hit if domains with broken GPUs are packed together.

    Spare domains take the places of the worst domains; the others fill one replica after the other,
    the worst first (`packing.packed`).
    """
    by_group = {group: damage.failed(group) for group in damage.groups}
    failed = sorted((count for counts in by_group.values() for count in counts), reverse=True)
    worst = failed[spare_domains :: damage.domains_per_group]
    most_hit = sorted(by_group, key=lambda group: (-len(by_group[group]), -sum(by_group[group])))
    return HitReplicas(tuple(worst), tuple(most_hit[: len(worst)]))


def unpacked_replicas(damage: Damage, spare_domains: int) -> HitReplicas:
    """Return the replicas that are hit if domains stay where they are.

    Spare domains take the places of the worst ones, whichever group these are in.
    """
    hit = sorted(
        ((count, group) for group in damage.groups for count in damage.failed(group)),
        key=lambda domain: (-domain[0], domain[1]),
    )
    worst: dict[int, int] = {}
    for count, group in hit[spare_domains:]:
        worst.setdefault(group, count)
    return HitReplicas(tuple(worst.values()), tuple(worst))


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


def job_plan(groups: int, hit: HitReplicas, plans: Sequence[ReplicaPlan]) -> JobPlan:
    """Return how a job goes on.

    Parameters
    ----------
    groups : int
        All replicas.
    hit : HitReplicas
        Those with broken GPUs.
    plans : sequence of ReplicaPlan
        What a replica does for 0, 1, ... broken GPUs in its worst domain.

    Returns
    -------
    JobPlan
        Without members where no replica is left: the job then waits for repairs, however long.
    """
    whole = plans[0]
    of_hit = [plans[count] for count in hit.worst]
    dropped = sum(plan.sequences == 0 for plan in of_hit)
    away = set(hit.groups[:dropped])
    sequences = (groups - len(of_hit)) * whole.sequences + sum(plan.sequences for plan in of_hit)
    degrees = [plan.degree for plan in of_hit if 0 < plan.degree < whole.degree]
    members = tuple(group for group in range(groups) if group not in away)
    power = 1.0 + sum(plan.power - 1.0 for plan in of_hit) / groups
    # The worst come first, and those that do not run are the worst.
    at_work = dict(zip(hit.groups[dropped:], of_hit[dropped:], strict=True))
    return JobPlan(members, sequences, min(degrees, default=None), power, at_work)
