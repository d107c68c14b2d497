"""Find the identical parts of a platform by a comparison of all cables and links.

GPUs are in scale-up domains, domains are below leaf switches, and leaf switches are in pods. Two
such parts are identical if they have the same cables inside and to the same switches outside, over
links of equal values. A swap of the two leaves the graph unchanged, so flows share the same links.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from faultline.platforms.platform_data import Hop, Platform

_Part = tuple[object, ...]
"""A part by its place: empty for the whole platform, then pod, leaf switches and domain."""

_Label = object
_Cable = tuple[str, str, tuple[str, ...]]
_WHOLE: _Part = ()


class Symmetry:
    """The identical parts of a platform.

    A platform has none if it defines routes of single flows. It also has none if two hosts have
    several shortest routes, because the graph does not determine the route of a flow.
    """

    def __init__(self, platform: Platform) -> None:
        self._owner: dict[str, _Part] = {}
        self._identical: dict[tuple[_Part, int], list[_Part]] = {}
        if platform.flow_routes:
            return
        parts = _Parts(platform)
        self._nodes, self._kind = parts.compared()
        self._index = {
            name: index
            for part, nodes in self._nodes.items()
            for index, name in enumerate(nodes)
            if parts.owner[name] == part
        }
        if _has_unique_routes(platform, self._first_of_each(platform, parts.owner)):
            self._owner = parts.owner
            for part, kind in self._kind.items():
                self._identical.setdefault((part[:-1], kind), []).append(part)

    def stand_ins(self, hosts: Iterable[str]) -> dict[str, str]:
        """Return the host that represents each host: it is in the first of the identical parts.

        The result depends on the order of `hosts`.
        """
        representatives: dict[str, str] = {}
        stand_in: dict[_Part, _Part] = {_WHOLE: _WHOLE}
        used: Counter[tuple[_Part, int]] = Counter()
        for host in hosts:
            owner = self._owner.get(host, _WHOLE)
            for depth in range(1, len(owner) + 1):
                part = owner[:depth]
                if part not in stand_in:
                    candidates = stand_in[part[:-1]], self._kind[part]
                    stand_in[part] = self._identical[candidates][used[candidates]]
                    used[candidates] += 1
            nodes = self._nodes[stand_in[owner]] if owner else None
            representatives[host] = nodes[self._index[host]] if nodes else host
        return representatives

    def parts_of(self, host: str) -> list[tuple[_Part, int]]:
        """Return the parts that contain a host, the largest first, each with its kind.

        Identical parts of the same larger part have the same kind.
        """
        owner = self._owner.get(host, _WHOLE)
        return [(owner[:depth], self._kind[owner[:depth]]) for depth in range(1, len(owner) + 1)]

    def _first_of_each(self, platform: Platform, owner: Mapping[str, _Part]) -> list[str]:
        """Return one host per kind of place: the hosts of identical parts appear once."""
        first: dict[object, str] = {}
        for host in _hosts_of_flows(platform):
            part = owner.get(host, _WHOLE)
            kinds = tuple(self._kind[part[:depth]] for depth in range(1, len(part) + 1))
            first.setdefault((kinds, self._index[host] if part else host), host)
        return list(first.values())


class _Parts:
    """The hosts, switches and cables of each part of a platform."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.cables: dict[str, list[_Cable]] = defaultdict(list)
        for name, hops in platform.edges.items():
            for neighbour, links in hops:
                self.cables[name].append(("to", neighbour, links))
                self.cables[neighbour].append(("from", name, links))
        self.owner = self._owners()
        self.owner_of_link: dict[str, _Part] = {}
        self.inside: dict[_Part, list[str]] = defaultdict(list)
        for name in self.owner:
            owner = self.owner[name]
            for depth in range(1, len(owner) + 1):
                self.inside[owner[:depth]].append(name)
        for name, cables in self.cables.items():
            owner = self.owner.get(name, _WHOLE)
            for _, neighbour, links in cables:
                other = self.owner.get(neighbour, _WHOLE)
                both = _common(owner, other)
                deeper = max((owner, other), key=len) if both in (owner, other) else both
                for link in links:
                    known = self.owner_of_link.get(link, deeper)
                    self.owner_of_link[link] = _common(known, deeper)

    def _owners(self) -> dict[str, _Part]:
        """Return the smallest part of each host or switch; a switch's part has all neighbours."""
        leaves = {
            domain: tuple(gpu.leaf for gpu in gpus)
            for domain, gpus in self.platform.domains.items()
        }
        owner: dict[str, _Part] = {
            gpu.name: (gpu.pod, leaves[gpu.domain], gpu.domain) for gpu in self.platform.gpus
        }
        front = list(owner)
        while front:
            reached: dict[str, _Part] = {}
            for name in front:
                for _, neighbour, _ in self.cables[name]:
                    if neighbour not in owner:
                        known = reached.get(neighbour, owner[name])
                        reached[neighbour] = _common(known, owner[name])
            owner.update(reached)
            front = list(reached)
        return owner

    def compared(self) -> tuple[dict[_Part, list[str]], dict[_Part, int]]:
        """Return the nodes of each part, in the order of the search, and its kind.

        Identical parts have the same kind.
        """
        nodes: dict[_Part, list[str]] = {}
        kinds: dict[_Part, int] = {}
        numbers: dict[object, int] = {}
        labels: dict[_Part, tuple[dict[str, int], dict[str, int]]] = {}
        for part in sorted(self.inside, key=len):
            above = [labels[part[:depth]] for depth in range(len(part) - 1, 0, -1)]
            nodes[part], of_links, cables = self._described(part, above)
            labels[part] = {name: index for index, name in enumerate(nodes[part])}, of_links
            kinds[part] = numbers.setdefault(cables, len(numbers))
        return nodes, kinds

    def _described(
        self, part: _Part, above: Sequence[tuple[Mapping[str, int], Mapping[str, int]]]
    ) -> tuple[list[str], dict[str, int], object]:
        """Return nodes and links of a part, numbered in search order, and all its cables."""
        inside, depth, roles_of = set(self.inside[part]), len(part), self.platform.roles
        order = [name for name in self.inside[part] if roles_of.get(name) == "gpu"]
        of_links: dict[str, int] = {}
        indices = {name: index for index, name in enumerate(order)}
        cables: list[object] = []

        def label_of_link(link: str) -> _Label:
            if self.owner_of_link[link][:depth] == part:
                return of_links.setdefault(link, len(of_links))
            return _outside(link, [links for _, links in above])

        for name in order:
            for way, neighbour, links in self.cables[name]:
                if neighbour in inside and neighbour not in indices:
                    indices[neighbour] = len(order)
                    order.append(neighbour)
                end: _Label = indices.get(neighbour)
                if end is None:
                    end = _outside(neighbour, [nodes for nodes, _ in above])
                cables.append((indices[name], way, end, tuple(map(label_of_link, links))))
        values = tuple(
            (link.bandwidth_bytes_per_s, link.latency_s, link.sharing)
            for link in map(self.platform.links.__getitem__, of_links)
        )
        roles = tuple(map(roles_of.get, order))
        return order, of_links, (tuple(cables), values, roles)


def _outside(name: str, above: Sequence[Mapping[str, int]]) -> _Label:
    """Return a label for a node or link outside a part: its place in the smallest common part."""
    for distance, labels in enumerate(above):
        if name in labels:
            return distance, labels[name]
    return name


def _common(first: _Part, second: _Part) -> _Part:
    """Return the smallest part that contains both."""
    depth = 0
    while depth < min(len(first), len(second)) and first[depth] == second[depth]:
        depth += 1
    return first[:depth]


def _has_unique_routes(platform: Platform, sources: Iterable[str]) -> bool:
    """Return whether each source has exactly one shortest route to each host."""
    hosts = _hosts_of_flows(platform)
    from_each = (_shortest_ways(platform.edges, source) for source in sources)
    return all(ways.get(host) == 1 for ways in from_each for host in hosts)


def _hosts_of_flows(platform: Platform) -> list[str]:
    return [name for name, role in platform.roles.items() if role != "controller"]


def _shortest_ways(edges: Mapping[str, tuple[Hop, ...]], source: str) -> dict[str, int]:
    """Return how many routes of the fewest links lead from a host to each node."""
    costs, ways = {source: 0}, {source: 1}
    queue, done = [(0, source)], set[str]()
    while queue:
        cost, node = heapq.heappop(queue)
        if node in done:
            continue
        done.add(node)
        for neighbour, cable in edges[node]:
            length = cost + len(cable)
            if length < costs.get(neighbour, length + 1):
                costs[neighbour], ways[neighbour] = length, ways[node]
                heapq.heappush(queue, (length, neighbour))
            elif length == costs[neighbour] and neighbour not in done:
                ways[neighbour] += ways[node]
    return ways
