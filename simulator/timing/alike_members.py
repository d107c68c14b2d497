"""Members of about equal time: how full the emptiest scale-up domain is, not which groups work.

A collective has as many rings as its smallest domain has members (`ring_edges`). So the first loss
in a domain slows the adapters of all domains; a further loss elsewhere costs nothing. Of what the
platform treats differently, it only matters whether groups still work there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from faultline.platforms.platform_data import GpuHost, Platform
from faultline.platforms.symmetry import Symmetry
from faultline.simulator.pattern.placed_step import PlacedStep


class Place(NamedTuple):
    """The place of a group: its scale-up domains, and a key that is equal for identical places."""

    domains: Hashable
    kind: Hashable


def places_of(platform: Platform, step: PlacedStep, symmetry: Symmetry) -> list[Place]:
    """Return the places of the groups of a step, given the identical parts of its platform."""
    size, gpus = len(step.names) // step.groups, {gpu.name: gpu for gpu in platform.gpus}

    def kind(gpu: GpuHost) -> Hashable:
        parts = [kind for _, kind in symmetry.parts_of(gpu.name)]
        # A GPU of which the place is unknown is like no other. Identical parts may differ in speed.
        return gpu.speed_flop_per_s, *(parts or (gpu.name,))

    places = []
    for first in range(0, len(step.names), size):
        hosts = [gpus[name] for name in step.names[first : first + size]]
        domains = frozenset(gpu.domain for gpu in hosts)
        places.append(Place(domains, tuple(map(kind, hosts))))
    return places


class AlikeMembers:
    """Finds the members that represent all alike members of a step.

    Parameters
    ----------
    places : sequence of Place
        The place of each group of the job.

    Attributes
    ----------
    are_all_alike : bool
        Whether groups differ only in those with which they share a domain.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places
        self.are_all_alike = len({place.kind for place in places}) == 1

    def first(self, members: Collection[int]) -> tuple[int, ...]:
        """Return the groups that represent `members`, in ascending order.

        They are all groups at the kinds of places at which members work, but those missing in one
        domain, which is as empty as the emptiest of the members'.
        """
        kinds = Counter(self._places[group].kind for group in members)
        found = [group for group, place in enumerate(self._places) if place.kind in kinds]
        domains, fewest = self._by_domains(found), min(map(len, self._by_domains(members)))
        if fewest < min(map(len, domains)):
            fullest: list[int] = max(domains, key=len)
            # Rare places stay.
            fullest.sort(key=lambda group: kinds[self._places[group].kind])
            found = sorted({*found}.difference(fullest[fewest:]))
        return tuple(found)

    @cached_property
    def levels(self) -> list[tuple[int, ...]]:
        """All groups, those in half of the domains of each kind, in a quarter, and so on.

        The last are in at least two domains.
        """
        levels = [tuple(range(len(self._places)))]
        while len(fewer := self._half(levels[-1])) < len(levels[-1]):
            levels.append(fewer)
        return levels

    def _half(self, groups: Sequence[int]) -> tuple[int, ...]:
        alike = defaultdict[Hashable, list[list[int]]](list)
        for inside in self._by_domains(groups):
            alike[tuple(self._places[group].kind for group in inside)].append(inside)
        least = 2 if len(alike) == 1 else 1
        halves = (one[: max(least, (len(one) + 1) // 2)] for one in alike.values())
        return tuple(sorted(group for half in halves for inside in half for group in inside))

    def _by_domains(self, groups: Iterable[int]) -> list[list[int]]:
        """Return the groups by the domains that they are in."""
        inside = defaultdict[Hashable, list[int]](list)
        for group in groups:
            inside[self._places[group].domains].append(group)
        return [*inside.values()]
