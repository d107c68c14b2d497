"""Throughput by live nodes: Oobleck (SOSP 2023), GPT-3 6.7B on 30 nodes."""

from __future__ import annotations

from bisect import bisect_left

NODES = (15, 16, 20, 24, 26, 28, 30)
SAMPLES_PER_S = (0.0, 3.53, 4.15, 4.33, 4.77, 5.14, 5.51)
"""At 15 nodes and below nothing can be trained."""


def relative_throughput(share: float) -> float:
    """Return the throughput over that of all nodes, by the share of nodes that are up.

    Linear between the numbers of nodes that were measured; 0 below 16 of 30.
    """
    nodes = share * NODES[-1]
    if nodes < NODES[1]:
        return 0.0
    right = bisect_left(NODES, nodes)
    if right >= len(NODES):
        return 1.0
    left = right - 1
    way = (nodes - NODES[left]) / (NODES[right] - NODES[left])
    found = SAMPLES_PER_S[left] + way * (SAMPLES_PER_S[right] - SAMPLES_PER_S[left])
    return found / SAMPLES_PER_S[-1]
