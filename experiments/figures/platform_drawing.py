"""Drawings of platforms: rows of labelled nodes, edges as wide as their links, a legend.

A row has at most 40 nodes, or 96 GPUs. In a longer row, GPUs become one node per domain, and nodes
with the same neighbours become one node with their count; if these are still too many, the whole
row is one node.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from faultline.experiments.analysis.quantities import counted, rate_text
from faultline.experiments.figures.style import figure_style, mark, save_figure
from faultline.platforms import xml_names
from faultline.platforms.fabric import fabric_layers, storage_rates, switch_levels
from faultline.platforms.platform_data import Link, Platform
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

MOST_GPUS, MOST_NODES = 96, 40
"""Largest numbers of GPUs that are drawn one by one, and of nodes in another row."""

_NVSWITCHES, _GPUS, _STORAGE = "NVSwitches", "GPUs", "file system"

Key = tuple[str, Hashable]
"""A node: its row, and a name within the row."""

# Okabe and Ito (2008), a palette for all kinds of colour vision.
_LINKS = {
    "nvlink": ("NVLink", "#009E73"),
    "nic": ("network adapter", "#56B4E9"),
    "up_leaf": ("uplinks of a leaf switch", "#E69F00"),
    "up_pod": ("uplinks of a pod", "#D55E00"),
    "storage": ("file system", "#CC79A7"),
}
_NODE_COLOURS = {_GPUS: "#F0E442", _NVSWITCHES: "#A6DCCB", _STORAGE: "#E8C3D6"}
_SWITCH_COLOUR, _OTHER_COLOUR = "#D9E6F2", "#555555"
_INCHES = 13.0
_LEFT, _RIGHT = -0.19, 1.02
"""Nodes are between 0 and 1; the titles of rows are to the left."""
_POINTS = 72 * _INCHES / (_RIGHT - _LEFT)


@dataclass(frozen=True)
class Sketch:
    """Rows of nodes from bottom to top, the hosts and switches of each node, and the edges.

    An edge has the bandwidths of its links by class and name, in bytes/s.
    """

    rows: dict[str, list[Key]]
    members: dict[Key, list[str]]
    edges: dict[tuple[Key, Key], dict[tuple[str, str], float]]


def sketch(platform: Platform) -> Sketch:
    """Return the rows, nodes and edges to draw of a platform."""
    if platform.is_foreign:
        platform = _with_links_as_switches(platform)
    place = _places(platform)
    members: dict[Key, list[str]] = defaultdict(list)
    rows: dict[str, list[Key]] = defaultdict(list)
    for name, key in place.items():
        if key not in members:
            rows[key[0]].append(key)
        members[key].append(name)
    edges: dict[tuple[Key, Key], dict[tuple[str, str], float]] = {}
    for one, other, cable, is_up in _cables(platform):
        if one in place and other in place and place[one] != place[other]:
            ends = place[one], place[other]
            ends = ends if ends[::-1] not in edges else ends[::-1]
            links = [platform.links[name] for name in cable]
            # Caps of single clients do not set the width.
            shared = [link for link in links if link.sharing != "FATPIPE"] or links
            narrow = min(shared, key=lambda link: link.bandwidth_bytes_per_s)
            # The class is that of the cable's port at the switch, not of its narrowest link.
            port = links[-1] if is_up else links[0]
            stored = any(link.link_class.startswith("storage") for link in links)
            name = (narrow if stored else port).name
            own_class = port.sharing if platform.is_foreign else port.link_class
            link_class = "storage" if stored else own_class
            edges.setdefault(ends, {})[link_class, name] = narrow.bandwidth_bytes_per_s
    return Sketch(dict(rows), dict(members), edges)


def _with_links_as_switches(platform: Platform) -> Platform:
    """Return a platform whose unknown switches are its links, joined as the routes are.

    Both directions of a split link are one.
    """
    links: dict[str, Link] = {}
    hops: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for start, routes in platform.flow_routes.items():
        for end, names in routes:
            before = start
            for name in names:
                link = platform.links[name]
                node = name
                if link.sharing == "SPLITDUPLEX":
                    node = name.removesuffix("_UP").removesuffix("_DOWN")
                links[node] = replace(link, name=node)
                hops[before][node] = (node,)
                hops[node][before] = (node,)
                before = node
            hops[before][end] = hops[end][before] = (before,)
    edges = {name: tuple(hops[name].items()) for name in (*platform.roles, *links)}
    return replace(platform, switches=tuple(links), links=links, edges=edges, flow_routes={})


def _cables(platform: Platform) -> Iterator[tuple[str, str, tuple[str, ...], bool]]:
    """Yield both ends of each cable, its links, and whether it begins at a GPU."""
    for source, hops in platform.edges.items():
        for destination, cable in hops:
            yield source, destination, tuple(cable), platform.roles.get(source) == "gpu"


def _places(platform: Platform) -> dict[str, Key]:
    """Return the node of each host and switch that is drawn, from the lowest row to the highest."""
    one_by_one = len(platform.gpus) <= MOST_GPUS
    place: dict[str, Key] = {}
    if one_by_one:
        for name in platform.switches:
            if xml_names.link_class(name) == xml_names.NVSWITCH:
                place[name] = (_NVSWITCHES, name.removesuffix("-in").removesuffix("-out"))
    for gpu in platform.gpus:
        place[gpu.name] = (_GPUS, gpu.name if one_by_one else gpu.domain)
    levels = switch_levels(platform)
    for name in sorted(levels, key=lambda name: (levels[name], name)):
        place[name] = (f"level {levels[name]}", name)
    if platform.storage is not None:
        place[platform.storage] = (_STORAGE, platform.storage)
    for row in dict.fromkeys(key[0] for key in place.values()):
        if row != _GPUS or not one_by_one:
            place |= _folded(platform, place, row)
    return place


def _folded(platform: Platform, place: dict[str, Key], row: str) -> dict[str, Key]:
    """Return the nodes of a row, with twins as one if they are too many."""
    own = {name: key for name, key in place.items() if key[0] == row}
    if len(set(own.values())) <= MOST_NODES:
        return own
    beside: dict[Key, set[Key]] = {key: set() for key in own.values()}
    for one, other, _, _ in _cables(platform):
        for end, far in ((one, other), (other, one)):
            if end in own and far in place:
                beside[own[end]].add(place[far])
    twins: dict[Key, Key] = {key: (row, frozenset(keys)) for key, keys in beside.items()}
    if len(set(twins.values())) > MOST_NODES:
        return dict.fromkeys(own, (row, "all"))
    return {name: twins[key] for name, key in own.items()}


def draw_platform(platform: Platform, path: Path) -> Path:
    """Draw the topology of a platform into a file; its suffix selects the format."""
    with figure_style():
        return save_figure(platform_figure(platform), path)


def platform_figure(platform: Platform) -> Figure:
    """Draw the topology of a platform."""
    drawn = sketch(platform)
    where = {
        key: ((column + 0.5) / len(keys), float(height))
        for height, keys in enumerate(drawn.rows.values())
        for column, key in enumerate(keys)
    }
    with figure_style():
        figure = Figure(figsize=(_INCHES, 1.5 + 1.2 * len(drawn.rows)))
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set_xlim(_LEFT, _RIGHT)
        axes.set_ylim(-0.62, len(drawn.rows) - 0.5)
        _draw_edges(axes, drawn, where)
        for height, (row, keys) in enumerate(drawn.rows.items()):
            title = "\n".join(_row_title(platform, drawn, row))
            axes.text(_LEFT + 0.01, height, title, va="center", fontsize=9.5, linespacing=1.35)
            _draw_nodes(axes, platform, drawn, row, {key: where[key] for key in keys})
        name = platform.properties.get(xml_names.SPEC_PROPERTY_PREFIX + "name", platform.path.stem)
        each = platform.gpus_per_rank
        plane = f", each of which represents {each:,}" if each > 1 else ""
        axes.set_title(f"{name}: {len(platform.gpus):,} GPUs{plane}")
    return figure


def _draw_edges(axes: Axes, drawn: Sketch, where: dict[Key, tuple[float, float]]) -> None:
    """Draw lines whose width grows with the logarithm of the bandwidth, and their legend."""
    busiest = max(map(len, drawn.rows.values()))
    wide = min(max(120.0 / busiest, 1.2), 5.0)
    thin = min(1.0, wide / 3.0)
    widths = {ends: math.log(sum(links.values())) for ends, links in drawn.edges.items()}
    low, high = min(widths.values(), default=0.0), max(widths.values(), default=0.0)
    lines: dict[str, list[tuple[Key, Key]]] = defaultdict(list)
    rates: dict[str, set[float]] = defaultdict(set)
    for ends, links in drawn.edges.items():
        for (link_class, _), rate in links.items():
            rates[link_class].add(rate)
        lines[link_class].append(ends)
    handles = []
    for link_class in sorted(lines, key=[*_LINKS, *lines].index):
        name, colour = _LINKS.get(link_class, (link_class, _OTHER_COLOUR))
        drawn_here = lines[link_class]
        axes.add_collection(
            LineCollection(
                [(where[one], where[other]) for one, other in drawn_here],
                colors=colour,
                linewidths=[
                    thin + (wide - thin) * (widths[ends] - low) / (high - low or 1.0)
                    for ends in drawn_here
                ],
                alpha=0.8,
                zorder=1,
            )
        )
        least, most = (rate_text(end(rates[link_class])) for end in (min, max))
        text = least if least == most else f"{least} to {most}"
        handles.append(mark(f"{name}: {text}", colour, linewidth=3))
    axes.legend(
        handles=handles,
        loc="lower center",
        ncols=len(handles),
        title="bandwidth of one link per direction; the width of a line grows with the logarithm "
        "of the bandwidth of all its links",
        title_fontsize=9,
    )


def _draw_nodes(
    axes: Axes, platform: Platform, drawn: Sketch, row: str, where: dict[Key, tuple[float, float]]
) -> None:
    domains = {gpu.name: gpu.domain for gpu in platform.gpus}
    labels = [_label(drawn.members[key], domains) for key in where]
    longest = max(map(len, labels))
    size = 0.95 * _POINTS / len(where) / (0.62 * longest + 1.3)
    box: dict[str, Any] = {
        "boxstyle": "round,pad=0.35",
        "facecolor": _NODE_COLOURS.get(row, _SWITCH_COLOUR),
        "edgecolor": "#333333",
        "linewidth": 0.7,
    }
    for label, place in zip(labels, where.values(), strict=True):
        axes.text(
            *place, label, ha="center", va="center",
            fontsize=min(max(size, 3.5), 9.0), bbox=box,
        )  # fmt: skip


def _label(members: list[str], domains: dict[str, int]) -> str:
    """Return the number of a node, or the count of its domains or switches."""
    of_domains = {domains[name] for name in members if name in domains}
    if len(members) > 1 and len(of_domains) == 1:
        return str(of_domains.pop())
    if len(of_domains) > 1 or len({name.rpartition("-")[0] or name for name in members}) > 1:
        return f"{len(of_domains) or len(members)}×"
    short = members[0].partition(".")[0]
    numbers = [part.lstrip("0") or "0" for part in short.split("-") if part.isdigit()]
    return ".".join(numbers) or short


def _row_title(platform: Platform, drawn: Sketch, row: str) -> list[str]:
    """Return the lines to the left of a row."""
    if row == _GPUS:
        lines = [
            counted(len(platform.gpus), "GPU"),
            f"in {counted(len(platform.domains), 'domain')}",
        ]
        nvlink = platform.link_classes.get("nvlink")
        if nvlink and _NVSWITCHES not in drawn.rows:
            lines.append(f"NVLink {rate_text(nvlink.bandwidth_bytes_per_s[0])}")
        return lines
    if row == _STORAGE and (rates := storage_rates(platform)) is not None:
        read, write = rate_text(rates.read_bytes_per_s), rate_text(rates.write_bytes_per_s)
        return [row, f"reads {read}", f"writes {write}"]
    if platform.is_foreign:
        return [f"links, {row}"]
    layers = {f"level {number}": layer for number, layer in enumerate(fabric_layers(platform), 1)}
    if row not in layers:
        return [row]
    layer = layers[row]
    if layer.oversubscription is None:
        return [layer.name]
    lines = [f"{layer.switches:,} {layer.name} switches"]
    if any(len(drawn.members[key]) > 1 for key in drawn.rows[row]):
        lines.append("n×: n in one node")
    return [*lines, f"{layer.oversubscription[1]:.3g}:1 down to up"]
