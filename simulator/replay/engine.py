"""The replay engine: phases of known duration, executed from event to event.

The engine draws a time only if it can change the outcome. A phase ends with the slowest of its N
groups.
The largest of n independent, equally distributed times is one draw: the n-th root of a uniform
number, put through the inverse distribution. Only groups that may fail during the phase get times
of their own. Steps into which no failure can fall are executed together, so the cost of a run grows
with its failures and checkpoints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from types import MappingProxyType
from typing import Any

from faultline.simulator.failures.failure import Failure
from faultline.simulator.job.background import Meets
from faultline.simulator.job.compute_times import ComputeTimes
from faultline.simulator.job.job import Job
from faultline.simulator.job.phases import (
    AllReduce,
    Background,
    Compute,
    Outcome,
    Phase,
    QuietSteps,
    Restart,
    Save,
)
from faultline.simulator.loop.engine import Engine
from faultline.simulator.replay.copies import CopiesInFlight
from faultline.simulator.replay.quiet_execution import QuietExecution
from faultline.strategies.interface.recovery import SentMove

_NO_GROUPS: Mapping[int, int] = MappingProxyType({})


class ReplayEngine(Engine):
    """Executes a job's phases by their durations.

    The `durations` of the job state how long phases take.

    Attributes
    ----------
    now_s : float
        The time, in simulated seconds.
    """

    now_s = 0.0

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._down: set[int] = set()
        self._dropped: set[int] = set()
        self._upcoming: list[tuple[float, int]] = []
        self._watch(range(job.work.groups))
        self._busy_until_s: dict[int, float] = {}
        self._timed_phase: AllReduce | None = None
        self._timed_s = 0.0
        self._fails_in_all_reduce = job.rules.failure_in_all_reduce == "fails-it"
        self._pace = ComputeTimes(1.0, self._jitter, job.seed)
        self._quiet = QuietExecution(
            self._pace, self._factors, fails_in_all_reduce=self._fails_in_all_reduce
        )
        self._shares_weights = job.work.shares_weights
        self._flights = CopiesInFlight()
        self._copies = self._flights.clock.left_s
        # Groups whose clocks are not watched at a restart, and those of them that have failed.
        self._unwatched: set[int] = set()
        self._struck: list[int] = []

    def _beside_copies(self, method: Callable[[Any], Outcome], phase: Phase) -> Outcome:
        self._flights.begin_phase(phase, self.now_s)
        outcome = super()._beside_copies(method, phase)
        self._flights.end_part(self.now_s, is_broken=bool(outcome.missing))
        return outcome

    def _beside(self, meets: Meets, alone_s: float) -> float:
        """Return the seconds that a part takes from now on, given its time without copies."""
        return self._flights.beside(meets, alone_s, self.now_s) if self._copies else alone_s

    def _all_reduce_alone_s(self, phase: AllReduce) -> float:
        """Return the time of an all-reduce without copies, in seconds; the last one is kept."""
        if phase is not self._timed_phase:
            self._timed_phase, self._timed_s = phase, self._timer.exchange_s(phase)
        return self._timed_s

    def _begin_write(self, phase: Background) -> Outcome:
        write, next_failure_s, now_s = phase.write, self._next_failure_s, self.now_s
        if write.writer is None:
            up = set(range(len(next_failure_s))) - self._dropped - self._down
            fails_s = (next_failure_s[group] for group in up)
            # A group that fails ends only its own copies, but the snapshot is incomplete.
            breaks_s = min((at_s for at_s in fails_s if at_s > now_s), default=inf)
            self._flights.clock.begin(write, breaks_s)
        elif write.writer in self._down or next_failure_s[write.writer] <= now_s:
            write.end()
        else:
            self._flights.clock.begin(write, next_failure_s[write.writer])
        return Outcome(now_s)

    def _quiet_steps(self, phase: QuietSteps) -> Outcome:
        failure_s = self._upcoming[0][0] if self._upcoming else inf
        if failure_s <= self.now_s or self._down or self._busy_until_s or self._copies:
            return Outcome(self.now_s)
        all_reduce_s = self._all_reduce_alone_s(phase.all_reduce)
        outcome = self._quiet.execute(phase, self.now_s, failure_s, all_reduce_s)
        self.now_s = outcome.now_s
        return outcome

    def _compute(self, phase: Compute) -> Outcome:
        members, stacks, _, patch, stack_s, _, slow, _, _, _, _ = phase
        start_s, times, upcoming, down = self.now_s, self._pace, self._upcoming, self._down
        busy_until_s = self._busy_until_s
        computing = len(members) - len(down)
        most_stacks = stacks if patch is None else max(patch.values())
        latest_s = max(start_s, *busy_until_s.values()) if busy_until_s else start_s
        longest_s = times.longest_s(most_stacks) * stack_s
        if slow.compute:
            longest_s *= slow.slowest
        latest_s += longest_s
        end_s, timed = start_s, _NO_GROUPS
        if (upcoming and upcoming[0][0] <= latest_s) or busy_until_s or slow.compute:
            end_s, timed = self._compute_at_risk(phase, latest_s)
        if self._simulates_steps and down:
            # What breaks goes unnoticed until it should have ended.
            end_s = max(end_s, start_s + longest_s)
        elif patch is None:
            computing -= len(timed)
            if computing > 0:
                end_s = max(end_s, start_s + stack_s * times.slowest_s(computing, stacks))
        else:
            for stacks, groups in _groups_by_stacks(patch, down.union(timed)).items():
                end_s = max(end_s, start_s + stack_s * times.slowest_s(groups, stacks))
        # Without the weights of a lost group, passes send nothing that a copy slows.
        if self._copies and not (down and self._shares_weights):
            # A group that is down has failed before the end: rounding must not change that.
            failed_s = (self._next_failure_s[group] for group in down)
            # Copies slow the messages of a slow rank, not its computations.
            sending_s = (end_s - start_s) / (1.0 if slow.step.links else slow.slowest)
            longer_s = self._beside("passes", sending_s) - sending_s
            end_s = max(end_s + longer_s, *failed_s, 0.0)
        if self._simulates_steps and down:
            # From the first failure on, the other ranks of its group wait.
            self._hung_s = max(start_s, min(self._next_failure_s[group] for group in down))
        self.now_s = end_s
        return Outcome(end_s)

    def _compute_at_risk(self, phase: Compute, latest_s: float) -> tuple[float, dict[int, int]]:
        """Time each group separately that may fail before `latest_s`, starts late or is slow.

        Returns when the last of these groups ends, and the shard types that each computes.
        """
        start_s = end_s = self.now_s
        upcoming, next_failure_s = self._upcoming, self._next_failure_s
        busy, self._busy_until_s = self._busy_until_s, {}
        _, most, _, patch, stack_s, _, slowdown, _, _, _, _ = phase
        down, slow, own_s = self._down, slowdown.compute, self._pace.own_s
        occupied = None if patch is None else self._timer.occupied(phase, patch)
        late_or_slow = {**busy, **slow}
        timed: dict[int, int] = {}
        unharmed: list[tuple[float, int]] = []
        candidates = [(next_failure_s[group], group) for group in late_or_slow if group not in down]
        while upcoming and upcoming[0][0] <= latest_s:
            failure = heappop(upcoming)
            if failure[1] in late_or_slow:
                unharmed.append(failure)
            else:
                candidates.append(failure)
        for failure_s, group in candidates:
            stacks = timed[group] = most if occupied is None else occupied.get(group, 0)
            lasts_s = own_s(stacks) * stack_s
            if group not in late_or_slow:
                arrival_s = start_s + lasts_s
            else:
                arrival_s = max(start_s, busy.get(group, 0.0)) + lasts_s * slow.get(group, 1.0)
            if failure_s <= arrival_s:
                down.add(group)
                # The others cannot know that the group is missing before it has failed.
                end_s = max(end_s, failure_s)
            else:
                end_s = max(end_s, arrival_s)
                if group not in late_or_slow:
                    unharmed.append((failure_s, group))
        for failure in unharmed:
            if failure[1] not in down:
                heappush(upcoming, failure)
        return end_s, timed

    def _all_reduce(self, phase: AllReduce) -> Outcome:
        start_s, down = self.now_s, self._down
        alone_s = self._all_reduce_alone_s(phase)
        lacked_from_start = bool(down)
        if self._fails_in_all_reduce:
            lacked_from_start |= self._mark_failed_until(start_s)
            if not lacked_from_start:
                self._mark_failed_until(start_s + self._beside("sync", alone_s))
        if not down:
            self.now_s = start_s + self._beside("sync", alone_s)
            return Outcome(self.now_s)
        self.now_s = self._shows_s(start_s, alone_s, is_absent=lacked_from_start)
        if not lacked_from_start:
            # The first failure may come after the time-out of the watchdog, or after the usual end
            # of the exchange. Groups that fail after that failure is noticed are still up.
            failures = [(self._next_failure_s[group], group) for group in down]
            first_s = min(failures)[0]
            # Until then, the exchange went on beside copies.
            self._flights.end_part(first_s)
            self.now_s = max(self.now_s, first_s)
            for failure in failures:
                if failure[0] > self.now_s:
                    down.discard(failure[1])
                    heappush(self._upcoming, failure)
        if self._fails_in_all_reduce:
            self._mark_failed_until(self.now_s)
        return self._lacks(sorted(down))

    def _mark_failed_until(self, time_s: float) -> bool:
        """Mark the groups that fail until `time_s` as down; return whether any did."""
        upcoming, any_failed = self._upcoming, False
        while upcoming and upcoming[0][0] <= time_s:
            self._down.add(heappop(upcoming)[1])
            any_failed = True
        return any_failed

    def _leave(self, dropped: Sequence[int], carried_on: Sequence[int]) -> None:
        clocks, now_s = self.clocks, self.now_s
        for group in (*dropped, *carried_on):
            clocks.take(group, now_s)
            self._down.discard(group)
        self._dropped.update(dropped)
        for group in carried_on:
            clocks.resume(group, now_s)
            heappush(self._upcoming, (self._next_failure_s[group], group))

    def _save(self, phase: Save) -> Outcome:
        writer, fails_s = phase.writer, self._next_failure_s[phase.writer]
        if writer in self._down or fails_s <= self.now_s:
            return self._lacks((writer,))
        save_s = self._timer.save_s(writer)
        if phase.waits:
            save_s = self._beside("save", save_s)
        if not phase.waits:
            self._busy_until_s[writer] = self.now_s + save_s
        elif self._rules.failed_writer == "replaced" and fails_s <= self.now_s + save_s:
            self.now_s = fails_s
            return self._lacks((writer,))
        else:
            self.now_s += save_s
        return Outcome(self.now_s)

    def _unnoticed(self) -> list[Failure]:
        self._unwatched = self._down | self._dropped
        self._struck = self._failing_until(self.now_s, self._unwatched)
        return [self.clocks.peek(group) for group in self._struck if group not in self._dropped]

    def _restart_all(self, phase: Restart, restart_s: float) -> Sequence[tuple[int, Failure]]:
        # All hosts are turned off.
        self._flights.clock.end()
        rules, start_s = self._rules, self.now_s
        clocks, next_failure_s = self.clocks, self._next_failure_s
        unwatched, absent = self._unwatched, set(phase.absent)
        begins_anew = rules.failure_in_restart == "begins-anew"
        failures: list[tuple[int, Failure]] = []
        end_s = start_s + restart_s
        for group in self._struck:
            if group not in self._dropped:
                failures.append((group, clocks.take(group, start_s)))
            clocks.take_while_down(group, start_s)
        if begins_anew:
            for group in self._failing_until(start_s + restart_s, unwatched, absent):
                begun_s = start_s
                while next_failure_s[group] <= begun_s + restart_s:
                    begun_s = next_failure_s[group]
                    failures.append((group, clocks.take(group)))
                end_s = max(end_s, begun_s + restart_s)
        if rules.failure_while_waiting == "absorbed" or not begins_anew:
            for group in self._failing_until(end_s, unwatched, absent):
                while next_failure_s[group] <= end_s:
                    failures.append((group, clocks.take(group)))
        self.now_s = end_s
        for group in unwatched - absent:
            clocks.resume(group, end_s)
        self._down.clear()
        self._busy_until_s.clear()
        self._dropped = absent
        if absent:
            self._watch(group for group in range(phase.groups) if group not in absent)
        for group in () if absent else unwatched:
            heappush(self._upcoming, (next_failure_s[group], group))
        return failures

    def _wait(self, duration_s: float) -> None:
        self.now_s += duration_s

    def _load_into(self, members: Sequence[int], duration_s: float | None) -> None:
        self.now_s += self._timer.load_s(members) if duration_s is None else duration_s

    def _failing_until(
        self, time_s: float, unwatched: set[int], spared: Collection[int] = ()
    ) -> list[int]:
        """Return the groups that fail next until that time, in ascending order.

        Groups that were watched are moved to `unwatched`.
        """
        upcoming, next_failure_s = self._upcoming, self._next_failure_s
        while upcoming and upcoming[0][0] <= time_s:
            unwatched.add(heappop(upcoming)[1])
        failing = (group for group in unwatched if next_failure_s[group] <= time_s)
        return sorted(group for group in failing if group not in spared)

    def _up(self, groups: Sequence[int]) -> Sequence[int]:
        if not self._down and (not self._upcoming or self._upcoming[0][0] > self.now_s):
            return groups
        return [group for group in groups if self._next_failure_s[group] > self.now_s]

    def _bring_back(self, groups: Sequence[int], up_at_s: float) -> None:
        for group in groups:
            self.clocks.take_while_down(group, self.now_s)
            self.clocks.resume(group, self.now_s)
            heappush(self._upcoming, (self._next_failure_s[group], group))
        self._dropped.difference_update(groups)

    def _arrives(self, moves: Sequence[SentMove]) -> bool:
        times = self._job.durations.moves
        assert times is not None, "no state moves"
        self._flights.end_part(self.now_s)
        begun_s, busy_s = self.now_s, times.busy_s(moves)
        alone_s = max(busy_s.values(), default=0.0)
        senders = {sender for _, sender in moves}
        is_met = any(write.writer in {None, *senders} for write in self._flights.clock.left_s)
        # A group's write to storage shares its links with what the group sends.
        lasts_s = self._beside("send", alone_s) if is_met else alone_s
        self.now_s += lasts_s
        slower = lasts_s / alone_s if alone_s else 1.0
        # A group that fails after its last flow has arrived breaks nothing.
        return all(
            self._next_failure_s[group] > begun_s + slower * group_s
            for group, group_s in busy_s.items()
        )

    def _watch(self, groups: Iterable[int]) -> None:
        self._upcoming = [(self._next_failure_s[group], group) for group in groups]
        heapify(self._upcoming)


def _groups_by_stacks(patch: Mapping[int, int], lacking: set[int]) -> Counter[int]:
    """Return how many groups of a patch, other than those lacking, compute each number of types."""
    if not lacking:
        return Counter(patch.values())
    return Counter(stacks for group, stacks in patch.items() if group not in lacking)
