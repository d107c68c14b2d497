"""Aggregate bandwidths of a platform file: oversubscription, bisection, storage.

All values are computed from the links and cables of the file, not from its spec. So they also hold
for an edited file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count, pairwise

from faultline.platforms import xml_names
from faultline.platforms.platform_data import Hop, Platform

_NO_NETWORK = {xml_names.NVSWITCH, xml_names.MANAGEMENT}


@dataclass(frozen=True)
class Layer:
    """The switches of one layer, and the bandwidth of all their links down and up, each way."""

    name: str  # Kind of switch: ``leaf``, ``pod``, ``core``.
    switches: int
    down_bytes_per_s: float
    up_bytes_per_s: float
    oversubscription: tuple[float, float] | None  # Best and worst switch; None without uplinks.


@dataclass(frozen=True)
class Bisection:
    """Network bandwidth between the first and the second half of the domains, each way.

    `bandwidth_bytes_per_s` is the maximum flow between the halves. `full_bytes_per_s` is the
    bandwidth of all network adapters of the half that has less.
    """

    bandwidth_bytes_per_s: float
    full_bytes_per_s: float


@dataclass(frozen=True)
class StorageRates:
    """Aggregate bandwidths of the file system, and the limit of one transfer (bytes/s)."""

    read_bytes_per_s: float
    write_bytes_per_s: float
    client_bytes_per_s: float | None


def network_switches(platform: Platform) -> list[str]:
    """Return the switches of the scale-out network: no NVSwitches, no management."""
    return [name for name in platform.switches if xml_names.link_class(name) not in _NO_NETWORK]


def switch_levels(platform: Platform) -> dict[str, int]:
    """Return the layer of each network switch: 1 is next to the GPUs."""
    network = set(network_switches(platform))
    levels: dict[str, int] = {}
    front: Iterable[str] = platform.gpu_names
    for level in count(1):
        hops = (hop for name in front for hop, _ in platform.edges.get(name, ()))
        front = sorted(network.intersection(hops) - levels.keys())
        if not front:
            break
        levels |= dict.fromkeys(front, level)
    return levels


def fabric_layers(platform: Platform) -> list[Layer]:
    """Return the layers of the network, from the leaf switches up."""
    levels = switch_levels(platform)
    layers = []
    for level in sorted(set(levels.values())):
        members = [name for name, its_level in levels.items() if its_level == level]
        downs, ups = [], []
        for name in members:
            hops = platform.edges[name]
            up = [hop for hop in hops if levels.get(hop[0], 0) > level]
            down = [
                hop
                for hop in hops
                if 0 < levels.get(hop[0], 0) < level or platform.roles.get(hop[0]) == "gpu"
            ]
            ups.append(_width(platform, up))
            downs.append(_width(platform, down))
        ratios = [down / up for down, up in zip(downs, ups, strict=True) if up]
        layers.append(
            Layer(
                xml_names.link_class(members[0]),
                len(members),
                sum(downs),
                sum(ups),
                (min(ratios), max(ratios)) if ratios else None,
            )
        )
    return layers


def bisection(platform: Platform) -> Bisection | None:
    """Return the bandwidth between two halves of the domains, or None if there is one domain.

    It is the maximum flow over network switches. NVLink and other GPUs forward no traffic.
    """
    import networkx as nx

    domains = list(platform.domains.values())
    if len(domains) < 2:
        return None
    middle = len(domains) // 2
    halves = [
        [gpu.name for domain in part for gpu in domain]
        for part in (domains[:middle], domains[middle:])
    ]
    if platform.is_foreign:
        return _bisection_of_routes(platform, *map(frozenset, halves))
    network = set(network_switches(platform))
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(("first half", "second half"))
    for switch in network:
        for neighbour, cable in platform.edges.get(switch, ()):
            if neighbour in network:
                width = min(platform.links[name].bandwidth_bytes_per_s for name in cable)
                graph.add_edge(switch, neighbour, capacity=width)
    totals = []
    for half, is_source in ((halves[0], True), (halves[1], False)):
        ports: dict[str, list[Hop]] = {}
        for gpu in half:
            for neighbour, cable in platform.edges.get(gpu, ()):
                if neighbour in network:
                    # `_width` expects the switch's port first.
                    ports.setdefault(neighbour, []).append((gpu, cable[::-1]))
        widths = {switch: _width(platform, cables) for switch, cables in ports.items()}
        totals.append(sum(widths.values()))
        for switch, width in widths.items():
            ends = ("first half", switch) if is_source else (switch, "second half")
            graph.add_edge(*ends, capacity=width)
    flow = nx.maximum_flow_value(graph, "first half", "second half")
    return Bisection(float(flow), min(totals))


_MOST_GPUS_BISECTED = 4096


def _bisection_of_routes(
    platform: Platform, first: frozenset[str], second: frozenset[str]
) -> Bisection | None:
    """Return the maximum flow from one half to the other over the links of their routes.

    A flow may change between routes that share a link. None if there are too many GPUs.
    """
    import networkx as nx

    if len(platform.gpus) > _MOST_GPUS_BISECTED:
        return None
    routes = list(_routes_between(platform, first, second))
    capacities = _capacities_each_way(platform, routes, _routes_between(platform, second, first))
    graph: nx.DiGraph[tuple[str, str]] = nx.DiGraph()
    source, sink = ("end", "first half"), ("end", "second half")
    graph.add_nodes_from((source, sink))
    for link, capacity in capacities.items():
        graph.add_edge(("into", link), ("out of", link), capacity=capacity)
    for _, links in routes:
        graph.add_edge(source, ("into", links[0]))
        graph.add_edge(("out of", links[-1]), sink)
        graph.add_edges_from(
            (("out of", one), ("into", next_one)) for one, next_one in pairwise(links)
        )
    ports = {links[0] for _, links in routes}, {links[-1] for _, links in routes}
    flow = nx.maximum_flow_value(graph, source, sink)
    return Bisection(float(flow), min(sum(map(capacities.__getitem__, each)) for each in ports))


_Routes = Iterable[tuple[str, tuple[str, ...]]]
"""The source of each route, and its links."""


def _routes_between(platform: Platform, starts: frozenset[str], ends: frozenset[str]) -> _Routes:
    for start in sorted(starts):
        for end, links in platform.flow_routes.get(start, ()):
            if end in ends:
                yield start, links


def _capacities_each_way(platform: Platform, routes: _Routes, back: _Routes) -> dict[str, float]:
    """Return the bandwidth of each link for the flows of routes, with equal flows on those back.

    Flows of both directions share a link, unless it is split. A fat pipe limits each flow: it
    counts once for each GPU that sends over it.
    """
    both_ways = {link for _, links in back for link in links}
    senders: dict[str, set[str]] = {}
    for start, links in routes:
        for link in links:
            senders.setdefault(link, set()).add(start)
    capacities = {}
    for name, starts in senders.items():
        known = platform.links[name]
        if known.sharing == "FATPIPE":
            share = float(len(starts))
        else:
            share = 0.5 if name in both_ways else 1.0
        capacities[name] = share * known.bandwidth_bytes_per_s
    return capacities


def storage_rates(platform: Platform) -> StorageRates | None:
    """Return the rates of the file system, or None if the platform has no storage."""
    if platform.storage is None or not platform.gpus:
        return None
    # A cable to the top layer; of a foreign file, the route to a GPU.
    hops = platform.edges[platform.storage] or platform.flow_routes[platform.storage]
    neighbour, cable = hops[0]
    back = (*platform.edges[neighbour], *platform.flow_routes.get(neighbour, ()))
    reads = [platform.links[name] for name in cable]
    writes = [
        platform.links[name] for end, links in back if end == platform.storage for name in links
    ]
    caps = [link.bandwidth_bytes_per_s for link in (*reads, *writes) if link.sharing == "FATPIPE"]
    rates = []
    for links in (reads, writes):
        shared = [link for link in links if link.sharing != "FATPIPE"]
        # Without links named "storage...", the whole route to the file system counts.
        own = [link for link in shared if link.link_class.startswith("storage")]
        rates.append(min(link.bandwidth_bytes_per_s for link in own or shared or links))
    return StorageRates(rates[0], rates[1], min(caps) if caps else None)


def _width(platform: Platform, hops: Iterable[Hop]) -> float:
    """Return the bandwidth of a switch's ports, which are the first links of its cables.

    A port that several cables share counts once.
    """
    return sum(
        platform.links[port].bandwidth_bytes_per_s for port in {cable[0] for _, cable in hops}
    )
