"""The drawn parts of a platform: rows of nodes, and their edges.

A drawing is readable with up to 40 nodes per row. In a longer row, equal parts become one node with
a count: GPUs by domain, then domains by shared leaf switches and by pod; leaf switches by the
domains below them, then by pod.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from faultline.platforms import xml_names
from faultline.platforms.fabric import switch_levels
from faultline.platforms.platform_data import Platform

MOST_GPUS = 96
"""Largest number of GPUs that are drawn one by one."""

MOST_NODES = 40
"""Largest number of nodes in another row."""

GPU_ROW, NVSWITCH_ROW, STORAGE_ROW = "gpu", "nvswitch", "storage"

Key = tuple[str, Hashable]


@dataclass
class Node:
    """A node of the drawing: its row, the names of its members, and their domains and hosts."""

    row: str
    members: tuple[str, ...]
    domains: tuple[int, ...] = ()
    hosts: tuple[int, ...] = ()


@dataclass
class Edge:
    """An edge: its class, and the links that it represents, with their bandwidths in bytes/s."""

    link_class: str
    links: dict[str, float] = field(default_factory=dict)

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Total bandwidth of all links."""
        return sum(self.links.values())


@dataclass
class Sketch:
    """Rows of node keys from bottom to top, the nodes, and the edges."""

    rows: list[tuple[str, list[Key]]]
    nodes: dict[Key, Node]
    edges: dict[tuple[Key, Key], Edge]
    gpus_one_by_one: bool


def sketch(platform: Platform) -> Sketch:
    """Return the rows, nodes and edges to draw of a platform."""
    levels = switch_levels(platform)
    above = {
        name: frozenset(hop for hop, _ in platform.edges.get(name, ()) if levels.get(hop, 0) > own)
        for name, own in (*((gpu, 0) for gpu in platform.gpu_names), *levels.items())
    }
    gpu_node, one_by_one = _gpu_keys(platform, above)
    place: dict[str, Key] = {gpu: (GPU_ROW, key) for gpu, key in gpu_node.items()}
    rows: list[str] = [GPU_ROW]
    top = max(levels.values(), default=0)
    for level in range(1, top + 1):
        members = sorted(name for name, of_switch in levels.items() if of_switch == level)
        row = f"level {level}"
        keys = _switch_keys(members, above, _below(platform, members, gpu_node), level < top)
        place.update({name: (row, key) for name, key in keys.items()})
        rows.append(row)
    if one_by_one:
        for name in platform.switches:
            if xml_names.link_class(name) == xml_names.NVSWITCH:
                switch = name.removesuffix("-in").removesuffix("-out")
                place[name] = (NVSWITCH_ROW, switch)
        rows.insert(0, NVSWITCH_ROW)
    if platform.storage is not None:
        place[platform.storage] = (STORAGE_ROW, platform.storage)
        rows.append(STORAGE_ROW)
    nodes = _nodes(platform, place)
    ordered = [(row, [key for key in nodes if key[0] == row]) for row in rows]
    filled = [(row, keys) for row, keys in ordered if keys]
    return Sketch(filled, nodes, _edges(platform, place), one_by_one)


def _gpu_keys(
    platform: Platform, above: Mapping[str, frozenset[str]]
) -> tuple[dict[str, Hashable], bool]:
    if len(platform.gpus) <= MOST_GPUS:
        return {gpu.name: gpu.name for gpu in platform.gpus}, True
    leaves = {
        domain: frozenset().union(*(above[gpu.name] for gpu in gpus))
        for domain, gpus in platform.domains.items()
    }
    pods = {
        domain: frozenset().union(*(above[leaf] for leaf in of_domain)) if of_domain else of_domain
        for domain, of_domain in leaves.items()
    }
    choices: Sequence[Callable[[int], Hashable]] = (
        lambda domain: domain,
        leaves.__getitem__,
        pods.__getitem__,
    )
    key = _finest(platform.domains, choices, MOST_NODES)
    return {gpu.name: key(gpu.domain) for gpu in platform.gpus}, False


def _switch_keys(
    members: Sequence[str],
    above: Mapping[str, frozenset[str]],
    below: Mapping[str, frozenset[Hashable]],
    has_above: bool,
) -> dict[str, Hashable]:
    choices: list[Callable[[str], Hashable]] = [lambda name: name]
    choices.append(lambda name: below.get(name, frozenset()))
    if has_above:
        choices.append(above.__getitem__)
    key = _finest(members, choices, MOST_NODES)
    return {name: key(name) for name in members}


def _finest(
    members: Iterable[Hashable], choices: Sequence[Callable[..., Hashable]], most: int
) -> Callable[..., Hashable]:
    """Return the first choice with at most `most` nodes, or one that makes a single node."""
    listed = list(members)
    for choice in choices:
        if len({choice(member) for member in listed}) <= most:
            return choice
    return lambda _: "all"


def _below(
    platform: Platform, switches: Iterable[str], gpu_node: Mapping[str, Hashable]
) -> dict[str, frozenset[Hashable]]:
    return {
        name: frozenset(gpu_node[hop] for hop, _ in platform.edges.get(name, ()) if hop in gpu_node)
        for name in switches
    }


def _nodes(platform: Platform, place: Mapping[str, Key]) -> dict[Key, Node]:
    members: dict[Key, list[str]] = {}
    for name, key in place.items():
        members.setdefault(key, []).append(name)
    of_gpu = {gpu.name: gpu for gpu in platform.gpus}
    nodes = {}
    for key, names in members.items():
        gpus = [of_gpu[name] for name in names if name in of_gpu]
        nodes[key] = Node(
            key[0],
            tuple(sorted(names)),
            tuple(sorted({gpu.domain for gpu in gpus})),
            tuple(sorted({gpu.host for gpu in gpus})),
        )
    return nodes


def _edges(platform: Platform, place: Mapping[str, Key]) -> dict[tuple[Key, Key], Edge]:
    edges: dict[tuple[Key, Key], Edge] = {}
    for source, hops in platform.edges.items():
        for destination, cable in hops:
            if source not in place or destination not in place:
                continue
            ends = place[source], place[destination]
            if ends[0] == ends[1]:
                continue
            if ends not in edges and ends[::-1] in edges:
                ends = ends[::-1]
            links = [platform.links[name] for name in cable]
            narrow = min(links, key=lambda link: link.bandwidth_bytes_per_s)
            # The class is that of the cable's port at the switch, not of its narrowest link.
            is_up = platform.roles.get(source) == "gpu"
            port = links[-1] if is_up else links[0]
            if any(link.link_class.startswith("storage") for link in links):
                # The cap of a single client does not set the width.
                narrow = next((link for link in links if link.sharing != "FATPIPE"), narrow)
                edge = edges.setdefault(ends, Edge("storage"))
            else:
                edge = edges.setdefault(ends, Edge(port.link_class))
            edge.links[port.name if port.sharing != "FATPIPE" else narrow.name] = (
                narrow.bandwidth_bytes_per_s
            )
    return edges


_HOST_GAP, _DOMAIN_GAP = 0.45, 1.1
"""Space between hosts and between domains, in widths of a GPU."""

Positions = dict[Key, tuple[float, float]]


def positions(drawn: Sketch) -> Positions:
    """Return x (0 to 1) and y (1 per row) of each node.

    GPUs are in order, with gaps between hosts and domains. NVSwitches are below the middle of their
    domain. Other switches are evenly spaced, in the order of the nodes below them.
    """
    found: Positions = {}
    heights = {row: float(index) for index, (row, _) in enumerate(drawn.rows)}
    keys_of = dict(drawn.rows)
    _place_gpus(drawn, keys_of.get(GPU_ROW, []), heights.get(GPU_ROW, 0.0), found)
    neighbours: dict[Key, list[Key]] = {}
    for one, other in drawn.edges:
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    for row, keys in drawn.rows:
        if row == GPU_ROW:
            continue
        middle = {key: _middle(neighbours.get(key, []), found) for key in keys}
        ordered = sorted(keys, key=lambda key: (round(middle[key], 6), drawn.nodes[key].members))
        for index, key in enumerate(ordered):
            x = middle[key] if row == NVSWITCH_ROW else (index + 0.5) / len(ordered)
            found[key] = (x, heights[row])
    return found


def _place_gpus(drawn: Sketch, keys: list[Key], height: float, found: Positions) -> None:
    ordered = sorted(keys, key=lambda key: (drawn.nodes[key].domains, drawn.nodes[key].members))
    offsets: list[float] = []
    offset = 0.5
    before = None
    for key in ordered:
        node = drawn.nodes[key]
        if before is not None:
            offset += 1.0
            if drawn.gpus_one_by_one and node.domains != before.domains:
                # Domains of one GPU need no gap.
                alone = len(ordered) == len({drawn.nodes[one].domains for one in ordered})
                offset += 0.0 if alone else _DOMAIN_GAP
            elif drawn.gpus_one_by_one and node.hosts != before.hosts:
                offset += _HOST_GAP
        offsets.append(offset)
        before = node
    width = offset + 0.5
    for key, x in zip(ordered, offsets, strict=True):
        found[key] = (x / width, height)


def _middle(neighbours: list[Key], found: Positions) -> float:
    placed = [found[key][0] for key in neighbours if key in found]
    return sum(placed) / len(placed) if placed else 0.5
