"""Reactions of training to stragglers, hangs, corruption and planned maintenance."""

from __future__ import annotations

from collections.abc import Generator

from faultline.simulator.accounting.timeline import EventKind
from faultline.simulator.failures.failure import Failure
from faultline.simulator.job.phases import Outcome, Phase, Stall
from faultline.simulator.loop.machines import Machines
from faultline.simulator.loop.restarter import Restarter
from faultline.simulator.loop.saver import Saver
from faultline.simulator.loop.state import TrainingState
from faultline.strategies.theory.stragglers import Remedy


class Interruptions:
    """Reacts to stragglers, and to failures that stop no group."""

    def __init__(
        self, state: TrainingState, saver: Saver, machines: Machines, restarter: Restarter
    ) -> None:
        self._state, self._saver = state, saver
        self._machines, self._restarter = machines, restarter

    def react(self) -> Generator[Phase, Outcome, bool]:
        """React to the events since the last call, or take a remedy that is due.

        Returns whether there was anything to react to.
        """
        conditions, now_s = self._state.conditions, self._state.progress.now_s
        if conditions.next_change_s > now_s:
            remedy = self._state.response.due(now_s)
            if remedy is not None:
                yield from self._take(remedy)
            return remedy is not None
        conditions.advance(now_s)
        begun, ended = conditions.happened()
        for failure in begun:
            yield from self._begin(failure)
        for failure in ended:
            yield from self._end(failure)
        return True

    def _take(self, remedy: Remedy) -> Generator[Phase, Outcome, None]:
        """Apply a remedy against stragglers."""
        state, now_s = self._state, self._state.progress.now_s
        evicted = state.response.take(remedy, now_s)
        if remedy.name == "restart":
            self._machines.lose(evicted)
            yield from self._saver.save()
            yield from self._restarter.restart_unbroken(is_expected=True)
            return
        state.spend("reconfigure", (yield Stall(state.members, remedy.price_s)))
        if state.record:
            state.log(EventKind.RECOVERED, recovery=remedy.name)

    def _begin(self, failure: Failure) -> Generator[Phase, Outcome, None]:
        """React to the start of a flap, a hang or silent corruption."""
        state, members = self._state, self._state.members
        if not any(group in members for group in failure.groups):
            return
        if failure.kind == "flap":
            fails = failure.lasts_s >= state.reactions.retry_s
            outcome = yield Stall(members, failure.lasts_s)
            state.spend("detection" if fails else "degraded", outcome)
        elif failure.kind == "hang":
            yield from self._hang(failure.lasts_s)
        elif failure.kind == "corrupt" and state.strategy.compares:
            yield from self._lose_a_step()
        elif failure.kind == "corrupt":
            clean = state.memory.newest_on_storage(failure.time_s, state.progress.now_s)
            self._restarter.clean[failure] = clean

    def _end(self, failure: Failure) -> Generator[Phase, Outcome, None]:
        """React to corruption that is found, or to the start of maintenance."""
        state, restarter, reactions = self._state, self._restarter, self._state.reactions
        if failure.kind == "corrupt" and failure in restarter.clean:
            yield from restarter.restart(restarter.clean[failure])
        elif failure.kind == "planned" and reactions.planned == "migrate":
            state.spend("reconfigure", (yield Stall(state.members, reactions.migrate_s)))
        elif failure.kind == "planned" and failure.time_s > restarter.restarted_s:
            # If maintenance was announced, the job saves its state first.
            if failure.lasts_s > 0.0:
                yield from self._saver.save()
            self._machines.lose((failure,))
            yield from restarter.restart_unbroken(is_expected=True)

    def _hang(self, timeout_s: float) -> Generator[Phase, Outcome, None]:
        """Let the next step's collective hang until its time-out; restart if the rules say so."""
        state = self._state
        yield from self._lose_a_step()
        state.spend("detection", (yield Stall(state.members, timeout_s)))
        if state.reactions.hang == "restart":
            yield from self._restarter.restart_unbroken()

    def _lose_a_step(self) -> Generator[Phase, Outcome, None]:
        """Compute a step that is discarded."""
        state = self._state
        if state.plan is not state.strategy.plan():
            state.plan = state.contract.replanned()
        state.spend("repeated", (yield state.step_phases().compute))
