"""Components that are broken, for schemes that work around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import heappop, heappush
from math import inf

from faultline.simulator.failures.failure import Failure, Level
from faultline.simulator.job import Work
from faultline.simulator.spare_pool import is_over
from faultline.strategies.base import Hit, Strategy
from faultline.strategies.recovery import Recovery


class HitList:
    """Tracks which components are broken until when, and reports them to the scheme.

    Nothing is recorded for a scheme that does not track components.

    Attributes
    ----------
    tracks_components : bool
        Whether the scheme works around broken components.
    outlive_restarts : bool
        Whether broken components stay broken in a restart.
    next_repair_s : float
        When the next repaired component is handed back; infinite if it waits for a restart.
    """

    def __init__(self, strategy: Strategy, work: Work) -> None:
        self.tracks_components = strategy.tracks_components
        self.outlive_restarts = strategy.tracks_components and not strategy.restart_replaces
        self.next_repair_s = inf
        self._strategy = strategy
        self._layout = work.layout
        self._repair_s, self._standby_s = work.repair_s, work.standby_s
        self._under_repair: list[tuple[float, Hit]] = []
        self._known: set[tuple[float, Level, int, int]] = set()
        self._reported: list[Failure] = []

    def inherit(self, damage: Iterable[tuple[float, Hit]]) -> None:
        """Start from damage that the scheme knows of, with its repair times, in seconds."""
        self._under_repair = sorted(damage)
        self._look_ahead(0.0)

    def strike(
        self,
        groups: Iterable[int],
        failures: Iterable[Failure],
        now_s: float,
        replaced: Collection[int] = (),
    ) -> None:
        """Report groups that went down, each by one failure, noticed at `now_s` seconds.

        Standbys take the places of the broken components of the groups `replaced`.
        """
        for group, failure in zip(groups, failures, strict=True):
            back_s = now_s + self._standby_s if group in replaced else None
            self._strategy.on_hit(self._take_in(group, failure, back_s))
        self._look_ahead(now_s)

    def note_reconfigured(self, failures: Iterable[Failure], now_s: float) -> None:
        """Record the failures that a reconfiguration has handled by `now_s`, in seconds.

        The scheme knows of the groups that were missing. Damage by the same failures to groups
        that were down already is kept for the restart in which these would come back, unless it
        is repaired by then.
        """
        if not self.outlive_restarts:
            return
        self._reported = [
            failure
            for failure in (*self._reported, *failures)
            if len(failure.groups) > 1 and self._repaired_s(failure) > now_s
        ]
        kept = {_name_of(failure) for failure in self._reported}
        self._known = {known for known in self._known if known[:3] in kept}

    def note_unreported(self, failures: Iterable[Failure]) -> None:
        """Record failures before or during a restart that have not been reported.

        This restart has already worked around them. The next one reports them to the scheme.
        """
        if not self.outlive_restarts:
            return
        for failure in (*self._reported, *failures):
            for group in failure.groups:
                if (*_name_of(failure), group) not in self._known:
                    self._take_in(group, failure)
        # Each failure is reported once.
        self._known.clear()
        self._reported.clear()

    def enough_repaired_s(self) -> float:
        """Return when enough is repaired for the scheme to have members, in seconds.

        More repairs never mean fewer members, so bisection finds the number needed. The scheme is
        left in its state at that time.
        """
        pending = sorted(self._under_repair)
        too_few, enough = 0, len(pending)
        while too_few < enough:
            repaired = (too_few + enough) // 2
            if self._has_members(pending[repaired:]):
                enough = repaired
            else:
                too_few = repaired + 1
        self._has_members(pending[enough:])
        return pending[enough - 1][0] if enough else -inf

    def repair(self, now_s: float) -> Recovery | None:
        """Hand back repaired components; return the recovery that this needs."""
        needed: Recovery | None = None
        while self._is_repaired_by(now_s):
            recovery = self._strategy.on_repair(heappop(self._under_repair)[1])
            needed = needed if recovery is None else recovery.along_with(needed)
        self._look_ahead(now_s)
        return needed

    def after_restart(self, now_s: float) -> None:
        """Update after a restart, which has replaced broken components or goes on without them."""
        if self._strategy.restart_replaces:
            self._under_repair.clear()
        while self._is_repaired_by(now_s):
            heappop(self._under_repair)
        for _, hit in sorted(self._under_repair):
            self._strategy.on_hit(hit)
        self._look_ahead(now_s)

    def _is_repaired_by(self, now_s: float) -> bool:
        """Return whether the first repair has ended."""
        return bool(self._under_repair) and is_over(self._under_repair[0][0], now_s)

    def _has_members(self, broken: Iterable[tuple[float, Hit]]) -> bool:
        self._strategy.restart()
        for _, hit in broken:
            self._strategy.on_hit(hit)
        return bool(self._strategy.plan().members)

    def _take_in(self, group: int, failure: Failure, back_s: float | None = None) -> Hit:
        hit = self._hit_of(group, failure)
        repaired_s = self._repaired_s(failure) if back_s is None else back_s
        heappush(self._under_repair, (repaired_s, hit))
        if self.outlive_restarts:
            self._known.add((*_name_of(failure), group))
        return hit

    def _repaired_s(self, failure: Failure) -> float:
        repair_s = self._repair_s if failure.repair_s is None else failure.repair_s
        return failure.time_s + repair_s

    def _hit_of(self, group: int, failure: Failure) -> Hit:
        """Return the part of a group that a failure has broken, by the numbers of its GPUs."""
        layout = self._layout
        if layout is None:
            return Hit(group, 0, 0, 1)
        gpus, first = layout.gpus_of(failure.level, failure.number), group * layout.gpus_per_group
        return Hit(
            group,
            max(gpus[0] - first, 0),
            min(gpus[-1] - first, layout.gpus_per_group - 1),
            layout.gpus_per_group,
        )

    def _look_ahead(self, now_s: float) -> None:
        if self._under_repair and not self._strategy.repairs_wait_for_restart:
            self.next_repair_s = max(now_s, self._under_repair[0][0])
        else:
            self.next_repair_s = inf


def _name_of(failure: Failure) -> tuple[float, Level, int]:
    return failure.time_s, failure.level, failure.number
