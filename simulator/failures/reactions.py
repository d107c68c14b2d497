"""What a job does about each kind of failure, as far as it does not depend on how the job goes on.

A failure of a kind that stops nothing becomes a condition under which the job goes on for a while,
a stop some time later, or both. Which, and when, follows from the failure alone: all schemes meet
the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Literal, Protocol

from faultline.simulator.failures.distributions import Distribution
from faultline.simulator.failures.failure import STOPPING, Failure, Kind, Level
from faultline.strategies.stragglers import StragglerPolicy


class SlowReaction(Protocol):
    """What is done about a slow component."""

    def evicted_after_s(self, failure: Failure) -> float:
        """Return the seconds from the onset until it is taken out of the job; infinite if never."""
        ...


@dataclass(frozen=True, slots=True)
class Ignore:
    """The job goes on at the pace of what is slow."""

    def evicted_after_s(self, failure: Failure) -> float:
        return inf


@dataclass(frozen=True, slots=True)
class Evict:
    """What is slow stops as soon as it is found."""

    found_after_s: float  # Seconds from the onset to where it is located.

    def evicted_after_s(self, failure: Failure) -> float:
        return self.found_after_s


@dataclass(frozen=True, slots=True)
class SlowResponse:
    """What is done about slow components while the job has them, and what there is to deal."""

    policy: StragglerPolicy  # Which remedies, and when.
    micro_batches: int  # Micro-batches of a group.
    # What a group's passes take besides those, in micro-batches: the filling of its pipeline.
    fill: float
    all_reduce_s: float  # What an all-reduce of all groups takes, in seconds.


@dataclass(frozen=True, slots=True)
class Reactions:
    """What is done about each kind of failure."""

    # About a slow component, until when a job is slow.
    slow: SlowReaction = field(default_factory=Ignore)
    retry_s: float = 30.0  # Seconds for which a link may be down before its collective fails.
    # Whether the job restarts after a hang, or does the step once more.
    hang: Literal["restart", "abort"] = "restart"
    # Seconds until a hang is given up, where the failure does not say.
    hang_timeout_s: float = 600.0
    # Whether the job saves and restarts at the end of the notice; or lets another machine, made
    # ready meanwhile, take over; or restarts with the next failure, but at last `planned_limit_s`
    # after the notice.
    planned: Literal["drain", "migrate", "wait"] = "drain"
    planned_limit_s: float = 86_400.0  # See there.
    migrate_s: float = 0.0  # Seconds for which all wait while a machine takes over.
    # Levels of components that take nobody down, however long they are slow or away.
    spared: frozenset[Level] = frozenset({"cable"})
    validation_share: float = 0.0  # Share of all compute that is done twice to find corruption.

    def stop(self, failure: Failure) -> Failure | None:
        """Return the failure by which a component stops in the end; None if it never does."""
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
        """Return under what the job goes on, and for how long; None if it stops at once."""
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
            return self.slow.evicted_after_s(failure)
        return self.retry_s if failure.kind == "flap" else inf
