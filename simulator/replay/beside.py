"""Durations of replay's phases while copies of state are in flight, and while hosts fail.

If SimGrid simulates the course, it defines the end of each part (`courses`). Otherwise durations
follow from the rates at which a copy and a single step share links (`background`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from faultline.simulator.job.background import Meets, WriteClock
from faultline.simulator.job.conditions import UNDISTURBED
from faultline.simulator.job.courses import Alone, Exchange, Fails, Part, Passes, Sent
from faultline.simulator.job.job import Job
from faultline.simulator.job.phases import (
    AllReduce,
    Background,
    Compute,
    Outcome,
    Phase,
    Reconfigure,
    Rejoin,
    Restart,
    Save,
    Send,
    Stall,
)
from faultline.strategies.interface.recovery import SentMove

_AHEAD = 4.0
"""Upper bound of the factor by which copies prolong a step and its exchange of gradients."""
_PARTS: dict[type[Phase], Meets] = {
    Compute: "passes",
    AllReduce: "sync",
    Save: "save",
    Send: "send",
}
"""The kind of traffic that a write may share links with, by phase."""


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
        work = job.work
        self.now_s = 0.0
        self._job = job
        self.clocks = job.failures.clocks(job.seed, job.rules.clock)
        self._next_failure_s = self.clocks.next_failure_s
        self._down: set[int] = set()
        self._dropped: set[int] = set()
        self._timed_phase: Compute | AllReduce | None = None
        self._timed_s = 0.0
        self._simulates_steps = work.simulates_steps
        self._simulates_failing = work.simulates_failing_steps
        # With jitter each course would be different, so none could be reused.
        courses = None if work.compute_jitter else work.courses
        self._writes = WriteClock(courses, work.gradients_hide)
        self._follows_courses = courses is not None
        self._part: Part | None = None
        self._since_s = self._disturbed_s = 0.0
        self._exchange_follows = True

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
        self._since_s, self._disturbed_s, self._part = self.now_s, 0.0, None
        is_beside = bool(self._writes.left_s)
        outcome = handler(phase)
        if isinstance(phase, (Stall, Reconfigure, Rejoin)) and self._part is None:
            self._part = self._alone(self.now_s - self._since_s)
        if not outcome.missing and is_beside:
            outcome = outcome._replace(disturbed_s=self._disturbed_s)
        self._advance_writes(None if outcome.missing else _PARTS.get(type(phase)))
        return outcome

    def _advance_writes(self, meets: Meets | None) -> None:
        """Advance the writes to the end of the part that has just ended."""
        self._note_failures(self.now_s)
        self._writes.advance(self._since_s, self.now_s, meets, self._part)
        self._since_s = self.now_s

    def _note_failures(self, until_s: float) -> bool:
        """Add failures until `until_s` to the course; return whether any of them is new."""
        if not self._writes.follows_course:
            return False
        fails = [
            self._writes.fail(group, at_s)
            for group, at_s in enumerate(self._next_failure_s)
            if at_s <= until_s and group not in self._dropped
        ]
        return any(fails)

    def _beside(self, meets: Meets, alone_s: float, part: Part | None = None) -> float:
        """Return the seconds that a part takes from now on, given its time without copies."""
        if not self._writes.go_on:
            return alone_s
        self._part = part
        longer_s = self._writes.prolonged_s(alone_s, self.now_s, meets, part)
        while part is not None and self._note_failures(self.now_s + longer_s):
            longer_s = self._writes.prolonged_s(alone_s, self.now_s, meets, part)
        self._disturbed_s = max(0.0, longer_s - alone_s)
        return longer_s

    def _alone(self, duration_s: float) -> Part | None:
        """Return a part that shares no link; rounding removes the differences of sums."""
        return Alone(float(f"{duration_s:.12g}")) if self._follows_courses else None

    def _passes(self, phase: Compute, lasts_s: float) -> Part | None:
        """Return the passes of the members as a part of a course; None without a course."""
        if not self._follows_courses:
            return None
        if not self._simulates_steps:
            return self._alone(lasts_s)
        waits = 0.0 < phase.stack_s <= phase.least_stack_s
        self._exchange_follows = phase.has_whole_passes and not waits
        if not phase.has_whole_passes:
            return self._alone(lasts_s)
        members, stacks, size, patch, _, parts_down, slow, pipelines, least_stack_s, factor, _ = (
            phase
        )
        least_s = least_stack_s * stacks
        if self._down:
            # The others cannot know that a group is missing before it has failed.
            least_s = max(0.0, *(self._next_failure_s[group] for group in self._down)) - self.now_s
        if self._job.work.gradients_hide:
            # SimGrid sends hidden gradients separately if their hosts may fail.
            self._note_failures(self.now_s + _AHEAD * (lasts_s + self._all_reduce_alone_s(phase)))
        patched = None if patch is None else tuple(sorted(patch.items()))
        work = members, stacks, size, pipelines
        return Passes(*work, max(0.0, least_s), parts_down, slow, patched, factor)

    def _exchange(self, phase: AllReduce, broken_s: float | None = None) -> Part | None:
        """Return the all-reduce as a part of a course; a failed one lasts `broken_s` seconds."""
        if not self._follows_courses:
            return None
        if not self._simulates_steps and (phase.parts_down or phase.slow != UNDISTURBED):
            return None
        members, parts_down, slow, pipelines, repeated, *_ = phase
        # Waits, and passes of stated time, send no hidden gradients.
        least_s = 0.0 if self._exchange_follows or broken_s else self._all_reduce_alone_s(phase)
        return Exchange(members, pipelines, parts_down, slow, repeated, least_s, broken_s)

    def _begin_write(self, phase: Background) -> Outcome:
        write, next_failure_s = phase.write, self._next_failure_s
        if write.writer is None:
            # A failed group loses only its own copy; the other groups' copies go on.
            off = {group for group, at_s in enumerate(next_failure_s) if at_s <= self.now_s}
            off |= self._dropped | self._down
            self._writes.begin(write, self.now_s, off=tuple(sorted(off)))
        elif write.writer in self._down or next_failure_s[write.writer] <= self.now_s:
            write.end()
        else:
            self._writes.begin(write, self.now_s, next_failure_s[write.writer])
        return Outcome(self.now_s)

    def _simulated_end_s(self, phase: Compute, end_s: float) -> float:
        """Return when passes end that would end at `end_s` without writes and failures."""
        lasts_s = end_s - self.now_s
        if self._writes.go_on:
            lasts_s = self._beside("passes", lasts_s, self._passes(phase, lasts_s))
        elif self._down:
            lasts_s = self._broken_passes_s(phase, lasts_s)
        else:
            return end_s
        # A group that is down has failed before the end: rounding must not change that.
        failed_s = (self._next_failure_s[group] for group in self._down)
        return max(self.now_s + lasts_s, *failed_s, 0.0)

    def _broken_passes_s(self, phase: Compute, lasts_s: float) -> float:
        """Return how long passes last if hosts fail during them, in seconds."""
        courses, part = self._job.work.courses, self._passes(phase, lasts_s)
        if courses is None or not isinstance(part, Passes):
            return lasts_s
        simulated, failures = -1, self._failures_until(self.now_s + lasts_s)
        while len(failures) > simulated:
            lasts_s = courses.of((*failures, part)).ends_s[len(failures)]
            simulated, failures = len(failures), self._failures_until(self.now_s + lasts_s)
        return lasts_s

    def _failures_until(self, until_s: float) -> tuple[Fails, ...]:
        """Return the failures of hosts until a time, in seconds from now; past ones are at 0."""
        return tuple(
            Fails(group, max(0.0, at_s - self.now_s))
            for group, at_s in enumerate(self._next_failure_s)
            if at_s <= until_s and group not in self._dropped
        )

    def _sent_s(self, moves: tuple[SentMove, ...], alone_s: float) -> float:
        """Return the seconds that moves take from now on, given their time without copies."""
        part = Sent(moves, alone_s) if self._follows_courses else None
        return self._beside("send", alone_s, part)
