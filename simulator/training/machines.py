"""Machines that replace failed ones: standbys, free machines, and repaired ones."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from math import inf

from faultline.simulator.failures.failure import Failure
from faultline.simulator.phases import Inquiry, Outcome, Phase, Stall
from faultline.simulator.spare_pool import SparePool, is_over
from faultline.simulator.training.state import TrainingState
from faultline.strategies.recovery import Recovery


class Machines:
    """Counts the machines of a job, and those that may replace them.

    Attributes
    ----------
    groups : SparePool
        Hardware for whole groups, for jobs whose groups rejoin at checkpoints.
    identifies_failures : bool
        Whether the failures have to be known before the scheme decides about a step.
    is_counted : bool
        Whether replacement machines are counted, and so may run out.
    """

    def __init__(self, state: TrainingState) -> None:
        work, rules = state.work, state.rules
        self._state = state
        self.groups = SparePool(work.spare_groups, work.repair_s)
        lives = work.standby_lives
        self._standbys = SparePool(work.standbys, work.replenish_s, lives() if lives else None)
        free = work.free_machines
        self._free = None if free is None else SparePool(free, work.repair_s)
        # When each failed machine without a replacement is repaired.
        self._repaired_s: list[float] = []
        # Start and end of the last wait for machines, and whether a failure during it has not been
        # recovered yet.
        self._waited_s = (-inf, -inf)
        self._was_waited_for = False
        self._starts_in_place = rules.transient == "in-place"
        self._processes_failed = False
        self.is_counted = work.standbys > 0 or free is not None
        tracks_components = state.hits.tracks_components
        self.identifies_failures = tracks_components or self._starts_in_place or self.is_counted
        self._sends_standbys = work.standbys > 0 and (tracks_components or state.readmits)

    def add_failed(self, repaired_s: Iterable[float]) -> None:
        """Add failed machines, given the times at which they are repaired, in seconds."""
        self._repaired_s += repaired_s

    def add_lost_to(self, struck: Iterable[Failure], *, at_once: bool = False) -> None:
        """Add the machines that are lost to failures (see `lost_to`)."""
        self.add_failed(chain.from_iterable(self.lost_to(struck, at_once=at_once).values()))

    def forget_repaired(self) -> None:
        """Forget machines that work again in their own places."""
        now_s = self._state.progress.now_s
        self._repaired_s = [time_s for time_s in self._repaired_s if not is_over(time_s, now_s)]

    def keep_failed(self, down: int) -> None:
        """Forget all failed machines except one for each of the groups that are down."""
        del self._repaired_s[down:]

    def drop_groups(self, dropped: int, replaced: int, diagnosed_s: float) -> None:
        """Let groups wait for hardware since `diagnosed_s`, when their failures were diagnosed.

        Standbys replace `replaced` of them, which wait only until a standby is in place.
        """
        self.groups.add_failed(replaced, diagnosed_s, self._state.work.standby_s)
        self.groups.add_failed(dropped - replaced, diagnosed_s)

    def step_is_lost(self) -> None:
        """Note that a step is lost: if no machine has failed, only processes have."""
        self._processes_failed = self._starts_in_place and not self._repaired_s

    def needed_to_restart(self, needed: Recovery) -> Recovery:
        """Return the recovery of a restart; it keeps the machines if only processes have failed.

        The same machines are tried once per saved state.
        """
        if self._processes_failed and self._state.restarts_since_save == 1:
            needed = replace(needed, replaces_hardware=False)
        self._processes_failed = False
        return needed

    def lost_to(
        self, struck: Iterable[Failure], *, at_once: bool = False
    ) -> dict[Failure, list[float]]:
        """Return the repair times of the machines lost to each failure, in seconds.

        A repair begins now, or when the failure happened if it was noticed `at_once`. A failure of
        software on the whole job costs no machine.
        """
        work, transient = self._state.work, self._state.rules.transient
        now_s, usual_s, readmits = self._state.progress.now_s, work.repair_s, self._state.readmits
        layout, lost = work.layout, dict[Failure, list[float]]()
        # Standbys replace the machines that failed first.
        for failure in sorted(struck, key=lambda failure: (failure.time_s, failure.number)):
            if failure.kind == "software" and (transient != "replaced" or failure.level == "job"):
                continue
            stated_s = None if readmits else failure.repair_s
            noticed_s = failure.time_s if at_once else now_s
            repaired_s = noticed_s + (usual_s if stated_s is None else stated_s)
            lost[failure] = [repaired_s] * (layout.machines_of(failure) if layout else 1)
        return lost

    def fill_places(
        self, needed: Recovery, cause: str, up: Sequence[int]
    ) -> Generator[Phase, Outcome, Recovery]:
        """Replace failed machines by standbys, free machines, and the first repaired ones.

        Machines of the groups `up` that fail during the wait are replaced too. Returns the
        recovery that is still needed; the wait is booked under `cause`.
        """
        state, begun_s = self._state, self._state.progress.now_s
        repairs_s, self._repaired_s = self._repaired_s, []
        lacking = len(repairs_s) - self._send_standbys(len(repairs_s), begun_s)
        was_waited_for, self._was_waited_for = self._was_waited_for, False
        if not (lacking or was_waited_for):
            return needed
        needed, free = needed.without_standbys(), self._free
        if free is None:
            return needed
        for repaired_s in repairs_s[len(repairs_s) - lacking :]:
            free.add_failed(1, repaired_s, 0.0)
        filled_s = begun_s
        while lacking:
            now_s = state.progress.now_s
            filled_s = max(filled_s, min(free.next_ready_s, self._standbys.next_ready_s))
            if filled_s > now_s:
                state.spend(cause, (yield Stall((), filled_s - now_s)))
                due, later_s = (yield Inquiry(tuple(up))).struck, state.progress.now_s
                failed = [failure for failure in due if now_s < failure.time_s <= later_s]
                for repaired_s in chain(*self.lost_to(failed, at_once=True).values()):
                    free.add_failed(1, repaired_s, 0.0)
                    lacking += 1
            lacking -= len(free.collect(range(lacking), filled_s))
            lacking -= self._send_standbys(lacking, filled_s)
        if filled_s > begun_s:
            self._waited_s = begun_s, state.progress.now_s
            was_waited_for = True
        if was_waited_for:
            needed = replace(needed, replaces_hardware=False, lacks_standbys=False)
        return needed

    def replace_at_once(
        self, missing: Sequence[int], struck: Sequence[Failure], lost: dict[Failure, list[float]]
    ) -> set[int]:
        """Remove from `lost` the machines that can be replaced at once.

        A wait for machines has already covered the failures during it. Standbys replace all
        machines of a failure, or none. Returns the groups that are complete.
        """
        replaced: set[int] = set()
        now_s, (waited_from_s, waited_to_s) = self._state.progress.now_s, self._waited_s
        for failure, repairs_s in list(lost.items()):
            if waited_from_s < failure.time_s <= waited_to_s:
                self._was_waited_for = True
            elif self._sends_standbys and self._standbys.ready(now_s) >= len(repairs_s):
                self._send_standbys(len(repairs_s), now_s)
            else:
                continue
            del lost[failure]
            replaced.update(
                group for group, cause in zip(missing, struck, strict=True) if cause == failure
            )
        return replaced

    def _send_standbys(self, failed: int, at_s: float) -> int:
        """Send standbys to the places of failed machines at `at_s`; return their number."""
        if not self._state.work.standbys or not failed:
            return 0
        sent = len(self._standbys.collect(range(failed), at_s))
        self._state.progress.standby_failures = self._standbys.failures
        self._standbys.add_failed(sent, at_s)
        return sent
