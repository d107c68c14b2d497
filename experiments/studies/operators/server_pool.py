"""Two jobs that draw their servers from others: from a pool, and from spare nodes.

A pool has warm standbys, spares, repairs, and bad servers: the model of AIReSim
(karthikp-ubc/airesim), whose results are a row of the study. Servers that are alike are counted,
not told apart: a server is good or bad, and in the job, standing by, idle in the working pool,
spare, or under repair. Only servers of the job fail, and only while it computes. No work is lost.

Nodes that fail and are replaced by spares, if there are any, are the model of gpu-goodput-mtbi
(inigogonzalezgarcia): it gives the incidents of such a job. Nothing fails while the job is down.
What is played of the incidents, and what they cost besides, is Faultline's own loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

import numpy as np
from faultline.experiments.studies.operators.loop import DAY_S, HOUR_S, MINUTE_S, Incident

_GOOD, _BAD = 0, 1


@dataclass(frozen=True, slots=True)
class Pool:
    """A job, its servers and their repairs."""

    compute_days: float = 256.0  # What the job has to compute, in days.
    # Servers that compute, and those that are picked along with them.
    job_servers: int = 4096
    standbys: int = 16
    # Servers the job picks from, its own included; and those that join when these are too few.
    working_pool: int = 4160
    spares: int = 200
    good_failures_per_day: float = 0.01  # Of a good server.
    # Share of all servers that are bad; their additional failures, over those of a good one.
    bad_share: float = 0.15
    bad_factor: float = 5.0
    # What a failure, picking servers, and each spare that joins takes, in seconds.
    recovery_s: float = 1200.0
    selection_s: float = 180.0
    spare_s: float = 1200.0
    # Means of the exponential times of both stages of a repair, in seconds.
    automatic_s: float = 7200.0
    manual_s: float = 2 * DAY_S
    manual_share: float = 0.8  # Share of repairs that go on to the second stage.
    # Probabilities that a bad server comes back good, by the last stage.
    fixed_by_automatic: float = 0.6
    fixed_by_manual: float = 0.8

    @property
    def rates(self) -> tuple[float, float]:
        """Failures a second of a good and of a bad server, in 1/s."""
        good = self.good_failures_per_day / DAY_S
        return good, good * (1.0 + self.bad_factor)


class PoolRun:
    """One run: counts of servers, [good, bad], by where they are, and of what happened."""

    def __init__(self, pool: Pool, rng: np.random.Generator) -> None:
        self._pool, self._rng = pool, rng
        everywhere = pool.working_pool + pool.spares
        bad = round(pool.bad_share * everywhere)
        idle_bad = int(rng.hypergeometric(bad, everywhere - bad, pool.working_pool))
        self._job, self._standing_by = [0, 0], [0, 0]
        self._idle = [pool.working_pool - idle_bad, idle_bad]
        spare_bad = bad - idle_bad
        self._spare = [pool.spares - spare_bad, spare_bad]
        self._repairs: list[tuple[float, int]] = []
        self.elapsed_s = 0.0
        self.failures = self.selections = self.spares_pulled = 0

    @property
    def training_ratio(self) -> float:
        """Time computed over time passed (AIReSim's ETR), at the end."""
        return self._pool.compute_days * DAY_S / self.elapsed_s

    def play(self) -> PoolRun:
        """Play the job to its end."""
        pool, rng = self._pool, self._rng
        left_s = pool.compute_days * DAY_S
        self._select()
        while True:
            rates = [count * rate for count, rate in zip(self._job, pool.rates, strict=True)]
            until_s = rng.exponential(1.0 / sum(rates)) if sum(rates) else inf
            if until_s >= left_s:
                self.elapsed_s += left_s
                return self
            left_s -= until_s
            self.elapsed_s += until_s
            failed = _BAD if rng.random() * sum(rates) < rates[_BAD] else _GOOD
            self.failures += 1
            self._job[failed] -= 1
            fixed, is_manual = pool.fixed_by_automatic, rng.random() < pool.manual_share
            repair_s = rng.exponential(pool.automatic_s)
            if is_manual:
                fixed = pool.fixed_by_manual
                repair_s += rng.exponential(pool.manual_s)
            back = _GOOD if rng.random() < fixed else failed
            heappush(self._repairs, (self.elapsed_s + repair_s, back))
            self.elapsed_s += pool.recovery_s
            self._take_back_repaired()
            if sum(self._standing_by):
                self._move(self._standing_by, self._job, 1)
            else:
                self._select()

    def _take_back_repaired(self) -> None:
        while self._repairs and self._repairs[0][0] <= self.elapsed_s:
            server = heappop(self._repairs)[1]
            stands_by = sum(self._standing_by) < self._pool.standbys
            (self._standing_by if stands_by else self._idle)[server] += 1

    def _select(self) -> None:
        """Pick servers for the job and to stand by; pull spares, or wait, where there are few."""
        pool = self._pool
        self.selections += 1
        self.elapsed_s += pool.selection_s
        self._take_back_repaired()
        wanted = pool.job_servers + pool.standbys
        if self._within_reach() < pool.job_servers:
            pulled = min(sum(self._spare), wanted - self._within_reach())
            self._move(self._spare, self._idle, pulled)
            self.spares_pulled += pulled
            self.elapsed_s += pulled * pool.spare_s
            self._take_back_repaired()
        while self._within_reach() < pool.job_servers:
            self.elapsed_s = self._repairs[0][0]
            self._take_back_repaired()
        for taken in (self._standing_by, self._idle):
            missing = pool.job_servers - sum(self._job)
            self._move(taken, self._job, min(missing, sum(taken)))
        room = pool.standbys - sum(self._standing_by)
        self._move(self._idle, self._standing_by, min(room, sum(self._idle)))

    def _within_reach(self) -> int:
        return sum(self._job) + sum(self._standing_by) + sum(self._idle)

    def _move(self, origin: list[int], goal: list[int], servers: int) -> None:
        """Move servers, whichever they are."""
        if not servers:
            return
        bad = int(self._rng.hypergeometric(origin[_BAD], origin[_GOOD], servers))
        for kind, moved in ((_BAD, bad), (_GOOD, servers - bad)):
            origin[kind] -= moved
            goal[kind] += moved


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
