"""Recovery of training: restarts, recoveries without a restart, and groups that rejoin."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from faultline.simulator.accounting.timeline import EventKind
from faultline.simulator.failures.failure import Failure
from faultline.simulator.hardware.reserve import is_over
from faultline.simulator.job.phases import (
    NONE_MISSING,
    Load,
    Outcome,
    Phase,
    Reconfigure,
    Rejoin,
    Restart,
    Stall,
)
from faultline.simulator.loop.machines import Machines
from faultline.simulator.loop.saver import Saver
from faultline.simulator.loop.state import TrainingState
from faultline.simulator.state.snapshots import Saved
from faultline.strategies.interface.recovery import Recovery, rejoining
from faultline.strategies.protection.base import Recovery as Place

_UNTIL_DIAGNOSED = ("detect", "diagnose")
"""Phases of a recovery before any repair."""


class Restarter:
    """Recovers a job.

    Attributes
    ----------
    clean : dict of Failure to Saved
        For each silent corruption not found yet, the newest older state on storage.
    restarted_s : float
        End of the last restart, in seconds of simulated time.
    """

    def __init__(self, state: TrainingState, saver: Saver, machines: Machines) -> None:
        self._state, self._saver, self._machines = state, saver, machines
        self.clean: dict[Failure, Saved] = {}
        self.restarted_s = -inf

    def recover(
        self,
        recovery: Recovery | None,
        dropped: tuple[int, ...] = (),
        carried_on: tuple[int, ...] = (),
        missing: Mapping[int, Failure] = NONE_MISSING,
    ) -> Generator[Phase, Outcome, float]:
        """Let all groups wait for a recovery, after a failure or repair, without a restart.

        The groups dropped and carried on are `missing`, each with its failure. Returns when these
        failures were diagnosed, in seconds: repairs begin then.
        """
        state = self._state
        if recovery and recovery.replaces_hardware:
            recovery = yield from self._machines.fill_places(recovery, "reconfigure", state.members)
            recovery = recovery if state.hardware.standbys else recovery.without_standbys()
        members, begun_s = state.members, state.progress.now_s
        outcome = yield Reconfigure(members, dropped, carried_on, recovery)
        state.spend("reconfigure", outcome)
        if state.record and recovery is not None:
            self._log_phases(begun_s, outcome, "state")
            state.log(EventKind.RECOVERED, groups=(*dropped, *carried_on), recovery=recovery.kind)
        state.memory.strike(missing[group] for group in (*dropped, *carried_on))
        if state.optimizer.is_shared:
            state.optimizer.deal(members, (*dropped, *carried_on))
        if not outcome.phases:
            return begun_s
        return begun_s + sum(span_s for name, span_s in outcome.phases if name in _UNTIL_DIAGNOSED)

    def hand_back(self) -> Generator[Phase, Outcome, None]:
        """Put repaired components back in their places."""
        recovery = self._state.hits.repair(self._state.progress.now_s)
        self._machines.return_repaired(self._state.progress.now_s)
        if recovery is not None:
            yield from self.recover(recovery)

    def readmit(self) -> Generator[Phase, Outcome, None]:
        """Take back the groups for which hardware is ready."""
        state, now_s = self._state, self._state.progress.now_s
        returning = self._machines.take_back()
        if not returning:
            return
        recovery = rejoining(returning)
        members = {*state.members, *returning}
        outcome = yield Rejoin(returning, tuple(sorted(members)), recovery)
        state.spend("load", outcome)
        state.unsaved_since_s = state.progress.now_s
        state.strategy.on_return(returning)
        state.contract.returned(returning)
        state.optimizer.deal(state.members, returning)
        state.progress.rejoined += len(returning)
        if state.record:
            self._log_phases(now_s, outcome, "state")
            state.log(EventKind.REJOINED, groups=returning, stacks=state.strategy.plan().stacks)

    def _log_phases(self, begun_s: float, outcome: Outcome, rest: str) -> None:
        """Record the end of each phase of a recovery, and the time after them as `rest`."""
        end_s = begun_s
        for name, duration_s in outcome.phases:
            end_s = min(end_s + duration_s, outcome.now_s)
            self._state.log(EventKind.PHASE, time_s=end_s, recovery=name)
        # Sums of times differ by rounding.
        if outcome.phases and outcome.now_s - end_s > 1e-6:
            self._state.log(EventKind.PHASE, time_s=outcome.now_s, recovery=rest)

    def restart(
        self, clean: Saved | None = None, *, is_expected: bool = False
    ) -> Generator[Phase, Outcome, None]:
        """Restart the job, from the state `clean` if one is given.

        An expected restart was announced, or its detection is booked already.
        """
        state, strategy = self._state, self._state.strategy
        state.progress.restarts += 1
        state.restarts_since_save += 1
        if state.record:
            state.log(EventKind.WIPE_OUT)
        up = state.members
        # The scheme starts with the components that are not broken.
        strategy.restart()
        state.hits.after_restart(state.progress.now_s)
        yield from self.wait_for_hardware()
        state.contract.restarted()
        state.progress.states_refused = strategy.states_refused
        members = state.members
        absent: tuple[int, ...] = ()
        if len(members) < state.work.groups:
            absent = tuple(sorted(set(range(state.work.groups)).difference(members)))
        begun_s = state.progress.now_s
        needed = replace(strategy.restart_recovery(), is_expected=is_expected)
        needed = self._machines.needed_to_restart(needed)
        struck = yield from self._start_processes(needed, up, absent)
        state.hits.add_unreported(struck, begun_s)
        if state.record:
            state.log(EventKind.RESTARTED)
        self._machines.restarted(begun_s)
        yield from self._load(struck, clean, begun_s)
        # The restart has reported all failures before `begun_s`. Later ones have not been reported
        # yet, and are losses of the state that was loaded.
        state.memory.replace_lost_nodes(members, begun_s, state.progress.now_s)
        state.unsaved_since_s = state.progress.now_s
        if state.record:
            state.log(EventKind.LOADED)

    def restart_unbroken(self, *, is_expected: bool = False) -> Generator[Phase, Outcome, None]:
        """Restart although no member is missing; survivors hold the current state."""
        self._state.before_failure = self._state.to_save(self._state.progress.now_s)
        yield from self.restart(is_expected=is_expected)

    def _state_to_load(
        self, struck: Iterable[Failure], clean: Saved | None, begun_s: float
    ) -> tuple[Saved, Place, float | None]:
        """Return the state that a restart loads, its place, and its time; None from storage.

        All groups were stopped at `begun_s` seconds. The failures `struck` are reported now.
        """
        state = self._state
        state.memory.strike(struck)
        state.memory.stop(begun_s)
        if clean is None:
            return state.memory.recover(state.before_failure, state.saved)
        state.memory.forget()
        state.memory.checkpoint.reset(clean)
        return clean, "storage", None

    def _start_processes(
        self, needed: Recovery, up: Sequence[int], absent: tuple[int, ...]
    ) -> Generator[Phase, Outcome, list[Failure]]:
        """Find machines and start all processes; repeat if machines fail during the restart.

        Returns the failures unnoticed before it and during it; the groups `up` were up at the
        start.
        """
        state, machines = self._state, self._machines
        replaces = state.strategy.restart_replaces
        counts_machines = machines.is_counted and replaces
        if counts_machines:
            machines.lose_unnoticed(up)
        machines.return_repaired(state.progress.now_s)
        if replaces and machines.has_vacant_places:
            # More than the processes has failed.
            needed = replace(needed, replaces_hardware=True)
        recovery = needed
        if replaces and needed.replaces_hardware:
            recovery = yield from machines.fill_places(needed, "restart", up)
        struck: list[Failure] = []
        while True:
            begun_s = state.progress.now_s
            outcome = yield Restart(state.work.groups, absent, recovery)
            state.spend("restart", outcome)
            struck += (failure for _, failure in outcome.failures)
            meanwhile = [each for each in outcome.failures if not is_over(each[1].time_s, begun_s)]
            if state.record:
                self._log_phases(begun_s, outcome, "wait")
                for group, failure in meanwhile:
                    time_s = failure.time_s
                    state.log(EventKind.FAILURE_IN_RESTART, time_s=time_s, groups=(group,))
            if not counts_machines:
                return struck
            machines.lose((failure for _, failure in meanwhile), at_once=True)
            launched_s, up = state.progress.now_s, state.members
            recovery = yield from machines.fill_places(needed, "restart", up)
            # Machines that were available at once have started with the others.
            if state.progress.now_s <= launched_s or not state.goes_on():
                return struck

    def _load(
        self, struck: Iterable[Failure], clean: Saved | None, begun_s: float
    ) -> Generator[Phase, Outcome, None]:
        """Go back to the last state that is left, from memory or from storage.

        If a group fails in the load, the others load what is left then. After a load from memory,
        domains that change their place migrate. In a load from storage, they load the state of
        their new place.
        """
        state, progress, members = self._state, self._state.progress, self._state.members
        missing: Mapping[int, Failure] = NONE_MISSING
        while True:
            saved, place, duration_s = self._state_to_load(struck, clean, begun_s)
            self._go_back(saved)
            if duration_s is None:
                yield from self._saver.await_storage("load")
            outcome = yield Load(members, duration_s)
            state.spend("load", outcome)
            missing = outcome.missing
            members = tuple(group for group in members if group not in missing)
            if not missing or not members:
                break
            struck = missing.values()
        progress.restarts_from_memory += place == "local"
        progress.restarts_from_peers += place == "peers"
        migration = state.strategy.migration()
        if migration is not None and duration_s is not None:
            state.spend("load", (yield Reconfigure(state.members, recovery=migration)))

    def _go_back(self, saved: Saved) -> None:
        """Take back what was trained after a state."""
        state, progress = self._state, self._state.progress
        # A state older than a corruption is not affected by it.
        self.clean = {
            failure: older for failure, older in self.clean.items() if saved.batches > older.batches
        }
        self.restarted_s, state.due_step = progress.now_s, 0
        self._saver.forget_postponed()
        progress.take_back(saved.booked)
        state.loaded = saved
        redone = state.rules.resume == "redo" and saved is state.saved and saved.steps > 0
        progress.completed_steps = saved.steps - 1 if redone else saved.steps
        progress.completed_batches, progress.samples = saved.batches.plus(
            -1 if redone else 0, saved.last
        )

    def wait_for_hardware(self) -> Generator[Phase, Outcome, None]:
        """Wait for repairs if no member is left."""
        state = self._state
        if state.members:
            return
        wait_s = state.hits.enough_repaired_s() - state.progress.now_s
        if wait_s > 0.0:
            state.spend("restart", (yield Stall((), wait_s)))
        state.strategy.restart()
        state.hits.after_restart(state.progress.now_s)
