"""Which GPUs of which scale-up domains are broken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from faultline.strategies.base import Hit


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

    Parameters
    ----------
    domain_gpus : int
        GPUs of a whole domain.
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
