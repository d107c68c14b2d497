"""How training comes back: restarts, recoveries short of one, standbys, groups that return."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from faultline.simulator.phases import (
    Load,
    Outcome,
    Phase,
    Reconfigure,
    Rejoin,
    Restart,
    Stall,
)
from faultline.simulator.snapshots import Saved
from faultline.simulator.timeline import EventKind
from faultline.simulator.training_saves import Saving
from faultline.strategies.recovery import Recovery, rejoining


class Restarting(Saving):
    """A job that can be brought back."""

    def _recover(
        self,
        recovery: Recovery | None,
        dropped: tuple[int, ...] = (),
        carried_on: tuple[int, ...] = (),
    ) -> Generator[Phase, Outcome, None]:
        """Let all wait for what a failure, or a repair, needs short of a restart."""
        if recovery and recovery.replaces_hardware:
            suffice = self._fill_with_standbys() and self.work.standbys > 0
            recovery = recovery if suffice else recovery.without_standbys()
        members, begun_s = self.strategy.plan().members, self.progress.now_s
        outcome = yield Reconfigure(members, dropped, carried_on, recovery, self._asks)
        self._spend("reconfigure", outcome)
        if self._record and recovery is not None:
            self._log_phases(begun_s, outcome, "state")
            self._log(EventKind.RECOVERED, groups=(*dropped, *carried_on), recovery=recovery.kind)
        self._memory.strike(outcome.struck)
        self._optimizer.deal(members, (*dropped, *carried_on))
        self._hits.hear(outcome.struck, self.progress.now_s)

    def _hand_back(self) -> Generator[Phase, Outcome, None]:
        """Let repaired components work again."""
        recovery = self._hits.repair(self.progress.now_s)
        if recovery is not None:
            yield from self._recover(recovery)

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
        # Whoever still lacks hardware is down.
        still_down = len(down) - len(returning)
        self._failed_since_restart = min(self._failed_since_restart, still_down)
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
        in_place = self._processes_failed and self._restarts_since_save == 1
        self._processes_failed = False
        if in_place:
            needed = replace(needed, replaces_hardware=False)
        elif needed.replaces_hardware and not self._fill_with_standbys():
            needed = needed.without_standbys()
        outcome = yield Restart(self.work.groups, absent, self._asks, needed)
        self._spend("restart", outcome)
        self._hits.note(outcome.struck)
        if self._record:
            self._log_phases(begun_s, outcome, "wait")
            for time_s, group in outcome.failures:
                self._log(EventKind.FAILURE_IN_RESTART, time_s=time_s, groups=(group,))
            self._log(EventKind.RESTARTED)
        self._spares.restart()
        found, where, duration_s = self._memory.recover(
            self._before_failure, self._saved, outcome.struck
        )
        if clean is not None:
            self._memory.forget()
            found, where, duration_s = clean, "storage", None
            self._saved_before = self._saved = clean
        # Corruption that a state is older than has not touched it.
        self._clean = {
            failure: kept for failure, kept in self._clean.items() if found.batches > kept.batches
        }
        self._restarted_s = progress.now_s
        self._put_off.clear()
        progress.restarts_from_memory += where == "local"
        progress.restarts_from_peers += where == "peers"
        progress.ledger.take_back(found.booked)
        self._loaded = found
        redone = self.rules.resume == "redo" and found is self._saved and found.steps > 0
        progress.completed_steps = found.steps - 1 if redone else found.steps
        progress.completed = found.batches.plus(-1 if redone else 0, found.last)
        yield from self._load(duration_s)
        # The restart has told all that had failed when it began. What fails from then on, and is
        # not told yet, is lost after it.
        self._memory.guard(members, begun_s, progress.now_s)
        self._unsaved_since_s = progress.now_s
        if self._record:
            self._log(EventKind.LOADED)

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

    def _fill_with_standbys(self) -> bool:
        """Send standbys to the places of what still lacks one; whether there are as many."""
        failed, self._failed_since_restart = self._failed_since_restart, 0
        if not self.work.standbys:
            return not failed
        sent = self._send_standbys(failed)
        self._standbys.bring(sent, self.progress.now_s)
        return sent == failed

    def _send_standbys(self, failed: int) -> int:
        """Send standbys to the places of what has failed; return how many there are."""
        if not self.work.standbys:
            return 0
        sent = len(self._standbys.collect(range(failed), self.progress.now_s))
        self.progress.standby_failures = self._standbys.failures
        return sent
