"""Incidents that stop a whole job, and their random draws.

The model of failed nodes with spares is that of gpu-goodput-mtbi, a simulator of
inigogonzalezgarcia. Nothing fails while the job is down. The training loop simulates the incidents
and their other costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from faultline.platforms.files import write_file
from numpy.typing import ArrayLike

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0


class Incident(NamedTuple):
    """A stop of the whole job."""

    time_s: float  # Seconds from the start.
    cause: str
    # Seconds until processes start again: detection, diagnosis, waiting for people or
    # machines.
    down_s: float


@dataclass(frozen=True, slots=True)
class IncidentKind:
    """Incidents of one kind in a run: a row of ``data/incidents.csv``."""

    cause: str
    count: int
    # Seconds from failure to detection, and from detection to diagnosis: least and most, uniformly
    # distributed.
    least_detect_s: float = 0.0
    most_detect_s: float = 0.0
    least_locate_s: float = 0.0
    most_locate_s: float = 0.0
    restart_s: float = 0.0  # Seconds of the restart in addition to the run's own.

    def down_s(self, rng: np.random.Generator) -> float:
        """Draw the down time of one incident."""
        detected_s = rng.uniform(self.least_detect_s, self.most_detect_s)
        located_s = rng.uniform(self.least_locate_s, self.most_locate_s)
        return float(detected_s + located_s) + self.restart_s


def scattered(
    kinds: Sequence[IncidentKind], span_s: float, restart_s: float, rng: np.random.Generator
) -> list[Incident]:
    """Return the incidents of a run at random times while it is up.

    The restart, in seconds, is the run's own.
    """
    causes = rng.permutation([kind.cause for kind in kinds for _ in range(kind.count)])
    by_cause = {kind.cause: kind for kind in kinds}
    downs_s = [by_cause[cause].down_s(rng) for cause in causes]
    up_s = np.sort(rng.uniform(0.0, span_s - sum(downs_s) - len(downs_s) * restart_s, len(causes)))
    down_before_s = 0.0
    found = []
    for cause, at_s, down_s in zip(causes, up_s, downs_s, strict=True):
        found.append(Incident(float(at_s) + down_before_s, str(cause), down_s))
        down_before_s += down_s + restart_s
    return found


def with_gaps(gaps_s: ArrayLike, cause: str) -> list[Incident]:
    """Return incidents with the given gaps from start to start, in seconds."""
    return [Incident(float(time_s), cause, 0.0) for time_s in np.cumsum(gaps_s)]


def write_incidents(
    incidents: Iterable[Incident], path: Path, components: Sequence[str] = ("job",)
) -> Path:
    """Write incidents as a trace that scenarios read; they strike the components in turn."""
    rows = [
        (one.time_s, struck, one.cause, one.down_s)
        for one, struck in zip(incidents, cycle(components), strict=False)
    ]
    table = pd.DataFrame(rows, columns=["time", "component", "cause", "repair"])
    write_file(path, table.to_csv(index=False))
    return path


DrawIncidents = Callable[[np.random.Generator], Sequence[Incident]]
"""Draws the incidents of a run."""

NODE_CAUSES: Mapping[str, tuple[float, float, bool]] = {
    "xid-79": (0.25, 3.0, True),
    "memory": (0.20, 3.0, True),
    "fabric": (0.15, 30.0, True),
    "host": (0.10, 5.0, True),
    "hang": (0.30, 30.0, False),
}
"""Share of node failures, minutes to detection, and whether the node needs a repair."""

JOB_CAUSES: Mapping[str, tuple[float, float, bool]] = {
    "crash": (0.6, 1.0, False),
    "storage": (0.4, 30.0, False),
}
"""The same for failures of the job itself."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A job on some nodes of a cluster; the others are spares."""

    # Nodes of the job, and spares.
    nodes: int = 128
    spares: int = 4
    # Mean time between failures of a node, and of the job's own, in seconds.
    node_mtbf_s: float = 3000.0 * HOUR_S
    job_mtbf_s: float = 40.0 * HOUR_S
    frail_nodes: int = 0  # Number of nodes, the last ones, that have `frail_mtbf_s`.
    frail_mtbf_s: float = 600.0 * HOUR_S
    # A restart, and the mean of the exponential time of a repair from detection, in seconds.
    restart_s: float = 20.0 * MINUTE_S
    repair_s: float = 48.0 * HOUR_S

    def failures_per_s(self, node: int) -> float:
        """Return the rate of a node's failures, in 1/s."""
        frail = node >= self.nodes + self.spares - self.frail_nodes
        return 1.0 / (self.frail_mtbf_s if frail else self.node_mtbf_s)


def incidents(cluster: Cluster, span_s: float, rng: np.random.Generator) -> list[Incident]:
    """Return the stops of a job, until `span_s`.

    An incident lasts until its detection and, if it stops a node, until a replacement is ready.
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
        of_job = rng.random() * total < 1.0 / cluster.job_mtbf_s
        causes = JOB_CAUSES if of_job else NODE_CAUSES
        cause = str(rng.choice(list(causes), p=[share for share, *_ in causes.values()]))
        _, detected_min, breaks = causes[cause]
        ready_s = failed_s + detected_min * MINUTE_S
        if not of_job:
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
