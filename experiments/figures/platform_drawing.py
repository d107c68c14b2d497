"""Drawings of platforms: rows of labelled nodes, edges as wide as their links, a legend."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
from faultline.experiments.figures.platform_sketch import (
    GPU_ROW,
    NVSWITCH_ROW,
    STORAGE_ROW,
    Key,
    Node,
    Positions,
    Sketch,
    positions,
    sketch,
)
from faultline.experiments.figures.style import figure_style, mark, save_figure
from faultline.platforms import xml_names
from faultline.platforms.fabric import Layer, fabric_layers, storage_rates
from faultline.platforms.platform_data import Platform
from faultline.platforms.units import BANDWIDTH, format_quantity
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_KINDS = {"leaf": "leaf switch", "pod": "pod"}


def rounded(bytes_per_s: float) -> str:
    """Return a bandwidth with four significant digits."""
    return format_quantity(float(f"{bytes_per_s:.4g}"), BANDWIDTH)


def long_label(drawn: Sketch, node: Node) -> str:
    """Return the label of a node with enough space."""
    if node.row == NVSWITCH_ROW:
        return f"NVSwitch {_numbers(node.members[0])}"
    if node.row == GPU_ROW and len(node.domains) > 1:
        return f"{_counted(len(node.domains), 'domain')}\n{_counted(len(node.members), 'GPU')}"
    if node.row != GPU_ROW and len(node.members) > 1:
        return _counted(len(node.members), _kind(node.members[0]))
    return short_label(drawn, node)


def short_label(drawn: Sketch, node: Node) -> str:
    """Return the label of a node among many others."""
    name = node.members[0]
    if node.row == GPU_ROW and not drawn.gpus_one_by_one:
        if len(node.domains) == 1:
            return str(node.domains[0])
        return f"{len(node.domains)}×{len(node.members) / len(node.domains):g}"
    if len(node.members) > 1 and node.row != NVSWITCH_ROW:
        return f"{len(node.members)}×"
    return _numbers(name)


def row_title(platform: Platform, drawn: Sketch, row: str, layer: Layer | None) -> str:
    """Return the title to the left of a row."""
    if row == GPU_ROW:
        return _gpu_title(platform, drawn)
    if row == NVSWITCH_ROW:
        return "NVSwitches"
    if row == STORAGE_ROW:
        rates = storage_rates(platform)
        text = "file system"
        if rates is not None:
            text += f"\nreads {rounded(rates.read_bytes_per_s)}"
            text += f"\nwrites {rounded(rates.write_bytes_per_s)}"
        return text
    if layer is None:
        return row
    if layer.oversubscription is None:
        return layer.name
    lines = [_counted(layer.switches, _KINDS.get(layer.name, f"{layer.name} switch"))]
    nodes = [drawn.nodes[key] for of_row, keys in drawn.rows if of_row == row for key in keys]
    if any(len(node.members) > 1 for node in nodes):
        lines.append("n×: n in one node")
    elif all("." in _numbers(node.members[0]) for node in nodes):
        lines.append("named set.rail")
    lines.append(f"{layer.oversubscription[1]:.3g}:1 down to up")
    return "\n".join(lines)


def _gpu_title(platform: Platform, drawn: Sketch) -> str:
    domains, gpus = len(platform.domains), len(platform.gpus)
    if domains == gpus:
        return _counted(gpus, "GPU")
    if drawn.gpus_one_by_one:
        lines = [_counted(gpus, "GPU"), f"in {_counted(domains, 'domain')}"]
        if len(platform.hosts) > domains:
            lines.append(f"and {_counted(len(platform.hosts), 'host')}")
        return "\n".join(lines)
    lines = [_counted(domains, "domain"), f"of {gpus / domains:g} GPUs each"]
    if nvlink := platform.link_classes.get("nvlink"):
        lines.append(f"NVLink {rounded(nvlink.bandwidth_bytes_per_s[0])}")
    return "\n".join(lines)


def _kind(name: str) -> str:
    kind = xml_names.link_class(name)
    return _KINDS.get(kind, kind)


def _numbers(name: str) -> str:
    """Return the numbers of a name without leading zeros: ``leaf-00001-03`` is 1.3."""
    plain = name.removesuffix("-in").removesuffix("-out")
    numbers = [part.lstrip("0") or "0" for part in plain.split("-")[1:] if part.isdigit()]
    return ".".join(numbers) or name


def _counted(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith('ch') else 's'}"


# Okabe and Ito (2008), a palette for all kinds of colour vision.
_EDGE_COLOURS = {
    "nvlink": "#009E73",
    "nic": "#56B4E9",
    "up_leaf": "#E69F00",
    "up_pod": "#D55E00",
    "storage": "#CC79A7",
}
_OTHER_COLOUR = "#555555"
_EDGE_NAMES = {
    "nvlink": "NVLink",
    "nic": "network adapter",
    "up_leaf": "uplinks of a leaf switch",
    "up_pod": "uplinks of a pod",
    "storage": "file system",
}
_NODE_COLOURS = {GPU_ROW: "#F0E442", NVSWITCH_ROW: "#A6DCCB", STORAGE_ROW: "#E8C3D6"}
_SWITCH_COLOUR = "#D9E6F2"
_FIGURE_INCHES = 13.0
_X_LIMITS = (-0.19, 1.02)
"""Nodes are between 0 and 1; the titles of rows are to the left."""

_POINTS_PER_UNIT = 72 * 0.97 * _FIGURE_INCHES / (_X_LIMITS[1] - _X_LIMITS[0])
_SQUARE_CHARACTERS = 3


def draw_platform(platform: Platform, path: Path) -> Path:
    """Draw the topology of a platform into a file; its suffix selects the format."""
    with figure_style():
        return save_figure(platform_figure(platform), path)


def platform_figure(platform: Platform) -> Figure:
    """Draw the topology of a platform."""
    drawn = sketch(platform)
    where = positions(drawn)
    with figure_style():
        rows = len(drawn.rows)
        figure, axes = plt.subplots(figsize=(_FIGURE_INCHES, 1.5 + 1.2 * rows))
        axes.set_axis_off()
        _draw_edges(axes, drawn, where)
        _draw_nodes(axes, drawn, where)
        _draw_row_titles(axes, platform, drawn, where)
        axes.set_xlim(*_X_LIMITS)
        axes.set_ylim(-0.62, rows - 1 + 0.5)
        axes.set_title(_title(platform))
        _draw_legend(axes, platform, drawn)
    return figure


def _draw_edges(axes: Axes, drawn: Sketch, where: Positions) -> None:
    graph = nx.Graph()
    graph.add_edges_from(drawn.edges)
    by_class: dict[str, list[tuple[Key, Key]]] = {}
    for ends, edge in drawn.edges.items():
        by_class.setdefault(edge.link_class, []).append(ends)
    widths = _widths(drawn)
    for link_class, edges in by_class.items():
        nx.draw_networkx_edges(
            graph,
            where,
            edgelist=edges,
            ax=axes,
            width=[widths[ends] for ends in edges],
            edge_color=_EDGE_COLOURS.get(link_class, _OTHER_COLOUR),
            # Many lines cross, so they are transparent.
            alpha=1.0 if len(edges) <= 40 else 0.8,
        )


def _widths(drawn: Sketch) -> dict[tuple[Key, Key], float]:
    """Return the width of each edge in points: it grows with the logarithm of its bandwidth.

    The more edges the busiest node has, the thinner all of them are.
    """
    meeting: dict[Key, int] = {}
    for ends in drawn.edges:
        for end in ends:
            meeting[end] = meeting.get(end, 0) + 1
    wide = min(max(60.0 / max(meeting.values(), default=1), 1.2), 5.0)
    thin = max(wide / 8, 0.35)
    exponents = {ends: math.log(edge.bandwidth_bytes_per_s) for ends, edge in drawn.edges.items()}
    low, high = min(exponents.values(), default=0.0), max(exponents.values(), default=0.0)
    span = high - low or 1.0
    return {
        ends: thin + (wide - thin) * (exponent - low) / span for ends, exponent in exponents.items()
    }


def _draw_nodes(axes: Axes, drawn: Sketch, where: Positions) -> None:
    for row, keys in drawn.rows:
        gap_points = _POINTS_PER_UNIT * _smallest_gap([where[key][0] for key in keys])
        labels, size_points = _fitting_labels(drawn, keys, gap_points)
        look = {
            "facecolor": _NODE_COLOURS.get(row, _SWITCH_COLOUR),
            "edgecolor": "#333333",
            "linewidth": 0.7,
        }
        longest = _longest(labels.values())
        if longest <= _SQUARE_CHARACTERS:
            # Short labels have squares of equal size, long ones have boxes.
            side = min(0.86 * gap_points, 26.0)
            nx.draw_networkx_nodes(
                nx.empty_graph(keys),
                where,
                ax=axes,
                node_shape="s",
                node_size=side**2,
                node_color=look["facecolor"],
                edgecolors=look["edgecolor"],
                linewidths=look["linewidth"],
            )
        for key in keys:
            axes.annotate(
                labels[key],
                where[key],
                ha="center",
                va="center",
                fontsize=size_points,
                bbox=None
                if longest <= _SQUARE_CHARACTERS
                else {"boxstyle": "round,pad=0.35"} | look,
            )


def _fitting_labels(
    drawn: Sketch, keys: list[Key], gap_points: float
) -> tuple[dict[Key, str], float]:
    """Return the labels of a row and their size: long labels if they fit, else short ones."""
    sizes: list[tuple[dict[Key, str], float]] = []
    for write in (long_label, short_label):
        labels = {key: write(drawn, drawn.nodes[key]) for key in keys}
        longest = _longest(labels.values())
        padding = 0.5 if longest <= _SQUARE_CHARACTERS else 1.3
        size_points = 0.95 * gap_points / (0.62 * longest + padding)
        if size_points >= 7.0:
            return labels, min(size_points, 9.0)
        sizes.append((labels, size_points))
    labels, size_points = sizes[-1]
    return labels, max(size_points, 3.5)


def _longest(labels: Iterable[str]) -> int:
    return max(len(line) for text in labels for line in text.splitlines())


def _smallest_gap(places: list[float]) -> float:
    ordered = sorted(places)
    return min((right - left for left, right in pairwise(ordered)), default=0.3)


def _draw_row_titles(axes: Axes, platform: Platform, drawn: Sketch, where: Positions) -> None:
    layers = {f"level {number}": layer for number, layer in enumerate(fabric_layers(platform), 1)}
    for row, keys in drawn.rows:
        height = where[keys[0]][1]
        text = row_title(platform, drawn, row, layers.get(row))
        axes.text(-0.18, height, text, ha="left", va="center", fontsize=9.5, linespacing=1.35)


def _title(platform: Platform) -> str:
    name = platform.properties.get(xml_names.SPEC_PROPERTY_PREFIX + "name", platform.path.stem)
    represented = platform.gpus_per_rank
    plane = f", each of which represents {represented:,}" if represented > 1 else ""
    return f"{name}: {len(platform.gpus):,} GPUs{plane}"


def _draw_legend(axes: Axes, platform: Platform, drawn: Sketch) -> None:
    handles: list[Any] = []
    present = {edge.link_class for edge in drawn.edges.values()}
    classes = platform.link_classes
    for link_class in [name for name in _EDGE_COLOURS if name in present] + sorted(
        present - _EDGE_COLOURS.keys()
    ):
        rates = list(classes[link_class].bandwidth_bytes_per_s) if link_class in classes else []
        if link_class == "storage":
            rates = [
                link.bandwidth_bytes_per_s
                for link in platform.links.values()
                if link.link_class == "storage" and link.sharing != "FATPIPE"
            ]
        colour = _EDGE_COLOURS.get(link_class, _OTHER_COLOUR)
        label = f"{_EDGE_NAMES.get(link_class, link_class)}: {_rates(rates)}"
        handles.append(mark(label, colour, linewidth=3))
    axes.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, -0.02),
        ncols=len(handles),
        title="bandwidth of one link per direction; the width of a line grows with the logarithm "
        "of the bandwidth of all its links",
        title_fontsize=9,
    )


def _rates(rates: list[float]) -> str:
    low, high = rounded(min(rates)), rounded(max(rates))
    return low if low == high else f"{low} to {high}"
