"""What replay's phases take beside copies of state, and while hosts go off: SimGrid simulates it.

Where it does, a course says when each part of it ends (`courses`); else the rates do at which a
copy and one step meet (`background`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from faultline.simulator.background import Meets, WriteClock
from faultline.simulator.conditions import UNDISTURBED
from faultline.simulator.courses import Alone, Exchange, Fails, Part, Passes, Sent
from faultline.simulator.job import Job
from faultline.simulator.phases import (
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
from faultline.strategies.recovery import SentMove

_AHEAD = 4.0
"""How many times as long a step and its exchange may take beside copies, to be on the safe side."""
_PARTS: dict[type[Phase], Meets] = {
    Compute: "passes",
    AllReduce: "sync",
    Save: "save",
    Send: "send",
}
"""What of a phase a write may meet."""


class BesideCopies:
    """An engine whose phases may meet copies on links.

    Parameters
    ----------
    job : Job
        The job.

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
        self._reduced: Compute | AllReduce | None = None
        self._whole_s = 0.0
        self._plays_steps = work.plays_steps
        self._simulates_failing = work.simulates_failing_steps
        # With jitter each course would be another one.
        courses = None if work.compute_jitter else work.courses
        self._writes = WriteClock(courses, work.gradients_hide)
        self._follows_courses = courses is not None
        self._part: Part | None = None
        self._since_s = self._disturbed_s = 0.0
        self._exchange_follows = True

    def _reduces_s(self, phase: Compute | AllReduce) -> float:
        """Return the time of an all-reduce by itself, in seconds: steps in a row have the same."""
        if phase is not self._reduced:
            self._reduced, self._whole_s = phase, self._job.all_reduce_s(phase)
        return self._whole_s

    def _beside_copies(self, play: Callable[[Any], Outcome], phase: Phase) -> Outcome:
        """Play a phase while copies go on, which it may meet on links."""
        if isinstance(phase, Restart):
            # All hosts go off.
            self._writes.end()
            return play(phase)
        self._since_s, self._disturbed_s, self._part = self.now_s, 0.0, None
        is_beside = bool(self._writes.left_s)
        outcome = play(phase)
        if isinstance(phase, (Stall, Reconfigure, Rejoin)) and self._part is None:
            self._part = self._alone(self.now_s - self._since_s)
        if not outcome.missing and is_beside:
            outcome = outcome._replace(disturbed_s=self._disturbed_s)
        self._passed(None if outcome.missing else _PARTS.get(type(phase)))
        return outcome

    def _passed(self, meets: Meets | None) -> None:
        """Let writes go on beside the part that has just ended."""
        self._note_failures(self.now_s)
        self._writes.advance(self._since_s, self.now_s, meets, self._part)
        self._since_s = self.now_s

    def _note_failures(self, until_s: float) -> bool:
        """Let hosts go off in the course beside which they fail; whether there are new ones."""
        if not self._writes.follows_course:
            return False
        fails = [
            self._writes.fail(group, at_s)
            for group, at_s in enumerate(self._next_failure_s)
            if at_s <= until_s and group not in self._dropped
        ]
        return any(fails)

    def _beside(self, meets: Meets, alone_s: float, part: Part | None = None) -> float:
        """Return what a part takes that begins now, and would take so long alone; in seconds."""
        if not self._writes.go_on:
            return alone_s
        self._part = part
        longer_s = self._writes.prolonged_s(alone_s, self.now_s, meets, part)
        while part is not None and self._note_failures(self.now_s + longer_s):
            longer_s = self._writes.prolonged_s(alone_s, self.now_s, meets, part)
        self._disturbed_s = max(0.0, longer_s - alone_s)
        return longer_s

    def _alone(self, duration_s: float) -> Part | None:
        """Return a part of a course that shares no link; sums of times differ in last digits."""
        return Alone(float(f"{duration_s:.12g}")) if self._follows_courses else None

    def _passes(self, phase: Compute, lasts_s: float) -> Part | None:
        """Return the passes of the members as a part of a course; None where it has no such."""
        if not self._follows_courses:
            return None
        if not self._plays_steps:
            return self._alone(lasts_s)
        is_regular = self._job.work.is_regular(phase)
        self._exchange_follows = is_regular and not 0.0 < phase.pace <= phase.least_pace
        if not is_regular:
            return self._alone(lasts_s)
        members, stacks, size, patch, _, without, slow, pipelines, least_pace, factor = phase
        least_s = least_pace * stacks * size * self._job.work.compute_s
        if self._down:
            # The others cannot know that one will not arrive before it has died.
            least_s = max(0.0, *(self._next_failure_s[group] for group in self._down)) - self.now_s
        if self._job.work.gradients_hide:
            # SimGrid sends these by themselves where their hosts may go off.
            self._note_failures(self.now_s + _AHEAD * (lasts_s + self._reduces_s(phase)))
        patched = None if patch is None else tuple(sorted(patch.items()))
        who = members, stacks, size, pipelines
        return Passes(*who, max(0.0, least_s), without, slow, patched, factor)

    def _exchange(self, phase: AllReduce, broken_s: float | None = None) -> Part | None:
        """Return the all-reduce as a part of a course; one that is broken lasts so long."""
        if not self._follows_courses:
            return None
        if not self._plays_steps and (phase.without or phase.slow != UNDISTURBED):
            return None
        members, without, slow, pipelines, repeated, *_ = phase
        # Hidden gradients are not sent during a wait, nor in passes whose time is stated.
        least_s = 0.0 if self._exchange_follows or broken_s else self._reduces_s(phase)
        return Exchange(members, pipelines, without, slow, repeated, least_s, broken_s)

    def _begin_write(self, phase: Background) -> Outcome:
        write, next_failure_s = phase.write, self._next_failure_s
        if write.writer is None:
            # A group that fails spoils its own copy; those of other groups go on.
            off = {group for group, at_s in enumerate(next_failure_s) if at_s <= self.now_s}
            off |= self._dropped | self._down
            self._writes.begin(write, self.now_s, off=tuple(sorted(off)))
        elif write.writer in self._down or next_failure_s[write.writer] <= self.now_s:
            write.end()
        else:
            self._writes.begin(write, self.now_s, next_failure_s[write.writer])
        return Outcome(self.now_s)

    def _simulated_end_s(self, phase: Compute, end_s: float) -> float:
        """Return when passes end that begin now and would end then, beside writes or failures."""
        lasts_s = end_s - self.now_s
        if self._writes.go_on:
            lasts_s = self._beside("passes", lasts_s, self._passes(phase, lasts_s))
        elif self._down:
            lasts_s = self._broken_passes_s(phase, lasts_s)
        else:
            return end_s
        # Sums differ in last digits, and a group that is down has failed by then.
        failed_s = (self._next_failure_s[group] for group in self._down)
        return max(self.now_s + lasts_s, *failed_s, 0.0)

    def _broken_passes_s(self, phase: Compute, lasts_s: float) -> float:
        """Return how long passes last in which hosts go off, in seconds."""
        courses, part = self._job.work.courses, self._passes(phase, lasts_s)
        if courses is None or not isinstance(part, Passes):
            return lasts_s
        known, failed = -1, self._fails_before(self.now_s + lasts_s)
        while len(failed) > known:
            lasts_s = courses.of((*failed, part)).ends_s[len(failed)]
            known, failed = len(failed), self._fails_before(self.now_s + lasts_s)
        return lasts_s

    def _fails_before(self, until_s: float) -> tuple[Fails, ...]:
        """Return which groups' hosts go off until a time, from now on; some are off already."""
        return tuple(
            Fails(group, max(0.0, at_s - self.now_s))
            for group, at_s in enumerate(self._next_failure_s)
            if at_s <= until_s and group not in self._dropped
        )

    def _sent_s(self, moves: tuple[SentMove, ...], alone_s: float) -> float:
        """Return what some moves take that begin now, and would take so long alone; in seconds."""
        part = Sent(moves, alone_s) if self._follows_courses else None
        return self._beside("send", alone_s, part)
