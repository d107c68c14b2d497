"""States that take equal time: how many groups work below a leaf switch, not which.

On a platform that treats all groups alike, narrowed links cost two states differently only if
different numbers of groups work below them. One state represents all that are alike: its pods with
narrowed links come first, and in a pod the groups whose own links are narrowed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from faultline.platforms.platform_data import Platform
from faultline.simulator.pattern.placed_step import PlacedStep

LinkShares = tuple[tuple[str, float], ...]
"""The share of its bandwidth that each of some links has left."""

_Narrowed = tuple[tuple[int, int, float], ...]
"""Narrowed links of a group or pod: a node of it, a link of the node, and its share left."""


@dataclass(frozen=True, slots=True)
class _Pod:
    """The nodes of a pod by their places."""

    groups: tuple[int, ...]  # Groups of the job on it.
    leaves: tuple[str, ...]  # Its leaf switches.


class AlikeStates:
    """Finds the state that represents all alike states of a large step.

    Parameters
    ----------
    platform : Platform
        The platform.
    step : PlacedStep
        The step of all groups.
    """

    def __init__(self, platform: Platform, step: PlacedStep) -> None:
        self._edges = platform.edges
        size = len(step.names) // step.groups
        self._hosts = [
            step.names[first : first + size] for first in range(0, len(step.names), size)
        ]
        by_name = {gpu.name: gpu for gpu in platform.gpus}
        groups, leaves = (
            defaultdict[object, list[int]](list),
            defaultdict[object, dict[str, None]](dict),
        )
        self._is_known = True
        for group, names in enumerate(self._hosts):
            pods = {by_name[name].pod for name in names}
            self._is_known &= len(pods) == 1
            pod = next(iter(pods))
            groups[pod].append(group)
            leaves[pod].update((by_name[name].leaf, None) for name in names)
        self._pods = [_Pod(tuple(groups[pod]), tuple(leaves[pod])) for pod in groups]
        # The last pod may have fewer groups: no other pod is put in its place.
        self._whole = len(self._pods[0].groups)
        self._is_known &= all(len(pod.groups) == self._whole for pod in self._pods[:-1])
        self._pod_of = {
            group: place for place, pod in enumerate(self._pods) for group in pod.groups
        }
        self._of_group = self._links_of(enumerate(self._hosts))
        self._of_pod = self._links_of((place, pod.leaves) for place, pod in enumerate(self._pods))

    def _links_of(
        self, nodes: Iterable[tuple[int, Iterable[str]]]
    ) -> dict[str, tuple[int, int, int]]:
        """Return the place of each link at some nodes: number, node, and place at the node."""
        return {
            link: (number, node, place)
            for number, names in nodes
            for node, name in enumerate(names)
            for place, link in enumerate(self._links_at(name))
        }

    def _links_at(self, node: str) -> Iterator[str]:
        for _, links in self._edges[node]:
            yield from links

    def canonical(
        self, working: Sequence[int], left: LinkShares
    ) -> tuple[tuple[int, ...], LinkShares] | None:
        """Return members and narrowed links that represent all alike states; None if unknown.

        Below the narrowed links as many groups work as in the state; elsewhere all groups do. Links
        beside which no group works have no effect, and are left out.

        Parameters
        ----------
        working : sequence of int
            The groups that work.
        left : tuple of (str, float)
            Narrowed links, by name.
        """
        if not self._is_known:
            return None
        of_groups = defaultdict[int, list[tuple[int, int, float]]](list)
        of_pods = defaultdict[int, list[tuple[int, int, float]]](list)
        for link, share in left:
            if link in self._of_group:
                group, node, place = self._of_group[link]
                of_groups[group].append((node, place, share))
            elif link in self._of_pod:
                pod, node, place = self._of_pod[link]
                of_pods[pod].append((node, place, share))
            else:
                return None
        in_pod = defaultdict[int, list[int]](list)
        for group in working:
            in_pod[self._pod_of[group]].append(group)
        narrowed = {
            group: tuple(sorted(of_groups[group])) for group in working if group in of_groups
        }

        def described(pod: int) -> tuple[_Narrowed, list[_Narrowed], int]:
            own = sorted(narrowed[group] for group in in_pod[pod] if group in narrowed)
            return tuple(sorted(of_pods[pod])), own, len(in_pod[pod])

        affected = [pod for pod in in_pod if pod in of_pods or described(pod)[1]]
        if any(len(self._pods[pod].groups) < self._whole for pod in affected):
            return None
        affected.sort(key=lambda pod: (described(pod), pod))
        members: list[int] = []
        links: dict[str, float] = {}
        for slot, pod in enumerate(affected):
            links.update(self._moved(self._pods[slot].leaves, of_pods[pod]))
            ordered = sorted(
                in_pod[pod], key=lambda group: (group not in narrowed, narrowed.get(group, ()))
            )
            for place, group in enumerate(ordered):
                member = self._whole * slot + place
                members.append(member)
                links.update(self._moved(self._hosts[member], narrowed.get(group, ())))
        members += range(self._whole * len(affected), len(self._hosts))
        return tuple(members), tuple(sorted(links.items()))

    def _moved(
        self, nodes: Iterable[str], narrowed: Iterable[tuple[int, int, float]]
    ) -> Mapping[str, float]:
        """Return the narrowed links at other nodes, by name."""
        names = tuple(nodes)
        return {[*self._links_at(names[node])][place]: share for node, place, share in narrowed}
