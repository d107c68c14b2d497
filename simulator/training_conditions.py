"""What training does about what begins and ends by itself: slow parts, hangs, planned work."""

from __future__ import annotations

from collections.abc import Generator
from itertools import chain

from faultline.simulator.failures.failure import Failure
from faultline.simulator.phases import (
    Outcome,
    Phase,
    Stall,
)
from faultline.simulator.timeline import EventKind
from faultline.simulator.training_restarts import Restarting
from faultline.strategies.stragglers import Remedy


class Interruptible(Restarting):
    """A job to which things happen that are no failures of groups."""

    def _respond(self, remedy: Remedy) -> Generator[Phase, Outcome, None]:
        """Do something about what is slow."""
        leaving = self._response.take(remedy, self.progress.now_s)
        if remedy.name == "restart":
            self._lacking_until_s += [self.progress.now_s + self.work.repair_s] * leaving
            yield from self._save()
            yield from self._restart_unbroken(is_expected=True)
            return
        stall = Stall(self.strategy.plan().members, remedy.price_s)
        self._spend("reconfigure", (yield stall))
        if self._record:
            self._log(EventKind.RECOVERED, recovery=remedy.name)

    def _meet_conditions(self) -> Generator[Phase, Outcome, bool]:
        """Do what is asked for by what has begun or ended since the last look, or is found slow.

        Returns whether there was anything.
        """
        conditions, progress = self._conditions, self.progress
        if conditions.next_change_s > progress.now_s:
            remedy = self._response.due(progress.now_s)
            if remedy is not None:
                yield from self._respond(remedy)
            return remedy is not None
        conditions.advance(progress.now_s)
        begun, ended = conditions.happened()
        for failure in begun:
            members = self.strategy.plan().members
            if not any(group in members for group in failure.groups):
                continue
            if failure.kind == "flap":
                fails = failure.lasts_s >= self.work.reactions.retry_s
                outcome = yield Stall(members, failure.lasts_s)
                self._spend("detection" if fails else "degraded", outcome)
            elif failure.kind == "hang":
                yield from self._hang(failure.lasts_s)
            elif failure.kind == "corrupt" and self.strategy.compares:
                yield from self._lose_a_step()
            elif failure.kind == "corrupt":
                known = (self._saved, self._saved_before)
                self._clean[failure] = self._memory.newest_on_storage(known, failure.time_s)
        for failure in ended:
            yield from self._end(failure)
        return True

    def _end(self, failure: Failure) -> Generator[Phase, Outcome, None]:
        """Do what the end of something asks for: corruption is found, maintenance begins."""
        if failure.kind == "corrupt" and failure in self._clean:
            yield from self._restart(self._clean[failure])
        elif failure.kind == "planned" and self.work.reactions.planned == "migrate":
            stall = Stall(self.strategy.plan().members, self.work.reactions.migrate_s)
            self._spend("reconfigure", (yield stall))
        elif failure.kind == "planned" and failure.time_s > self._restarted_s:
            # Who has notice saves what there is.
            if failure.lasts_s > 0.0:
                yield from self._save()
            self._lacking_until_s += chain.from_iterable(self._machines_lost((failure,)).values())
            yield from self._restart_unbroken(is_expected=True)

    def _restart_unbroken(self, *, is_expected: bool = False) -> Generator[Phase, Outcome, None]:
        """Restart although no member is missing: survivors hold the state of now."""
        self._before_failure = self._state(self.progress.now_s)
        yield from self._restart(is_expected=is_expected)

    def _hang(self, timeout_s: float) -> Generator[Phase, Outcome, None]:
        """The collective of the next step hangs until it is given up; then do as the rules say."""
        yield from self._lose_a_step()
        self._spend("detection", (yield Stall(self.strategy.plan().members, timeout_s)))
        if self.work.reactions.hang == "restart":
            yield from self._restart_unbroken()

    def _lose_a_step(self) -> Generator[Phase, Outcome, None]:
        """Compute what is thrown away."""
        if self._plan is not self.strategy.plan():
            self._plan = self._contract.replanned()
        self._spend("repeated", (yield self._phases().compute))
