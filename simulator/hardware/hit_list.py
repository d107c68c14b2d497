"""Components that are broken, for schemes that work around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from heapq import heappop, heappush
from math import inf

from faultline.simulator.failures.failure import Failure
from faultline.simulator.hardware.reserve import is_over
from faultline.simulator.job.job import Rules
from faultline.simulator.job.work import Hardware
from faultline.strategies.interface.recovery import Recovery
from faultline.strategies.interface.scheme import Hit, Strategy


class HitList:
    """Tracks which components are broken until when, and reports them to the scheme.

    If the scheme does not track components, nothing is recorded.

    Attributes
    ----------
    tracks_components : bool
        Whether the scheme works around broken components.
    outlive_restarts : bool
        Whether broken components stay broken in a restart.
    next_repair_s : float
        When the next repaired component returns, in seconds; infinite if it waits for a restart.
    """

    def __init__(self, strategy: Strategy, hardware: Hardware, rules: Rules) -> None:
        self.tracks_components = strategy.tracks_components
        self.outlive_restarts = strategy.tracks_components and not strategy.restart_replaces
        self.next_repair_s = inf
        self._strategy, self._rules = strategy, rules
        self._layout = hardware.layout
        self._repair_s, self._standby_s = hardware.repair_s, hardware.standby_s
        self._under_repair: list[tuple[float, Hit]] = []
        # Groups of which the hit by a failure is recorded, for failures since the last restart.
        self._recorded: dict[Failure, set[int]] = {}

    def strike(
        self, missing: Mapping[int, Failure], now_s: float, replaced: Collection[int] = ()
    ) -> None:
        """Report to the scheme the groups that a failure each has stopped, noticed at `now_s`.

        Standbys take the places of the broken components of the groups `replaced`.
        """
        for group, failure in missing.items():
            replaced_s = now_s + self._standby_s if group in replaced else None
            self._strategy.on_hit(self._add(group, failure, replaced_s))
        self._set_next_repair(now_s)

    def add_unreported(self, failures: Iterable[Failure], begun_s: float) -> None:
        """Record hits of which the scheme does not know after a restart that began at `begun_s`.

        They are those by `failures` before or during the restart, and those of groups that were
        down when a component of theirs broke that is still broken. This restart has already
        replaced or avoided these components. The next restart reports them to the scheme.
        """
        if not self.outlive_restarts:
            return
        broken = [one for one in self._recorded if self._repaired_s(one) > begun_s]
        for failure in (*broken, *failures):
            recorded = self._recorded.setdefault(failure, set())
            for group in failure.groups:
                if group not in recorded:
                    self._add(group, failure)
        # Each failure is reported once.
        self._recorded.clear()

    def enough_repaired_s(self) -> float:
        """Return when enough components are repaired for the scheme to have members, in seconds.

        More repairs never mean fewer members, so bisection finds the number needed. Afterwards the
        scheme is in its state at that time.
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
        """Return repaired components to the scheme; return the recovery that this needs."""
        needed: Recovery | None = None
        while self._is_repaired_by(now_s):
            recovery = self._strategy.on_repair(heappop(self._under_repair)[1])
            needed = needed if recovery is None else recovery.along_with(needed)
        self._set_next_repair(now_s)
        return needed

    def after_restart(self, now_s: float) -> None:
        """Report to the restarted scheme the components that the restart has not replaced."""
        if self._strategy.restart_replaces:
            self._under_repair.clear()
        while self._is_repaired_by(now_s):
            heappop(self._under_repair)
        for _, hit in sorted(self._under_repair):
            self._strategy.on_hit(hit)
        self._set_next_repair(now_s)

    def _is_repaired_by(self, now_s: float) -> bool:
        """Return whether the first repair has ended."""
        return bool(self._under_repair) and is_over(self._under_repair[0][0], now_s)

    def _has_members(self, broken: Iterable[tuple[float, Hit]]) -> bool:
        self._strategy.restart()
        for _, hit in broken:
            self._strategy.on_hit(hit)
        return bool(self._strategy.plan().members)

    def _add(self, group: int, failure: Failure, replaced_s: float | None = None) -> Hit:
        hit = self._hit_of(group, failure)
        repaired_s = self._repaired_s(failure) if replaced_s is None else replaced_s
        heappush(self._under_repair, (repaired_s, hit))
        if self.outlive_restarts:
            self._recorded.setdefault(failure, set()).add(group)
        return hit

    def _repaired_s(self, failure: Failure) -> float:
        """Return when a component works again; at once if its processes alone have failed."""
        if not self._rules.stops_machine(failure):
            return failure.time_s
        repair_s = self._repair_s if failure.repair_s is None else failure.repair_s
        return failure.time_s + repair_s

    def _hit_of(self, group: int, failure: Failure) -> Hit:
        """Return the part of a group that a failure has broken, by the numbers of its GPUs."""
        layout = self._layout
        gpus, first = layout.gpus_of(failure.level, failure.number), group * layout.gpus_per_group
        return Hit(
            group,
            max(gpus[0] - first, 0),
            min(gpus[-1] - first, layout.gpus_per_group - 1),
            layout.gpus_per_group,
        )

    def _set_next_repair(self, now_s: float) -> None:
        if self._under_repair and not self._strategy.repairs_wait_for_restart:
            self.next_repair_s = max(now_s, self._under_repair[0][0])
        else:
            self.next_repair_s = inf
