"""A job whose failed nodes are replaced by spares: the incidents of gpu-goodput-mtbi's model.

That is a simulator of inigogonzalezgarcia. Nothing fails while the job is down. The training loop
simulates the incidents, and what they cost besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from faultline.experiments.studies.operators.loop import HOUR_S, MINUTE_S, Incident

NODE_CAUSES: Mapping[str, tuple[float, float, bool]] = {
    "xid-79": (0.25, 3.0, True),
    "memory": (0.20, 3.0, True),
    "fabric": (0.15, 30.0, True),
    "host": (0.10, 5.0, True),
    "hang": (0.30, 30.0, False),
}
"""Share of node failures, minutes until detected, and whether the node has to be repaired."""

JOB_CAUSES: Mapping[str, tuple[float, float]] = {"crash": (0.6, 1.0), "storage": (0.4, 30.0)}
"""Share of failures of the job itself, and minutes until detected."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A job on some nodes of a cluster; the others are spares."""

    # Nodes of the job, and spares.
    nodes: int = 128
    spares: int = 4
    # Mean time between failures of a node, and of the job's own, in seconds.
    node_mtbf_s: float = 3000.0 * HOUR_S
    job_mtbf_s: float = 40.0 * HOUR_S
    frail_nodes: int = 0  # The last so many of all nodes have another mean time: `frail_mtbf_s`.
    frail_mtbf_s: float = 600.0 * HOUR_S
    # A restart, and the mean of the exponential time of a repair from detection, in seconds.
    restart_s: float = 20.0 * MINUTE_S
    repair_s: float = 48.0 * HOUR_S

    def failures_per_s(self, node: int) -> float:
        """Return the rate of a node's failures, in 1/s."""
        frail = node >= self.nodes + self.spares - self.frail_nodes
        return 1.0 / (self.frail_mtbf_s if frail else self.node_mtbf_s)


def incidents(cluster: Cluster, span_s: float, rng: np.random.Generator) -> list[Incident]:
    """Return what stops a job, until `span_s`.

    An incident is down until it is detected and, if it takes a node, until there is another one.
    """
    nodes = list(range(cluster.nodes + cluster.spares))
    running, idle = nodes[: cluster.nodes], nodes[cluster.nodes :]
    repairs: list[tuple[float, int]] = []
    found: list[Incident] = []
    up_s = 0.0
    while True:
        rates = np.array([cluster.failures_per_s(node) for node in running])
        total = float(rates.sum()) + 1.0 / cluster.job_mtbf_s
        failed_s = up_s + float(rng.exponential(1.0 / total))
        if failed_s >= span_s:
            return found
        if rng.random() * total < 1.0 / cluster.job_mtbf_s:
            shares = [share for share, _ in JOB_CAUSES.values()]
            cause = str(rng.choice(list(JOB_CAUSES), p=shares))
            ready_s = failed_s + JOB_CAUSES[cause][1] * MINUTE_S
        else:
            shares = [share for share, *_ in NODE_CAUSES.values()]
            cause = str(rng.choice(list(NODE_CAUSES), p=shares))
            _, detected_min, breaks = NODE_CAUSES[cause]
            ready_s = failed_s + detected_min * MINUTE_S
            place = int(rng.choice(len(rates), p=rates / rates.sum()))
            if breaks:
                repaired_s = ready_s + float(rng.exponential(cluster.repair_s))
                heappush(repairs, (repaired_s, running[place]))
                while repairs and (repairs[0][0] <= ready_s or not idle):
                    repaired_s, node = heappop(repairs)
                    ready_s = max(ready_s, repaired_s)
                    idle.append(node)
                running[place] = idle.pop(0)
        found.append(Incident(failed_s, cause, ready_s - failed_s))
        up_s = ready_s + cluster.restart_s
