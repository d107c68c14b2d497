"""GPUs that are cut off by failed parts of the network, and servers that lose bandwidth.

In a rail-optimised fabric, a leaf switch serves one GPU of each server below it. If it fails, these
GPUs still reach the network over NVLink and a neighbour's adapter on another rail (NCCL's PXN). So
the servers become slower, and no GPU is cut off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.platforms import xml_names
from faultline.platforms.errors import PlatformError
from faultline.platforms.fabric import switch_levels
from faultline.platforms.kept_results import kept
from faultline.platforms.platform_data import Hop, Platform
from faultline.platforms.xml_reader import content_digest, platform_at

_Node = tuple[str, str]
"""A kind ("point", or a link's direction and end), and the name."""

if TYPE_CHECKING:
    import networkx as nx

_SOURCE: _Node = ("source", "")
_SINK: _Node = ("sink", "")


@dataclass(frozen=True)
class Outage:
    """The effect of failed switches and links of the network.

    Attributes
    ----------
    cut_off
        GPU hosts without a path to the top layer of the network, not even over NVLink and a
        neighbour's adapter. A group that has one of them cannot continue.
    bandwidth_left
        Share of the network bandwidth that a GPU keeps if all GPUs send at once, from 0 to 1, by
        server number. Only servers that lose bandwidth are listed. The share assumes an ideal
        spread over the cables: hashed flows may get less.
    """

    cut_off: tuple[str, ...]
    bandwidth_left: Mapping[int, float]


def outage_of(platform: Platform, parts: Iterable[str]) -> Outage:
    """Return the effect of switches and links, given by name, that fail together.

    NVLink lets the GPUs of a scale-up domain share all its adapters. Each domain gets a share of a
    switch's uplinks, in proportion to its adapters below the switch.

    Raises PlatformError if the switches and cables of the platform are unknown.
    """
    _check_known(platform)
    return _paths_of(platform).outage(set(parts))


def gpus_cut_off_by_a_leaf_switch(platform: Platform) -> int | None:
    """Return how many GPUs a failed leaf switch cuts off; 0 if all have another path.

    Each leaf switch cuts off this many consecutive GPUs; the last one may cut off fewer. The
    result is None if a leaf switch breaks this rule, or if the switches are unknown.
    """
    if platform.is_foreign:
        return None
    levels = switch_levels(platform)
    paths = _paths_of(platform)
    numbers = {name: number for number, name in enumerate(platform.gpu_names)}
    runs = [
        sorted(numbers[name] for name in paths.cut_off({switch}))
        for switch, level in levels.items()
        if level == 1
    ]
    if not any(runs):
        return 0
    size = max(map(len, runs))
    starts = range(0, len(numbers), size)
    expected = [list(range(start, min(start + size, len(numbers)))) for start in starts]
    return size if sorted(runs) == expected else None


def with_detours(platform: Platform, parts: Iterable[str]) -> tuple[str, ...]:
    """Return the switches and links that can fail without cutting a GPU off from the top layer."""
    paths = _paths_of(platform)
    return tuple(part for part in parts if not paths.cut_off({part}))


def cables_between_switches(platform: Platform) -> tuple[str, ...]:
    """Return the links between two network switches, sorted by name; a trunk is one link."""
    levels = switch_levels(platform)
    hops = (hop for switch in levels for hop in platform.edges[switch])
    return tuple(sorted({link for end, cable in hops if end in levels for link in cable}))


def _links_of_gpu(cables: Iterable[Hop], network: Container[str], level: str) -> tuple[str, ...]:
    """Return a GPU's links to its NVSwitches, or its PCIe links or adapters to the network."""
    if level == "nvlink":
        nvlinks = (
            cable for end, cable in cables if xml_names.link_class(end) == xml_names.NVSWITCH
        )
        return tuple(link for cable in nvlinks for link in cable)
    outward = [cable for end, cable in cables if end in network]
    if level == "adapter":
        return tuple(cable[-1] for cable in outward)
    return tuple(dict.fromkeys(link for cable in outward for link in cable[:-1]))


def links_of_component(platform: Platform, level: str, number: int) -> tuple[str, ...]:
    """Return the links of a component of the network or of NVLink; other levels have none.

    The level is "nvlink", "pcie" or "adapter" of a GPU, "switch" or "cable". Switches are counted
    from the leaf switches up, cables between switches by name.

    Raises PlatformError if the switches and cables of the platform are unknown.
    """
    if level in ("nvlink", "pcie", "adapter", "cable", "switch"):
        _check_known(platform)
    if level in ("nvlink", "pcie", "adapter"):
        gpu = platform.gpus[number // platform.gpus_per_rank].name
        return _links_of_gpu(platform.edges[gpu], switch_levels(platform), level)
    if level == "cable":
        cables = cables_between_switches(platform)
        return (cables[number % len(cables)],) if cables else ()
    if level != "switch":
        return ()
    switches = tuple(switch_levels(platform))
    hops = platform.edges[switches[number % len(switches)]]
    return tuple(sorted({link for _, cable in hops for link in cable}))


def _check_known(platform: Platform) -> None:
    if platform.is_foreign:
        raise PlatformError(
            "its switches and cables are unknown, so only failures of GPUs, hosts and domains can "
            "be simulated; describe the cluster in a spec for faultline platform generate",
            str(platform.path),
        )


def bandwidths_with_parts_down(platform: Platform, parts: Sequence[str]) -> dict[str, float]:
    """Return the share of bandwidth left on each slower link if some switches or links fail.

    The parts fail together. The traffic of failed links moves to the adapters and cables beside
    them. So each adapter of a slower server, and each cable that serves only such servers, keeps
    the share that the server keeps.
    """
    if not parts:
        return {}
    paths = _paths_of(platform)
    outage = paths.outage(set(parts))
    left = dict.fromkeys(platform.domains, 1.0)
    for gpu in platform.gpus:
        left[gpu.domain] = min(left[gpu.domain], outage.bandwidth_left.get(gpu.server, 1.0))
    levels = switch_levels(platform)
    adapters = (
        link
        for gpu in platform.gpus
        for link in _links_of_gpu(platform.edges[gpu.name], levels, "adapter")
    )
    shares = {
        link: max(left[domain] for domain in paths.domains_at(link))
        for link in (*adapters, *cables_between_switches(platform))
        if paths.domains_at(link)
    }
    return {link: share for link, share in shares.items() if share < 1.0}


def bandwidths_left(
    path: Path, links: tuple[tuple[str, float], ...], parts_down: tuple[str, ...]
) -> tuple[tuple[str, float], ...]:
    """Return the share of bandwidth left on each slower link of a platform's file, by name.

    Some `links` have a share left, and the switches and links of `parts_down` have failed.
    """
    if not (links or parts_down):
        return ()
    return _bandwidths_left(path, path.stat().st_mtime_ns, links, parts_down)


@lru_cache(maxsize=256)
def _bandwidths_left(
    path: Path,
    _changed_ns: int,
    links: tuple[tuple[str, float], ...],
    parts_down: tuple[str, ...],
) -> tuple[tuple[str, float], ...]:
    left = dict[str, float]()
    if parts_down:
        # Paths around them take half a second on 4,096 GPUs.
        key = content_digest(path), parts_down
        left |= kept(
            "bandwidths", key, lambda: bandwidths_with_parts_down(platform_at(path), parts_down)
        )
    for link, share in links:
        left[link] = min(share, left.get(link, 1.0))
    return tuple(sorted(left.items()))


_cached: list[tuple[Platform, _Paths]] = []
"""The last platform and its paths: for 4,096 GPUs it takes a second to find them."""


def _paths_of(platform: Platform) -> _Paths:
    """Return the paths of a platform; those of the last platform are cached."""
    if not (_cached and _cached[0][0] is platform):
        _cached[:] = [(platform, _Paths(platform))]
    return _cached[0][1]


_Despite = tuple[int, frozenset[int]]
"""The form of a domain, and the places in it of failed parts."""


class _Paths:
    """The paths of each scale-up domain to the top layer of the network."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._levels = switch_levels(platform)
        self._top = max(self._levels.values(), default=0)
        self._shares = self._shares_of_switches()
        # The property groups all GPUs at each access.
        self._domains = platform.domains
        self._graphs = {domain: self._graph(domain) for domain in self._domains}
        # Domains of equal form have equal flows, and lose the paths of the same nodes.
        self._nodes = {domain: tuple(graph) for domain, graph in self._graphs.items()}
        self._places: dict[int, dict[str, list[int]]] = {}
        for domain, nodes in self._nodes.items():
            places = self._places[domain] = defaultdict(list)
            for place, (_, name) in enumerate(nodes):
                places[name].append(place)
        self._forms = {domain: self._form(domain) for domain in self._graphs}
        self._flows: dict[_Despite, float] = {}
        self._reached: dict[_Despite, frozenset[int]] = {}
        self._gpus = {domain: {gpu.name for gpu in gpus} for domain, gpus in self._domains.items()}
        self._connected = {domain: self._connected_to_top(domain) for domain in self._graphs}
        self._domains_at: dict[str, set[int]] = {}
        for domain, graph in self._graphs.items():
            for _, name in graph:
                self._domains_at.setdefault(name, set()).add(domain)

    def outage(self, failed: Collection[str]) -> Outage:
        """Return the effect of some failed switches and links."""
        left: dict[int, float] = {}
        for domain, connected in self._connected_despite(failed):
            if not connected:
                continue
            before = self._flow(domain) / len(self._connected[domain])
            share = self._flow(domain, failed) / len(connected) / before
            if share < 1 - 1e-9:
                gpus = (gpu for gpu in self._domains[domain] if gpu.name in connected)
                left.update((gpu.server, share) for gpu in gpus)
        return Outage(tuple(sorted(self.cut_off(failed))), left)

    def _form(self, domain: int) -> int:
        """Return a number that is equal for domains whose graphs differ only in their names."""
        places = {node: place for place, node in enumerate(self._nodes[domain])}
        cables = self._graphs[domain].edges(data="capacity")
        return hash(tuple((places[near], places[far], width) for near, far, width in cables))

    def _despite(self, domain: int, failed: Collection[str]) -> _Despite:
        """Return a domain's form, and the places in it of failed parts."""
        places = self._places[domain]
        gone = (place for name in failed for place in places.get(name, ()))
        return self._forms[domain], frozenset(gone)

    def _flow(self, domain: int, failed: Collection[str] = ()) -> float:
        """Return the largest flow from the GPUs of a domain to the top layer."""
        despite = self._despite(domain, failed)
        if despite not in self._flows:
            self._flows[despite] = _largest_flow(self._graphs[domain], failed)
        return self._flows[despite]

    def _connected_to_top(self, domain: int, failed: Collection[str] = ()) -> set[str]:
        """Return the GPUs of a domain with a path to the top layer."""
        despite, nodes = self._despite(domain, failed), self._nodes[domain]
        if despite not in self._reached:
            connected = _connected(self._graphs[domain], failed) & self._gpus[domain]
            self._reached[despite] = frozenset(
                place for place, (_, name) in enumerate(nodes) if name in connected
            )
        return {nodes[place][1] for place in self._reached[despite]}

    def domains_at(self, name: str) -> Collection[int]:
        """Return the domains that have paths over a host, switch or link."""
        return self._domains_at.get(name, ())

    def cut_off(self, failed: Collection[str]) -> set[str]:
        """Return the GPU hosts that are cut off if some hosts, switches and links fail."""
        return {
            name
            for domain, connected in self._connected_despite(failed)
            for name in self._connected[domain] - connected
        }

    def _connected_despite(self, failed: Collection[str]) -> Iterator[tuple[int, set[str]]]:
        """Yield the domains with paths over failed parts, and their GPUs that keep a path."""
        for domain in sorted(set().union(*map(self.domains_at, failed))):
            yield domain, self._connected_to_top(domain, failed)

    def _graph(self, domain: int) -> nx.DiGraph[_Node]:
        """Return the cables from the GPUs of a domain upwards, and its NVLink."""
        import networkx as nx

        graph: nx.DiGraph[_Node] = nx.DiGraph()
        names = dict.fromkeys(gpu.name for gpu in self._domains[domain])
        graph.add_node(_SINK)
        for name in names:
            graph.add_edge(_SOURCE, ("point", name))
        seen, stack = set(names), list(names)
        while stack:
            name = stack.pop()
            level = self._levels.get(name, 0)
            if level == self._top:
                graph.add_edge(("point", name), _SINK)
            share = self._shares[name][domain] if level else 1.0
            for neighbour, cable in self._platform.edges.get(name, ()):
                is_nvlink = xml_names.link_class(neighbour) == xml_names.NVSWITCH
                is_gpu = neighbour in names
                is_up = is_nvlink or self._levels.get(neighbour, 0) > level
                if not (is_up or is_gpu) or (is_gpu and level):
                    continue
                # A link has a capacity each way. Cables that share the link share its nodes.
                way = "in" if is_gpu else "out"
                ends: list[_Node] = [("point", name)]
                for link in cable:
                    width = self._platform.links[link].bandwidth_bytes_per_s * share
                    graph.add_edge(
                        (f"{way}, near end", link), (f"{way}, far end", link), capacity=width
                    )
                    ends += [(f"{way}, near end", link), (f"{way}, far end", link)]
                ends.append(("point", neighbour))
                graph.add_edges_from(zip(ends[::2], ends[1::2], strict=True))
                if neighbour not in seen:
                    seen.add(neighbour)
                    stack.append(neighbour)
        return graph

    def _shares_of_switches(self) -> dict[str, dict[int, float]]:
        """Return each domain's share of the adapters below each switch that it reaches."""
        domain_of = {gpu.name: gpu.domain for gpu in self._platform.gpus}
        ports: dict[str, dict[str, int]] = {switch: {} for switch in self._levels}
        for gpu, domain in domain_of.items():
            for neighbour, cable in self._platform.edges.get(gpu, ()):
                if neighbour in ports:
                    ports[neighbour][cable[-1]] = domain
        for switch in sorted(self._levels, key=self._levels.__getitem__):
            for above, _ in self._platform.edges.get(switch, ()):
                if self._levels.get(above, 0) > self._levels[switch]:
                    ports[above].update(ports[switch])
        shares: dict[str, dict[int, float]] = {}
        for switch, below in ports.items():
            widths: dict[int, float] = {}
            for port, domain in below.items():
                width = self._platform.links[port].bandwidth_bytes_per_s
                widths[domain] = widths.get(domain, 0.0) + width
            total = sum(widths.values())
            shares[switch] = {domain: width / total for domain, width in widths.items()}
        return shares


def _connected(graph: nx.DiGraph[_Node], failed: Collection[str] = ()) -> set[str]:
    """Return the names of all nodes with a path to the top layer."""
    seen, stack = {_SINK}, [_SINK]
    while stack:
        for node in graph.pred[stack.pop()]:
            if node not in seen and node[1] not in failed:
                seen.add(node)
                stack.append(node)
    return {name for _, name in seen}


def _largest_flow(graph: nx.DiGraph[_Node], failed: Collection[str] = ()) -> float:
    import networkx as nx

    working = graph.subgraph([node for node in graph if node[1] not in failed])
    return float(nx.maximum_flow_value(working, _SOURCE, _SINK))
