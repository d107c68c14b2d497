"""A job that draws its servers from a pool: warm standbys, spares, repairs, and bad servers.

The model of AIReSim (karthikp-ubc/airesim), whose results are a row of the study. Servers that are
alike are counted, not told apart: a server is good or bad, and in the job, standing by, idle in the
working pool, spare, or under repair. Only servers of the job fail, and only while it computes. No
work is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

import numpy as np

_DAY_S = 86_400.0
_GOOD, _BAD = 0, 1
_AUTOMATIC, _MANUAL = 0, 1


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
    manual_s: float = 2 * _DAY_S
    manual_share: float = 0.8  # Share of repairs that go on to the second stage.
    # Probabilities that a bad server comes back good, by the last stage.
    fixed_by_automatic: float = 0.6
    fixed_by_manual: float = 0.8

    @property
    def rates(self) -> tuple[float, float]:
        """Failures a second of a good and of a bad server, in 1/s."""
        good = self.good_failures_per_day / _DAY_S
        return good, good * (1.0 + self.bad_factor)


@dataclass(frozen=True, slots=True)
class PoolRun:
    """What came of a run."""

    # Seconds that were computed, and that passed.
    compute_s: float
    elapsed_s: float
    # How many there were.
    failures: int
    selections: int
    spares_pulled: int

    @property
    def training_ratio(self) -> float:
        """Time computed over time passed (AIReSim's ETR)."""
        return self.compute_s / self.elapsed_s


class _Play:
    """One run: counts of servers, [good, bad], by where they are."""

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
        self._now_s = 0.0
        self.failures = self.selections = self.spares_pulled = 0

    def run(self) -> PoolRun:
        pool, rng = self._pool, self._rng
        left_s = whole_s = pool.compute_days * _DAY_S
        self._select()
        while True:
            rates = [count * rate for count, rate in zip(self._job, pool.rates, strict=True)]
            until_s = rng.exponential(1.0 / sum(rates)) if sum(rates) else inf
            if until_s >= left_s:
                elapsed_s = self._now_s + left_s
                return PoolRun(
                    whole_s, elapsed_s, self.failures, self.selections, self.spares_pulled
                )
            left_s -= until_s
            self._now_s += until_s
            failed = _BAD if rng.random() * sum(rates) < rates[_BAD] else _GOOD
            self._fail(failed)

    def _fail(self, failed: int) -> None:
        self.failures += 1
        self._job[failed] -= 1
        self._send_to_repair(failed)
        self._now_s += self._pool.recovery_s
        self._take_back_repaired()
        if sum(self._standing_by):
            self._move(self._standing_by, self._job, 1)
        else:
            self._select()

    def _send_to_repair(self, server: int) -> None:
        pool, rng = self._pool, self._rng
        stage = _MANUAL if rng.random() < pool.manual_share else _AUTOMATIC
        duration_s = rng.exponential(pool.automatic_s)
        if stage == _MANUAL:
            duration_s += rng.exponential(pool.manual_s)
        fixed = (pool.fixed_by_automatic, pool.fixed_by_manual)[stage]
        back = _GOOD if rng.random() < fixed else server
        heappush(self._repairs, (self._now_s + duration_s, back))

    def _take_back_repaired(self) -> None:
        while self._repairs and self._repairs[0][0] <= self._now_s:
            server = heappop(self._repairs)[1]
            stands_by = sum(self._standing_by) < self._pool.standbys
            (self._standing_by if stands_by else self._idle)[server] += 1

    def _select(self) -> None:
        """Pick servers for the job and to stand by; pull spares, or wait, where there are few."""
        pool = self._pool
        self.selections += 1
        self._now_s += pool.selection_s
        self._take_back_repaired()
        wanted = pool.job_servers + pool.standbys
        if self._within_reach() < pool.job_servers:
            pulled = min(sum(self._spare), wanted - self._within_reach())
            self._move(self._spare, self._idle, pulled)
            self.spares_pulled += pulled
            self._now_s += pulled * pool.spare_s
            self._take_back_repaired()
        while self._within_reach() < pool.job_servers:
            self._now_s = self._repairs[0][0]
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


def play_pool(pool: Pool, rng: np.random.Generator) -> PoolRun:
    """Play a job to its end."""
    return _Play(pool, rng).run()
