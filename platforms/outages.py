"""GPUs that failed parts of the network cut off, and servers that lose network bandwidth.

In a rail-optimised fabric, a leaf switch serves one GPU of each server below it. If it fails, these
GPUs still reach the network over NVLink and a neighbour's adapter on another rail (NCCL's PXN). So
the servers become slower, and no GPU is cut off.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from faultline.platforms import xml_names
from faultline.platforms.fabric import switch_levels
from faultline.platforms.platform_data import Hop, Platform

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
    """Return the effect of switches and links that fail together, by their names.

    NVLink lets the GPUs of a scale-up domain share all its adapters. Each domain gets a share of a
    switch's uplinks, in proportion to its adapters below the switch.
    """
    return _ways_of(platform).outage(set(parts))


def gpus_cut_off_by_a_leaf_switch(platform: Platform) -> int | None:
    """Return how many GPUs a failed leaf switch cuts off; 0 if all have another path.

    Each leaf switch cuts off this many consecutive GPUs; the last one may cut off fewer. The
    result is None if a leaf switch breaks this rule.
    """
    levels = switch_levels(platform)
    ways = _ways_of(platform)
    numbers = {name: number for number, name in enumerate(platform.gpu_names)}
    runs = [
        sorted(numbers[name] for name in ways.cut_off({switch}))
        for switch, level in levels.items()
        if level == 1
    ]
    if not any(runs):
        return 0
    size = max(map(len, runs))
    starts = range(0, len(numbers), size)
    expected = [list(range(start, min(start + size, len(numbers)))) for start in starts]
    return size if sorted(runs) == expected else None


def switches_with_a_way_around(platform: Platform) -> tuple[str, ...]:
    """Return the network switches that can fail without cutting a GPU off from the top layer."""
    return _with_a_way_around(platform, switch_levels(platform))


def cables_with_a_way_around(platform: Platform) -> tuple[str, ...]:
    """Return the cables between switches that can fail without cutting a GPU off."""
    return _with_a_way_around(platform, cables_between_switches(platform))


def _with_a_way_around(platform: Platform, parts: Iterable[str]) -> tuple[str, ...]:
    ways = _ways_of(platform)
    return tuple(part for part in parts if not ways.cut_off({part}))


def cables_between_switches(platform: Platform) -> tuple[str, ...]:
    """Return the links between two network switches, sorted by name; a trunk is one link."""
    levels = switch_levels(platform)
    cables = (cable for here in levels for near, cable in platform.edges[here] if near in levels)
    return tuple(sorted({link for cable in cables for link in cable}))


def _links_of_gpu(cables: Iterable[Hop], network: Container[str], level: str) -> tuple[str, ...]:
    """Return a GPU's links to its NVSwitches, or its PCIe links or adapters to the network."""
    if level == "nvlink":
        scale_up = xml_names.NVSWITCH
        mine = (cable for near, cable in cables if xml_names.link_class(near) == scale_up)
        return tuple(link for cable in mine for link in cable)
    outward = [cable for neighbour, cable in cables if neighbour in network]
    if level == "adapter":
        return tuple(cable[-1] for cable in outward)
    return tuple(dict.fromkeys(link for cable in outward for link in cable[:-1]))


def links_of_component(platform: Platform, level: str, number: int) -> tuple[str, ...]:
    """Return the links of a component of the network or of NVLink; other levels have none.

    The level is "nvlink", "pcie" or "adapter" of a GPU, "switch" or "cable". Switches are counted
    from the leaf switches up, cables between switches by name.
    """
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


def bandwidths_with_parts_down(platform: Platform, parts: Sequence[str]) -> dict[str, float]:
    """Return the share of bandwidth left on each slower link if some switches or links fail.

    The parts fail together. The traffic of failed links moves to the adapters and cables beside
    them. So each adapter of a slower server, and each cable that serves only such servers, keeps
    the share that the server keeps.
    """
    if not parts:
        return {}
    ways = _ways_of(platform)
    outage = ways.outage(set(parts))
    left = dict.fromkeys(platform.domains, 1.0)
    for gpu in platform.gpus:
        server = gpu.domain if gpu.host < 0 else gpu.host
        left[gpu.domain] = min(left[gpu.domain], outage.bandwidth_left.get(server, 1.0))
    levels = switch_levels(platform)
    adapters = (
        link
        for gpu in platform.gpus
        for link in _links_of_gpu(platform.edges[gpu.name], levels, "adapter")
    )
    shares = {
        link: max(left[domain] for domain in ways.domains_at(link))
        for link in (*adapters, *cables_between_switches(platform))
        if ways.domains_at(link)
    }
    return {link: share for link, share in shares.items() if share < 1.0}


_last: list[tuple[Platform, _Ways]] = []
"""The platform whose paths were found last: to find them takes a second for 4,096 GPUs."""


def _ways_of(platform: Platform) -> _Ways:
    """Return the paths of a platform; those of the last one are kept."""
    if not (_last and _last[0][0] is platform):
        _last[:] = [(platform, _Ways(platform))]
    return _last[0][1]


class _Ways:
    """The paths of each scale-up domain to the top layer of the network."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._levels = switch_levels(platform)
        self._top = max(self._levels.values(), default=0)
        self._shares = self._shares_of_switches()
        # The property groups all GPUs at each access.
        self._domains = platform.domains
        self._graphs = {domain: self._graph(domain) for domain in self._domains}
        gpus = set(platform.gpu_names)
        self._reaching = {domain: _reaching(graph) & gpus for domain, graph in self._graphs.items()}
        self._before = cache(lambda domain: _largest_flow(self._graphs[domain]))
        self._domains_at: dict[str, set[int]] = {}
        for domain, graph in self._graphs.items():
            for _, name in graph:
                self._domains_at.setdefault(name, set()).add(domain)

    def outage(self, gone: Collection[str]) -> Outage:
        """Return the effect of some failed switches and links."""
        left: dict[int, float] = {}
        for domain, still in self._reaching_with_parts_down(gone):
            if not still:
                continue
            before = self._before(domain) / len(self._reaching[domain])
            share = _largest_flow(self._graphs[domain], gone) / len(still) / before
            if share < 1 - 1e-9:
                gpus = (gpu for gpu in self._domains[domain] if gpu.name in still)
                left.update((gpu.domain if gpu.host < 0 else gpu.host, share) for gpu in gpus)
        return Outage(tuple(sorted(self.cut_off(gone))), left)

    def domains_at(self, name: str) -> Collection[int]:
        """Return the domains that have paths over a host, switch or link."""
        return self._domains_at.get(name, ())

    def cut_off(self, gone: Collection[str]) -> set[str]:
        """Return the GPU hosts that are cut off if some hosts, switches and links fail."""
        return {
            name
            for domain, still in self._reaching_with_parts_down(gone)
            for name in self._reaching[domain] - still
        }

    def _reaching_with_parts_down(self, gone: Collection[str]) -> Iterator[tuple[int, set[str]]]:
        """Yield the domains with paths over failed parts, and their GPUs that keep a path."""
        for domain in sorted(set().union(*(self._domains_at.get(name, ()) for name in gone))):
            reaching = _reaching(self._graphs[domain], gone)
            yield domain, reaching & self._reaching[domain]

    def _graph(self, domain: int) -> nx.DiGraph[_Node]:
        """Return the cables from the GPUs of a domain upwards, and its NVLink."""
        import networkx as nx

        graph: nx.DiGraph[_Node] = nx.DiGraph()
        names = {gpu.name for gpu in self._domains[domain]}
        graph.add_node(_SINK)
        for name in names:
            graph.add_edge(_SOURCE, ("point", name))
        seen, stack = set(names), list(names)
        while stack:
            here = stack.pop()
            level = self._levels.get(here, 0)
            if level == self._top:
                graph.add_edge(("point", here), _SINK)
            share = self._shares[here][domain] if level else 1.0
            for neighbour, cable in self._platform.edges.get(here, ()):
                is_nvlink = xml_names.link_class(neighbour) == xml_names.NVSWITCH
                to_gpu = neighbour in names
                if not (is_nvlink or to_gpu or self._levels.get(neighbour, 0) > level):
                    continue
                if to_gpu and level:
                    continue
                # A link has a capacity each way. Cables that share the link share its nodes.
                way = "in" if to_gpu else "out"
                ends: list[_Node] = [("point", here)]
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
            whole = sum(widths.values())
            shares[switch] = {domain: width / whole for domain, width in widths.items()}
        return shares


def _reaching(graph: nx.DiGraph[_Node], gone: Collection[str] = ()) -> set[str]:
    """Return the names of all nodes with a path to the top layer."""
    seen, stack = {_SINK}, [_SINK]
    while stack:
        for node in graph.pred[stack.pop()]:
            if node not in seen and node[1] not in gone:
                seen.add(node)
                stack.append(node)
    return {name for _, name in seen}


def _largest_flow(graph: nx.DiGraph[_Node], gone: Collection[str] = ()) -> float:
    import networkx as nx

    left = graph.subgraph([node for node in graph if node[1] not in gone])
    return float(nx.maximum_flow_value(left, _SOURCE, _SINK))
