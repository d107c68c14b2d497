"""What the tests of platforms have in common."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
from faultline.platforms.platform_data import Platform, Route
from faultline.platforms.preset_library import load_preset
from faultline.platforms.simgrid_check import routes_in_simgrid
from faultline.platforms.spec import ClusterSpec

Write = Callable[[ClusterSpec], Path]
"""Writes a spec to a fresh platform file and returns its path."""

Flow = tuple[str, str, float]
"""Source, destination, bytes."""

THREE_LEVELS: dict[str, Any] = {
    "levels": 3,
    "leaves_per_pod": 2,
    "oversubscription": [2, 3],
    "domains": 8,
    "domains_per_leaf": 2,
}


def four_by_four(**overrides: Any) -> ClusterSpec:
    """Return four domains of four GPUs, two domains a leaf, if nothing else is stated."""
    usual = {"domains": 4, "gpus_per_domain": 4, "domains_per_leaf": 2}
    return load_preset("hgx-h100", **{**usual, **overrides})


def edit(path: Path, pattern: str, replacement: str, count: int = 1) -> None:
    """Replace what a pattern finds in a file: once, so many times, or (0) everywhere."""
    text, edits = re.subn(pattern, replacement, path.read_text(encoding="utf-8"), count=count)
    assert edits
    path.write_text(text, encoding="utf-8")


def shift(gpus: int, by: int, size_bytes: float) -> list[Flow]:
    """Every GPU sends to the one `by` further on, all at once."""
    return [
        (f"gpu-{index:06d}", f"gpu-{(index + by) % gpus:06d}", size_bytes) for index in range(gpus)
    ]


def route_of(platform: Platform, source: str, destination: str) -> Route:
    """Return the route that SimGrid takes between two hosts."""
    (route,) = routes_in_simgrid(platform, [(source, destination)])
    return route


def graph_of(platform: Platform) -> "nx.DiGraph[str]":
    """All cables, each as long as it has links."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for source, hops in platform.edges.items():
        graph.add_weighted_edges_from((source, end, len(cable)) for end, cable in hops)
    return graph
