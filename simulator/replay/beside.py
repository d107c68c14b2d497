"""Durations of replay's phases while copies of state are in flight.

They follow from the rates at which a copy and a single step share links (`background`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from faultline.simulator.job.background import Meets, WriteClock
from faultline.simulator.job.job import Job
from faultline.simulator.job.phases import (
    AllReduce,
    Background,
    Compute,
    Outcome,
    Phase,
    Restart,
)
from faultline.simulator.pattern.plan_shares import StepShares


class BesideCopies:
    """An engine whose phases may share links with copies in flight.

    Attributes
    ----------
    now_s : float
        The time, in simulated seconds.
    clocks : FailureClocks
        When each group fails.
    """

    def __init__(self, job: Job) -> None:
        self.now_s = 0.0
        self._job = job
        self.clocks = job.failures.clocks(job.seed, job.rules.clock)
        self._next_failure_s = self.clocks.next_failure_s
        self._down: set[int] = set()
        self._dropped: set[int] = set()
        self._timed_phase: Compute | AllReduce | None = None
        self._timed_s = 0.0
        self._simulates_steps = job.work.simulates_steps
        self._writes = WriteClock()
        self._since_s = self._disturbed_s = 0.0
        self._meets: Meets | None = None
        self._shares: StepShares | None = None

    def _all_reduce_alone_s(self, phase: Compute | AllReduce) -> float:
        """Return the time of an all-reduce without copies, in seconds; the last one is kept."""
        if phase is not self._timed_phase:
            self._timed_phase, self._timed_s = phase, self._job.timer.exchange_s(phase)
        return self._timed_s

    def _beside_copies(self, handler: Callable[[Any], Outcome], phase: Phase) -> Outcome:
        """Execute a phase while copies are in flight, which may share links with it."""
        if isinstance(phase, Restart):
            # All hosts are turned off.
            self._writes.end()
            return handler(phase)
        self._since_s, self._disturbed_s, self._meets = self.now_s, 0.0, None
        self._shares = None
        if isinstance(phase, (Compute, AllReduce)):
            self._shares = StepShares(phase.members, phase.pipelines, phase.stack_size)
        outcome = handler(phase)
        if outcome.missing:
            self._meets = None
        else:
            outcome = outcome._replace(disturbed_s=self._disturbed_s)
        self._advance_writes()
        return outcome

    def _advance_writes(self) -> None:
        """Advance the writes to the end of the part that has just ended."""
        self._writes.advance(self._since_s, self.now_s, self._meets, self._shares)
        self._since_s, self._meets = self.now_s, None

    def _beside(self, meets: Meets, alone_s: float) -> float:
        """Return the seconds that a part takes from now on, given its time without copies."""
        if not self._writes.left_s:
            return alone_s
        self._meets = meets
        longer_s = self._writes.prolonged_s(alone_s, self.now_s, meets, self._shares)
        self._disturbed_s = max(0.0, longer_s - alone_s)
        return longer_s

    def _begin_write(self, phase: Background) -> Outcome:
        write, next_failure_s = phase.write, self._next_failure_s
        if write.writer is None:
            up = set(range(len(next_failure_s))) - self._dropped - self._down
            breaks_s = (next_failure_s[group] for group in up)
            breaks_s = (at_s for at_s in breaks_s if at_s > self.now_s)
            self._writes.begin(write, min(breaks_s, default=inf))
        elif write.writer in self._down or next_failure_s[write.writer] <= self.now_s:
            write.end()
        else:
            self._writes.begin(write, next_failure_s[write.writer])
        return Outcome(self.now_s)
