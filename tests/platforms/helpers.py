"""What the tests of platforms have in common."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
from faultline.platforms import ClusterSpec, Platform

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


def shift(gpus: int, by: int, size_bytes: float) -> list[Flow]:
    """Every GPU sends to the one `by` further on, all at once."""
    return [
        (f"gpu-{index:06d}", f"gpu-{(index + by) % gpus:06d}", size_bytes) for index in range(gpus)
    ]


def graph_of(platform: Platform) -> "nx.DiGraph[str]":
    """All cables, each as long as it has links."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for source, hops in platform.edges.items():
        graph.add_weighted_edges_from((source, end, len(cable)) for end, cable in hops)
    return graph
