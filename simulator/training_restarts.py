"""How training comes back: restarts, recoveries short of one, standbys, groups that return."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from faultline.simulator.failures.failure import Failure
from faultline.simulator.phases import (
    Inquiry,
    Load,
    Outcome,
    Phase,
    Reconfigure,
    Rejoin,
    Restart,
    Stall,
)
from faultline.simulator.snapshots import Saved
from faultline.simulator.spare_pool import is_over
from faultline.simulator.timeline import EventKind
from faultline.simulator.training_saves import Saving
from faultline.strategies.recovery import Recovery, rejoining

_UNTIL_KNOWN = ("detect", "diagnose")
"""Phases of a recovery before anything is repaired."""


class Restarting(Saving):
    """A job that can be brought back."""

    def _recover(
        self,
        recovery: Recovery | None,
        dropped: tuple[int, ...] = (),
        carried_on: tuple[int, ...] = (),
    ) -> Generator[Phase, Outcome, float]:
        """Let all wait for what a failure, or a repair, needs short of a restart.

        Returns when it was known what had failed, in seconds: from then on that is repaired.
        """
        if recovery and recovery.replaces_hardware:
            up = self.strategy.plan().members
            recovery = yield from self._on_other_machines(recovery, "reconfigure", up)
            recovery = recovery if self.work.standbys else recovery.without_standbys()
        members, begun_s = self.strategy.plan().members, self.progress.now_s
        outcome = yield Reconfigure(members, dropped, carried_on, recovery, self._asks)
        self._spend("reconfigure", outcome)
        if self._record and recovery is not None:
            self._log_phases(begun_s, outcome, "state")
            self._log(EventKind.RECOVERED, groups=(*dropped, *carried_on), recovery=recovery.kind)
        if self._asks:
            self._memory.strike(outcome.struck)
            self._hits.hear(outcome.struck, self.progress.now_s)
        if self._optimizer.is_shared:
            self._optimizer.deal(members, (*dropped, *carried_on))
        if not outcome.phases:
            return begun_s
        return begun_s + sum(span_s for name, span_s in outcome.phases if name in _UNTIL_KNOWN)

    def _hand_back(self) -> Generator[Phase, Outcome, None]:
        """Let repaired components work again, in their places."""
        recovery = self._hits.repair(self.progress.now_s)
        self._forget_repaired()
        if recovery is not None:
            yield from self._recover(recovery)

    def _forget_repaired(self) -> None:
        """Machines that work again in their places lack nothing."""
        now_s = self.progress.now_s
        self._lacking_until_s = [
            until_s for until_s in self._lacking_until_s if not is_over(until_s, now_s)
        ]

    def _readmit(self) -> Generator[Phase, Outcome, None]:
        """Take back those groups for which there is hardware again."""
        if not self._spares.has_ready(self.progress.now_s):
            return
        members = set(self.strategy.plan().members)
        down = [group for group in range(self.work.groups) if group not in members]
        returning = self._spares.collect(down, self.progress.now_s)
        if not returning:
            return
        recovery = rejoining(returning)
        members.update(returning)
        begun_s = self.progress.now_s
        outcome = yield Rejoin(returning, tuple(sorted(members)), recovery)
        self._spend("load", outcome)
        self._unsaved_since_s = self.progress.now_s
        self.strategy.on_return(returning)
        self._contract.returned(returning)
        # What still lacks hardware is down.
        del self._lacking_until_s[len(down) - len(returning) :]
        self._optimizer.deal(self.strategy.plan().members, returning)
        self.progress.rejoined += len(returning)
        if self._record:
            self._log_phases(begun_s, outcome, "state")
            stacks = self.strategy.plan().stacks
            self._log(EventKind.REJOINED, groups=returning, stacks=stacks)

    def _log_phases(self, begun_s: float, outcome: Outcome, rest: str) -> None:
        """Tell when each phase of a recovery ended, and what took the rest of its time."""
        end_s = begun_s
        for name, duration_s in outcome.phases:
            end_s = min(end_s + duration_s, outcome.now_s)
            self._log(EventKind.PHASE, time_s=end_s, recovery=name)
        # Sums of times differ in their last digits.
        if outcome.phases and outcome.now_s - end_s > 1e-6:
            self._log(EventKind.PHASE, time_s=outcome.now_s, recovery=rest)

    def _restart(
        self, clean: Saved | None = None, *, is_expected: bool = False
    ) -> Generator[Phase, Outcome, None]:
        """Bring the job back, to a state that is not corrupt if one is given.

        A restart that is expected was announced, or is for what has been found already.
        """
        progress, strategy = self.progress, self.strategy
        progress.restarts += 1
        self._restarts_since_save += 1
        if self._record:
            self._log(EventKind.WIPE_OUT)
        up = strategy.plan().members
        yield from self._begin_anew()
        self._contract.restarted()
        progress.states_refused = strategy.states_refused
        members = strategy.plan().members
        absent: tuple[int, ...] = ()
        if len(members) < self.work.groups:
            absent = tuple(sorted(set(range(self.work.groups)).difference(members)))
        begun_s = progress.now_s
        needed = replace(strategy.restart_recovery(), is_expected=is_expected)
        # For the first time since something was saved.
        if self._processes_failed and self._restarts_since_save == 1:
            needed = replace(needed, replaces_hardware=False)
        self._processes_failed = False
        struck = yield from self._start_processes(needed, up, absent)
        self._hits.note(struck)
        if self._record:
            self._log(EventKind.RESTARTED)
        self._spares.restart()
        found, where, duration_s = self._memory.recover(self._before_failure, self._saved, struck)
        if clean is not None:
            self._memory.forget()
            found, where, duration_s = clean, "storage", None
            self._saved_before = self._saved = clean
        # Corruption that a state is older than has not touched it.
        self._clean = {
            failure: kept for failure, kept in self._clean.items() if found.batches > kept.batches
        }
        self._restarted_s, self._due_step = progress.now_s, 0
        self._put_off.clear()
        progress.restarts_from_memory += where == "local"
        progress.restarts_from_peers += where == "peers"
        progress.ledger.take_back(found.booked)
        self._loaded = found
        redone = self.rules.resume == "redo" and found is self._saved and found.steps > 0
        progress.completed_steps = found.steps - 1 if redone else found.steps
        progress.trained, progress.samples = found.batches.plus(-1 if redone else 0, found.last)
        yield from self._load(duration_s)
        # The restart has told all that had failed when it began. What fails from then on, and is
        # not told yet, is lost after it.
        self._memory.guard(members, begun_s, progress.now_s)
        self._unsaved_since_s = progress.now_s
        if self._record:
            self._log(EventKind.LOADED)

    def _start_processes(
        self, needed: Recovery, up: Sequence[int], absent: tuple[int, ...]
    ) -> Generator[Phase, Outcome, list[Failure]]:
        """Find machines and start all processes; again where a restart loses machines that lack.

        Returns what has failed before and meanwhile, if the job asks; `up` are the groups that
        were up when it began.
        """
        counts_machines = self._has_pool and needed.replaces_hardware
        on_these = needed
        if not needed.replaces_hardware:
            self._forget_repaired()
        else:
            on_these = yield from self._on_other_machines(needed, "restart", up)
        struck: list[Failure] = []
        while True:
            begun_s = self.progress.now_s
            asks = self._asks or counts_machines
            outcome = yield Restart(self.work.groups, absent, asks, on_these)
            self._spend("restart", outcome)
            struck += outcome.struck if self._asks else ()
            if self._record:
                self._log_phases(begun_s, outcome, "wait")
                for time_s, group in outcome.failures:
                    self._log(EventKind.FAILURE_IN_RESTART, time_s=time_s, groups=(group,))
            if not counts_machines:
                return struck
            failed = [one for one in outcome.struck if one.time_s > begun_s]
            self._lacking_until_s += chain(*self._machines_lost(failed, at_once=True).values())
            launched_s, up = self.progress.now_s, self.strategy.plan().members
            on_these = yield from self._on_other_machines(needed, "restart", up)
            # Other machines that are there at once have started with the rest.
            if self.progress.now_s <= launched_s:
                return struck

    def _load(self, duration_s: float | None) -> Generator[Phase, Outcome, None]:
        """Load from memory in so many seconds, and migrate; or from storage, all that is needed."""
        if duration_s is None:
            yield from self._await_storage("load")
        members, migration = self.strategy.plan().members, self.strategy.migration()
        self._spend("load", (yield Load(members, duration_s)))
        if migration is not None and duration_s is not None:
            self._spend("load", (yield Reconfigure(members, recovery=migration)))

    def _begin_anew(self) -> Generator[Phase, Outcome, None]:
        """Let the scheme start with what is not broken."""
        self.strategy.restart()
        self._hits.after_restart(self.progress.now_s)
        yield from self._wait_for_hardware()

    def _wait_for_hardware(self) -> Generator[Phase, Outcome, None]:
        """Wait for repairs where there is nothing to work with."""
        if self.strategy.plan().members:
            return
        wait_s = self._hits.enough_repaired_s() - self.progress.now_s
        if wait_s > 0.0:
            self._spend("restart", (yield Stall((), wait_s)))
        self.strategy.restart()
        self._hits.after_restart(self.progress.now_s)

    def _machines_lost(
        self, struck: Iterable[Failure], *, at_once: bool = False
    ) -> dict[Failure, list[float]]:
        """Return when each machine is repaired that a failure has taken, in seconds, by failure.

        A repair begins now, or when the failure happened if it was noticed `at_once`. Software that
        fails everywhere at once takes no machine.
        """
        now_s, usual_s, transient = self.progress.now_s, self.work.repair_s, self.rules.transient
        layout, lost = self.work.layout, dict[Failure, list[float]]()
        # Standbys take the places of what failed first.
        for failure in sorted(struck, key=lambda one: (one.time_s, one.number)):
            if failure.kind == "software" and (transient != "replaced" or failure.level == "job"):
                continue
            own_s = None if self._readmits else failure.repair_s
            noticed_s = failure.time_s if at_once else now_s
            repaired_s = noticed_s + (usual_s if own_s is None else own_s)
            lost[failure] = [repaired_s] * (layout.machines_of(failure) if layout else 1)
        return lost

    def _on_other_machines(
        self, needed: Recovery, cause: str, up: Sequence[int]
    ) -> Generator[Phase, Outcome, Recovery]:
        """Fill the places of what failed: by standbys, free machines, and what is repaired first.

        What fails of the groups that are `up` while the job waits needs another machine too.
        Returns what is needed then; what was waited for is booked under a cause.
        """
        begun_s, lacking_until_s = self.progress.now_s, self._lacking_until_s
        self._lacking_until_s = []
        lacking = len(lacking_until_s) - self._send_standbys(len(lacking_until_s), begun_s)
        was_waited_for, self._was_waited_for = self._was_waited_for, False
        if not (lacking or was_waited_for):
            return needed
        needed, free = needed.without_standbys(), self._free_machines
        if free is None:
            return needed
        for repaired_s in lacking_until_s[len(lacking_until_s) - lacking :]:
            free.bring(1, repaired_s, 0.0)
        filled_s = begun_s
        while lacking:
            now_s = self.progress.now_s
            filled_s = max(filled_s, min(free.next_ready_s, self._standbys.next_ready_s))
            if filled_s > now_s:
                self._spend(cause, (yield Stall((), filled_s - now_s)))
                due = (yield Inquiry(tuple(up))).struck
                failed = [one for one in due if now_s < one.time_s <= self.progress.now_s]
                for repaired_s in chain(*self._machines_lost(failed, at_once=True).values()):
                    free.bring(1, repaired_s, 0.0)
                    lacking += 1
            lacking -= len(free.collect(range(lacking), filled_s))
            lacking -= self._send_standbys(lacking, filled_s)
        if filled_s > begun_s:
            self._waited_s = begun_s, self.progress.now_s
            was_waited_for = True
        if was_waited_for:
            needed = replace(needed, replaces_hardware=False, lacks_standbys=False)
        return needed

    def _replaced_at_once(
        self, missing: Sequence[int], struck: Sequence[Failure], lost: dict[Failure, list[float]]
    ) -> set[int]:
        """Take out of what is lost that for which there is a machine at once.

        What failed while the job waited for machines was known then, and the job has waited for
        others in these places. Standbys replace a failure's machines all together, or none of them.
        Returns the groups that lack nothing any more.
        """
        replaced: set[int] = set()
        now_s, (waited_from_s, waited_to_s) = self.progress.now_s, self._waited_s
        for failure, repairs_s in list(lost.items()):
            if waited_from_s < failure.time_s <= waited_to_s:
                self._was_waited_for = True
            elif self._sends_standbys and self._standbys.ready(now_s) >= len(repairs_s):
                self._send_standbys(len(repairs_s), now_s)
            else:
                continue
            del lost[failure]
            groups = (group for group, its in zip(missing, struck, strict=True) if its == failure)
            replaced.update(groups)
        return replaced

    def _send_standbys(self, failed: int, at_s: float) -> int:
        """Send standbys to the places of what has failed, at that time; return how many."""
        if not self.work.standbys or not failed:
            return 0
        sent = len(self._standbys.collect(range(failed), at_s))
        self.progress.standby_failures = self._standbys.failures
        self._standbys.bring(sent, at_s)
        return sent
