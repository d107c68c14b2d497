"""Reactions of a job to kinds of failures, as far as they do not depend on its progress.

A failure that stops nothing at first becomes a condition under which the job goes on for a while, a
later stop, or both. This depends on the failure alone, so it is the same for all schemes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from faultline.simulator.failures.distributions import Distribution
from faultline.simulator.failures.failure import STOPPING, Failure, Kind, Level
from faultline.strategies.theory.stragglers import StragglerPolicy


@dataclass(frozen=True, slots=True)
class SlowResponse:
    """Mitigation of stragglers that stay in the job, and the work that it can redistribute."""

    policy: StragglerPolicy  # The remedies, and when each is due.
    micro_batches: int  # Micro-batches of a group.
    # Time to fill a group's pipeline, in micro-batches.
    fill: float
    all_reduce_s: float  # Time of an all-reduce of all groups, in seconds.


@dataclass(frozen=True, slots=True)
class Reactions:
    """The reactions to all kinds of failures."""

    # Seconds from the onset of a slowdown to the eviction of the straggler; infinite if never.
    evicted_after_s: float = inf
    retry_s: float = 30.0  # Seconds for which a link may be down before its collective fails.
    # Whether the job restarts after a hang, or repeats the step.
    hang: Literal["restart", "abort"] = "restart"
    # Time-out of a hang, in seconds, if the failure does not state it.
    hang_timeout_s: float = 600.0
    # "drain": the job saves and restarts when maintenance starts. "migrate": a machine that was
    # prepared before takes over. "wait": the job restarts at the next failure, but no later than
    # `planned_limit_s` after the notice.
    planned: Literal["drain", "migrate", "wait"] = "drain"
    planned_limit_s: float = 86_400.0  # ByteRobust (arXiv 2509.16293): code changes wait 24 h.
    migrate_s: float = 0.0  # Seconds that the job waits while a machine takes over.
    # Levels of components that stop no group, however long they are slow or unavailable.
    spared: frozenset[Level] = frozenset({"cable"})
    validation_share: float = 0.0  # Share of all compute that is repeated to detect corruption.

    def stop(self, failure: Failure) -> Failure | None:
        """Return the failure by which a component finally stops; None if it never does."""
        if failure.kind in STOPPING:
            return failure
        after_s = self._stops_after_s(failure)
        if after_s >= failure.lasts_s:
            return None
        kind: Kind = "hardware" if failure.kind == "slow" else "network"
        repair_s = failure.repair_s
        if failure.kind == "flap":
            repair_s = failure.lasts_s - after_s
        return failure._replace(
            time_s=failure.time_s + after_s, kind=kind, repair_s=repair_s, lasts_s=0.0, factor=1.0
        )

    def condition(self, failure: Failure) -> Failure | None:
        """Return the failure with the duration of its condition; None if it stops a component."""
        if failure.kind in STOPPING:
            return None
        lasts_s = min(failure.lasts_s, self._stops_after_s(failure))
        if failure.kind == "hang":
            lasts_s = failure.lasts_s or self.hang_timeout_s
        elif failure.kind == "planned" and self.planned == "wait":
            lasts_s = self.planned_limit_s
        return failure._replace(lasts_s=lasts_s)

    def stopping_share(
        self, level: Level, kind: Kind, lasts: Distribution | None, factor: float
    ) -> float:
        """Return the share of failures of a kind that stop a component, by how long they last."""
        if kind in STOPPING:
            return 1.0
        typical = Failure(0.0, level, 0, "", kind, None, range(0), inf, factor)
        after_s = self._stops_after_s(typical)
        return lasts.survival(after_s) if lasts is not None and after_s < inf else 0.0

    def _stops_after_s(self, failure: Failure) -> float:
        if failure.level in self.spared:
            return inf
        if failure.kind == "slow":
            return self.evicted_after_s
        return self.retry_s if failure.kind == "flap" else inf
