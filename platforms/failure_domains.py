"""Failure domains: each component of a platform, and the GPUs and links that fail with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from faultline.platforms import xml_names
from faultline.platforms.fabric import network_switches, switch_levels
from faultline.platforms.platform_data import GpuHost, Platform

Level = Literal["gpu", "host", "domain", "rack", "switch", "link"]

# The crossbar of an NVSwitch fails with its switch.
_NO_LINKS = {xml_names.MANAGEMENT, xml_names.NVSWITCH}

VITAL_LINKS = {"nvlink", "hostlink", "hostmemory"}
"""Links that are on no network path, but that each job needs."""


@dataclass(frozen=True)
class FailureDomain:
    """A component that fails as one.

    Attributes
    ----------
    name
        ``gpu-000017``, ``host-00002``, ``domain-00002``, ``rack-00000``, or the name of the switch
        or link. Unique among the components of a platform.
    level
        Kind of component.
    gpus
        GPU hosts that fail, or are cut off from the network or from their NVLink domain. A job
        that has one of them cannot continue unchanged.
    links
        Links that fail: those that lead nowhere without the component.
    """

    name: str
    level: Level
    gpus: tuple[str, ...]
    links: tuple[str, ...]


def failure_domains(platform: Platform) -> tuple[FailureDomain, ...]:
    """Return each GPU, host, scale-up domain, rack, switch and link of a platform.

    With adaptive routing, all uplinks of a switch are one trunk, and the spines of a layer are one
    switch. Each fails as a whole here. A single failed cable or spine of many would take some
    bandwidth and cut no GPU off. A file that names no racks has none here. The management network
    does not fail.

    Here a GPU is cut off if the path of its own adapter is lost. `platforms.outages` also counts
    the path over NVLink and a neighbour's adapter, and computes the bandwidth left.
    """
    return tuple(_Components(platform).all())


class _Components:
    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.cables: dict[str, set[tuple[str, str]]] = {}
        self.links_at: dict[str, set[str]] = {}
        for source, hops in platform.edges.items():
            for destination, cable in hops:
                for link in cable:
                    if xml_names.link_class(link) == xml_names.MANAGEMENT:
                        continue
                    self.cables.setdefault(link, set()).add((source, destination))
                    self.links_at.setdefault(source, set()).add(link)
                    self.links_at.setdefault(destination, set()).add(link)
        self.cut_off = _cut_off(platform)

    def all(self) -> Iterator[FailureDomain]:
        """Yield all components, level by level."""
        platform = self.platform
        for gpu in platform.gpus:
            yield FailureDomain(gpu.name, "gpu", (gpu.name,), self._links(self._with_doors([gpu])))
        for host, gpus in platform.hosts.items():
            if host >= 0:
                yield self._group("host", host, gpus, self._with_doors(gpus))
        racks: dict[int, list[GpuHost]] = {}
        for gpu in platform.gpus:
            racks.setdefault(gpu.rack, []).append(gpu)
        for domain, gpus in platform.domains.items():
            if domain >= 0:
                yield self._group("domain", domain, gpus, self._with_nvswitches(gpus))
        for rack, in_rack in racks.items():
            if rack >= 0:
                yield self._group("rack", rack, in_rack, self._with_nvswitches(in_rack))
        yield from self._nvswitches()
        for switch in network_switches(platform):
            yield self._single(switch, "switch", self._links({switch}))
        for link in platform.links:
            if xml_names.link_class(link) not in _NO_LINKS:
                yield self._single(link, "link", (link,))

    def _group(
        self, level: Level, number: int, gpus: Collection[GpuHost], points: Collection[str]
    ) -> FailureDomain:
        names = tuple(gpu.name for gpu in gpus)
        return FailureDomain(f"{level}-{number:05d}", level, names, self._links(points))

    def _nvswitches(self) -> Iterator[FailureDomain]:
        ports: dict[str, set[str]] = {}
        for name in self.platform.switches:
            if xml_names.link_class(name) == xml_names.NVSWITCH:
                switch = name.removesuffix("-in").removesuffix("-out")
                ports.setdefault(switch, set()).add(name)
        for switch, points in ports.items():
            links = self._links(points)
            yield FailureDomain(switch, "switch", self._gpus_at(links), links)

    def _single(self, name: str, level: Level, links: tuple[str, ...]) -> FailureDomain:
        gpus = set(self.cut_off.get(name, ()))
        if xml_names.link_class(name) in VITAL_LINKS:
            gpus.update(self._gpus_at([name]))
        return FailureDomain(name, level, tuple(sorted(gpus)), links)

    def _gpus_at(self, links: Iterable[str]) -> tuple[str, ...]:
        ends = {end for link in links for cable in self.cables.get(link, ()) for end in cable}
        return tuple(sorted(end for end in ends if self.platform.roles.get(end) == "gpu"))

    def _with_doors(self, gpus: Collection[GpuHost]) -> set[str]:
        """Return GPU hosts and their doors to memory and disks."""
        points = {gpu.name for gpu in gpus}
        for gpu in gpus:
            doors = (self.platform.memory_of(gpu.name), self.platform.disk_of(gpu.name))
            points.update(door for door in doors if door is not None)
        return points

    def _with_nvswitches(self, gpus: Collection[GpuHost]) -> set[str]:
        """Return GPU hosts, their doors, and both ports of their NVSwitches."""
        links = {link for gpu in gpus for link in self.links_at.get(gpu.name, ())}
        ends = {end for link in links for cable in self.cables[link] for end in cable}
        ports = {end for end in ends if xml_names.link_class(end) == xml_names.NVSWITCH}
        return self._with_doors(gpus) | ports

    def _links(self, points: Collection[str]) -> tuple[str, ...]:
        """Return the links that are only on cables with an end at one of these points."""
        candidates = {link for point in points for link in self.links_at.get(point, ())}
        return tuple(
            sorted(
                link
                for link in candidates
                if all(one in points or other in points for one, other in self.cables[link])
            )
        )


def _cut_off(platform: Platform) -> dict[str, list[str]]:
    """Return the GPUs that each switch and link of the network cuts off if it fails.

    In a graph of switches, links and GPUs, it dominates these GPUs on all paths from the top
    layer. GPUs forward no traffic.
    """
    import networkx as nx

    levels = switch_levels(platform)
    graph: nx.DiGraph[str] = nx.DiGraph()
    top = max(levels.values(), default=0)
    for switch, level in levels.items():
        if level == top:
            graph.add_edge("", switch)
        for neighbour, cable in platform.edges[switch]:
            if neighbour in levels or platform.roles.get(neighbour) == "gpu":
                # A link may have the name of a switch or host, so links get a prefix.
                nx.add_path(graph, (switch, *(f"link {name}" for name in cable), neighbour))
    if top == 0:
        return {}
    above = nx.immediate_dominators(graph, "")
    found: dict[str, list[str]] = {}
    for gpu in platform.gpu_names:
        here = above.get(gpu)
        while here:
            found.setdefault(here.removeprefix("link "), []).append(gpu)
            here = above[here]
    return found
