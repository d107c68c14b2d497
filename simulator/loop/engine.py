"""What both engines do alike: which method executes a phase, and what its outcome books.

An engine determines how long a phase lasts and who fails in it. It shares everything else, so both
engines book by the same rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Any

from faultline.simulator.failures.failure import Failure
from faultline.simulator.job.background import Write
from faultline.simulator.job.compute_times import SimulatedFactors
from faultline.simulator.job.job import Job
from faultline.simulator.job.phases import (
    AllReduce,
    Background,
    Compute,
    Load,
    Outcome,
    Phase,
    QuietSteps,
    Reconfigure,
    Rejoin,
    Restart,
    Save,
    Send,
    Stall,
)
from faultline.simulator.job.recovery_times import RecoveryTimes, sent_moves
from faultline.strategies.interface.recovery import Recovery, SentMove


class Engine(ABC):
    """Executes the phases of a job.

    Attributes
    ----------
    clocks : FailureClocks
        When each group fails.
    """

    _copies: Collection[Write]
    """Copies of state that are in flight."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._timer = job.timer
        self._rules = job.rules
        self.clocks = job.failures.clocks(job.seed, job.rules.clock)
        self._next_failure_s = self.clocks.next_failure_s
        # With simulated steps, one factor applies to the computations of all groups.
        self._factors = SimulatedFactors.of(job.timer, job.seed)
        self._simulates_steps = job.work.simulates_steps
        self._jitter = 0.0 if self._simulates_steps else job.work.compute_jitter
        self._recovery_times = RecoveryTimes(job.durations.recovery, job.seed)
        # When the first rank of the latest passes stopped: the rest of its group waits for it.
        self._hung_s = inf
        self._methods: dict[type, Callable[[Any], Outcome]] = {
            Compute: self._compute,
            AllReduce: self._all_reduce,
            QuietSteps: self._quiet_steps,
            Reconfigure: self._reconfigure,
            Save: self._save,
            Background: self._begin_write,
            Stall: self._stall,
            Send: self._send,
            Restart: self._restart,
            Load: self._load,
            Rejoin: self._rejoin,
        }

    @property
    @abstractmethod
    def now_s(self) -> float:
        """The time, in simulated seconds."""

    def execute(self, phase: Phase) -> Outcome:
        """Execute one phase and return its outcome."""
        if self._factors and isinstance(phase, Compute):
            phase = self._factors.draw(phase)
        method = self._methods[type(phase)]
        return self._beside_copies(method, phase) if self._copies else method(phase)

    def _beside_copies(self, method: Callable[[Any], Outcome], phase: Phase) -> Outcome:
        """Execute a phase beside copies of state; book how much longer these make a step."""
        start_s, alone_s = self.now_s, inf
        if isinstance(phase, AllReduce):
            alone_s = self._timer.exchange_s(phase)
        elif isinstance(phase, Compute) and self._simulates_steps and phase.has_whole_passes:
            alone_s = nominal_s(phase) * phase.slow.slowest
        outcome = method(phase)
        if outcome.missing:
            return outcome
        return outcome._replace(disturbed_s=max(0.0, outcome.now_s - start_s - alone_s))

    @abstractmethod
    def _compute(self, phase: Compute) -> Outcome: ...

    @abstractmethod
    def _all_reduce(self, phase: AllReduce) -> Outcome: ...

    @abstractmethod
    def _quiet_steps(self, phase: QuietSteps) -> Outcome: ...

    @abstractmethod
    def _save(self, phase: Save) -> Outcome: ...

    @abstractmethod
    def _begin_write(self, phase: Background) -> Outcome: ...

    @abstractmethod
    def _wait(self, duration_s: float) -> None:
        """Let the job wait for some seconds."""

    @abstractmethod
    def _up(self, groups: Sequence[int]) -> Sequence[int]:
        """Return the groups that have not failed by now."""

    @abstractmethod
    def _leave(self, dropped: Sequence[int], carried_on: Sequence[int]) -> None:
        """Take the failures of groups that leave the job, or carry on with what is left."""

    @abstractmethod
    def _bring_back(self, groups: Sequence[int], up_at_s: float) -> None:
        """Turn on groups that had left; they take part from `up_at_s` seconds on."""

    @abstractmethod
    def _unnoticed(self) -> list[Failure]:
        """Return the failures that no phase has dealt with, at the start of a restart."""

    @abstractmethod
    def _restart_all(self, phase: Restart, restart_s: float) -> Sequence[tuple[int, Failure]]:
        """Restart every group, which takes each `restart_s` seconds.

        Returns the groups that have failed unnoticed or fail meanwhile, each with its failure.
        """

    @abstractmethod
    def _arrives(self, moves: Sequence[SentMove]) -> bool:
        """Send state between groups; return whether all of it has arrived."""

    @abstractmethod
    def _load_into(self, members: Sequence[int], duration_s: float | None) -> None:
        """Load the state into members: from storage, or from memory in some seconds."""

    def _shows_s(self, start_s: float, whole_s: float, *, is_absent: bool) -> float:
        """Return when the failure of a member shows in an all-reduce, in seconds.

        It should take `whole_s` seconds from `start_s` on; the member `is_absent` from the start,
        or fails within.
        """
        rules, hung_s = self._rules, min(start_s, self._hung_s)
        self._hung_s = inf
        if rules.detection == "watchdog":
            return max(start_s, hung_s + rules.watchdog_s)
        return start_s + whole_s * (rules.failed_all_reduce_fraction if is_absent else 1.0)

    def _stall(self, phase: Stall) -> Outcome:
        self._wait(phase.duration_s)
        return Outcome(self.now_s)

    def _send(self, phase: Send) -> Outcome:
        self._arrives(phase.moves)
        return Outcome(self.now_s)

    def _lacks(self, groups: Sequence[int]) -> Outcome:
        """Return the outcome of a phase that lacks some groups, each with its failure."""
        return Outcome(self.now_s, self.clocks.peek_each(groups))

    def _reconfigure(self, phase: Reconfigure) -> Outcome:
        members, dropped, carried_on, recovery = phase
        if recovery is None:
            self._leave(dropped, carried_on)
            return Outcome(self.now_s)
        failed = map(self.clocks.peek, (*dropped, *carried_on))
        duration_s = self._recovery_times.duration_s(recovery, failed)
        self._leave(dropped, carried_on)
        self._wait(duration_s)
        self._move(recovery, members)
        return Outcome(self.now_s, phases=self._recovery_times.last_phases())

    def _rejoin(self, phase: Rejoin) -> Outcome:
        duration_s = self._recovery_times.duration_s(phase.recovery)
        self._bring_back(phase.groups, self.now_s + duration_s)
        self._wait(duration_s)
        self._move(phase.recovery, phase.members)
        return Outcome(self.now_s, phases=self._recovery_times.last_phases())

    def _restart(self, phase: Restart) -> Outcome:
        failed = self._unnoticed()
        restart_s = self._recovery_times.duration_s(phase.recovery, failed)
        restart_s += self._recovery_times.repair_s(failed)
        failures = sorted(self._restart_all(phase, restart_s), key=_in_time)
        phases = self._recovery_times.last_phases()
        return Outcome(self.now_s, failures=failures, phases=phases)

    def _load(self, phase: Load) -> Outcome:
        up = self._up(phase.members)
        if len(up) == len(phase.members):
            self._load_into(up, phase.duration_s)
            up = self._up(up)
        lost = set(phase.members).difference(up)
        return self._lacks(sorted(lost)) if lost else Outcome(self.now_s)

    def _move(self, recovery: Recovery, members: Sequence[int]) -> None:
        """Move state; send it again from other groups whenever a sender or receiver fails."""
        if not recovery.moves or not self._timer.moves(recovery):
            return
        moves, able = recovery.moves, set(self._up(members))
        while moves := tuple(move for move in moves if move.group in able):
            if self._arrives(sent_moves(moves, able)):
                return
            able = set(self._up(sorted(able)))


def nominal_s(phase: Compute) -> float:
    """Return how long the passes of a phase last without stragglers, in seconds."""
    stacks = phase.stacks if phase.patch is None else max(phase.patch.values())
    return stacks * phase.stack_s


def _in_time(struck: tuple[int, Failure]) -> tuple[float, int]:
    """Return the sort key of groups and their failures: by time, then by group."""
    group, failure = struck
    return failure.time_s, group
