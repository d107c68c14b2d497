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
from itertools import filterfalse
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np
from faultline.simulator.failures.failure import Failure
from faultline.simulator.job.compute_times import ComputeTimes, SimulatedFactors
from faultline.simulator.job.job import Job
from faultline.simulator.job.phases import (
    AllReduce,
    Background,
    Compute,
    Inquiry,
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
from faultline.simulator.replay.beside import BesideCopies
from faultline.strategies.interface.recovery import Recovery
from numpy.typing import NDArray

# From this many steps on, arrays are faster than one step after the other.
_MANY_STEPS = 24
_NO_GROUPS: Mapping[int, int] = MappingProxyType({})


class ReplayEngine(BesideCopies):
    """Executes a job's phases by their durations.

    The `durations` of the job state how long phases take.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        work = job.work
        self._upcoming: list[tuple[float, int]] = []
        self._watch(range(work.groups))
        self._busy_until_s: dict[int, float] = {}
        self._recovery_times = RecoveryTimes(job.durations.recovery, job.seed)
        jitter = 0.0 if work.simulates_steps else work.compute_jitter
        self._pace = ComputeTimes(1.0, jitter, work.minimum_factor, job.seed)
        self._factors = SimulatedFactors.of(job.timer, job.seed)
        # Ends of compute and all-reduce of steps ahead: of these phases, from this draw on.
        self._ahead_s = np.empty(0)
        self._ahead_of: Compute | None = None
        self._ahead_from = 0
        self._rules = job.rules
        self._watchdog = job.rules.detection == "watchdog"
        self._fails_in_all_reduce = job.rules.failure_in_all_reduce == "fails-it"
        self._hung_s = inf
        self._handlers: dict[type, Callable[[Any], Outcome]] = {
            Compute: self._compute,
            AllReduce: self._all_reduce,
            QuietSteps: self._quiet_steps,
            Inquiry: self._inquire,
            Reconfigure: self._reconfigure,
            Save: self._save,
            Background: self._begin_write,
            Stall: self._stall,
            Send: self._send,
            Restart: self._restart,
            Load: self._load,
            Rejoin: self._rejoin,
        }

    def execute(self, phase: Phase) -> Outcome:
        """Execute one phase and return its outcome."""
        handler = self._handlers[type(phase)]
        return self._beside_copies(handler, phase) if self._writes.left_s else handler(phase)

    def _quiet_steps(self, phase: QuietSteps) -> Outcome:
        now_s, steps, pace = self.now_s, 0, self._pace
        if self._down or self._busy_until_s or self._writes.left_s:
            return Outcome(now_s)
        compute, all_reduce, at_most, until_s, snapshots = phase
        failure_s = self._upcoming[0][0] if self._upcoming else inf
        slowest = self._slowest_groups(compute)
        if failure_s <= now_s or slowest is None:
            return Outcome(now_s)
        (groups, stack_s), stacks = slowest, compute.stacks
        all_reduce_s = self._all_reduce_alone_s(all_reduce)
        # A failure later than `computing_s` after the start of a step does not affect its compute.
        # If failures break all-reduces, `reducing_s` more keeps the whole step clear of it.
        computing_s = pace.longest_s(stacks) * stack_s
        factors, ahead = self._factors, pace.draws_ahead and self._factors is None
        if factors:
            computing_s *= factors.longest(compute)
        reducing_s = all_reduce_s if self._fails_in_all_reduce else 0.0
        if now_s + computing_s + reducing_s >= failure_s:
            return Outcome(now_s)
        nominal_s = pace.nominal_s(stacks) * stack_s + all_reduce_s
        snapshot_ends_s: list[float] = []
        while steps < at_most and now_s < until_s and now_s + computing_s + reducing_s < failure_s:
            remaining, likely = at_most - steps, (failure_s - now_s) / nominal_s
            if remaining < _MANY_STEPS or likely < _MANY_STEPS or not ahead:
                if factors:
                    slower = factors.draw(compute)
                    stack_s = slower.stack_s * slower.slow.slowest
                now_s += stack_s * pace.slowest_s(groups, stacks)
                now_s += all_reduce_s
                steps += 1
                if snapshots and (steps - snapshots.first) % snapshots.every == 0:
                    snapshot_ends_s.append(now_s)
                continue
            ends_s = self._ends_ahead(compute, slowest, all_reduce_s, now_s, remaining, likely)
            quiet, last_s = len(ends_s) // 2, ends_s.item(-3)
            if last_s >= until_s or last_s + computing_s + reducing_s >= failure_s:
                starts_s = ends_s[:-1:2]
                in_time = starts_s.searchsorted(until_s)
                unharmed = (starts_s + computing_s + reducing_s).searchsorted(failure_s)
                quiet = int(min(in_time, unharmed))
            pace.pass_over(quiet)
            now_s = ends_s.item(2 * quiet)
            if snapshots:
                following = steps + 1 + (snapshots.first - steps - 1) % snapshots.every
                begin, by = 2 * (following - steps), 2 * snapshots.every
                snapshot_ends_s += ends_s[begin : 2 * quiet + 1 : by].tolist()
            steps += quiet
        self.now_s = now_s
        return Outcome(now_s, (), (), (), (), steps, steps * all_reduce_s, snapshot_ends_s)

    def _slowest_groups(self, compute: Compute) -> tuple[int, float] | None:
        """Return how many groups may be the slowest, and the seconds per stack of these.

        Returns None if both the groups with the largest factor and others may be the slowest.
        """
        stack_s, slow = compute.stack_s, compute.slow.compute
        if not slow:
            return len(compute.members), stack_s
        factors = sorted(slow.values())
        largest, groups = factors[-1], factors.count(factors[-1])
        second = factors[-groups - 1] if groups < len(factors) else 1.0
        longest_s = self._pace.longest_s(compute.stacks)
        nominal_s = self._pace.nominal_s(compute.stacks)
        # The least time of a group is as far below the nominal time as the longest is above it.
        if largest * (2.0 * nominal_s - longest_s) < second * longest_s and longest_s > nominal_s:
            return None
        return groups, stack_s * largest

    def _ends_ahead(
        self,
        compute: Compute,
        slowest: tuple[int, float],
        all_reduce_s: float,
        now_s: float,
        at_most: int,
        likely: float,
    ) -> NDArray[np.float64]:
        """Return `now_s`, then the ends of compute and of all-reduce of some of the next steps.

        Times are added in the same order as for single steps, so the sums have the same bits.
        """
        place = 2 * (self._pace.drawn - self._ahead_from)
        if compute is not self._ahead_of or place + 1 >= len(self._ahead_s):
            groups, stack_s = slowest
            slowest_s = self._pace.slowest_ahead_s(groups, compute.stacks, likely)
            self._ahead_of, self._ahead_from, place = compute, self._pace.drawn, 0
            self._ahead_s = np.full(2 * len(slowest_s) + 1, all_reduce_s)
            np.multiply(slowest_s, stack_s, out=self._ahead_s[1::2])
        # The next step begins at the end of the step before.
        self._ahead_s[place] = now_s
        ends_s: NDArray[np.float64] = np.add.accumulate(
            self._ahead_s[place : place + 2 * at_most + 1]
        )
        return ends_s

    def _compute(self, phase: Compute) -> Outcome:
        if self._factors:
            phase = self._factors.draw(phase)
        members, stacks, _, patch, stack_s, _, slow, pipelines, _, _, _ = phase
        start_s, times, upcoming, down = self.now_s, self._pace, self._upcoming, self._down
        busy_until_s = self._busy_until_s
        computing = len(members) - len(down)
        most_stacks = stacks if patch is None else max(patch.values())
        latest_s = max(start_s, *busy_until_s.values()) if busy_until_s else start_s
        longest_s = times.longest_s(most_stacks) * stack_s
        latest_s += longest_s * slow.slowest if slow.compute else longest_s
        end_s, timed = start_s, _NO_GROUPS
        if (upcoming and upcoming[0][0] <= latest_s) or busy_until_s or slow.compute:
            end_s, timed = self._compute_at_risk(phase, latest_s)
        finishing: tuple[int, ...] | None = None
        if self._simulates_steps and down:
            work, lacking = self._job.work, down.union(timed)
            stack_s = self._job.timer.finishing_stack_s(phase, lacking)
            if pipelines:
                # Other groups may compute all stages of a group that is down, and pipelines of
                # groups that are up may need its nodes.
                finishing = work.finishing_groups(phase, lacking)
        if patch is None:
            computing -= len(timed)
            if computing > 0 and finishing != ():
                end_s = max(end_s, start_s + stack_s * times.slowest_s(computing, stacks))
        else:
            if finishing is None:
                counts = _groups_by_stacks(patch, down.union(timed))
            else:
                counts = Counter(patch.get(group, 1) for group in finishing)
            for stacks, groups in counts.items():
                end_s = max(end_s, start_s + stack_s * times.slowest_s(groups, stacks))
        if self._writes.left_s:
            # A group that is down has failed before the end: rounding must not change that.
            failed_s = (self._next_failure_s[group] for group in down)
            end_s = max(start_s + self._beside("passes", end_s - start_s), *failed_s, 0.0)
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
        occupied = None if patch is None else self._job.work.occupied(phase, patch)
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
        start_s, rules, down = self.now_s, self._rules, self._down
        alone_s = self._all_reduce_alone_s(phase)
        lacked_from_start = bool(down)
        if self._fails_in_all_reduce:
            lacked_from_start |= self._mark_failed_until(start_s)
            if not lacked_from_start:
                self._mark_failed_until(start_s + self._beside("sync", alone_s))
        if not down:
            self.now_s = start_s + self._beside("sync", alone_s)
            return Outcome(self.now_s)
        if self._watchdog:
            self.now_s = max(start_s, min(start_s, self._hung_s) + rules.watchdog_s)
            self._hung_s = inf
        elif lacked_from_start:
            self.now_s += alone_s * rules.failed_all_reduce_fraction
        else:
            self.now_s += alone_s
        if not lacked_from_start:
            # The first failure may come after the time-out of the watchdog, or after the usual end
            # of the exchange. Groups that fail after that failure is noticed are still up.
            failures = [(self._next_failure_s[group], group) for group in down]
            self.now_s = max(self.now_s, min(failures)[0])
            for failure in failures:
                if failure[0] > self.now_s:
                    down.discard(failure[1])
                    heappush(self._upcoming, failure)
        if self._fails_in_all_reduce:
            self._mark_failed_until(self.now_s)
        return Outcome(self.now_s, tuple(sorted(down)))

    def _mark_failed_until(self, time_s: float) -> bool:
        """Mark the groups that fail until `time_s` as down; return whether any did."""
        upcoming, any_failed = self._upcoming, False
        while upcoming and upcoming[0][0] <= time_s:
            self._down.add(heappop(upcoming)[1])
            any_failed = True
        return any_failed

    def _inquire(self, phase: Inquiry) -> Outcome:
        struck = self.clocks.happened(phase.groups, self.now_s, phase.since_s)
        return Outcome(self.now_s, struck=struck)

    def _reconfigure(self, phase: Reconfigure) -> Outcome:
        members, dropped, carried_on, recovery, reports_failures = phase
        clocks, times, now_s = self.clocks, self._recovery_times, self.now_s
        hit = (*dropped, *carried_on) if carried_on else dropped
        failed = self._unreported_failures(hit)
        for group in hit:
            clocks.take(group, now_s)
        self._down.difference_update(hit)
        self._dropped.update(dropped)
        for group in carried_on:
            clocks.resume(group, now_s)
            heappush(self._upcoming, (self._next_failure_s[group], group))
        struck = clocks.collect(reports_failures)
        if recovery is None:
            return Outcome(now_s, (), (), struck)
        self.now_s = now_s + times.duration_s(recovery, failed)
        if recovery.moves:
            self._move(recovery, members)
        return Outcome(self.now_s, (), (), struck, times.last_phases())

    def _unreported_failures(self, groups: Iterable[int]) -> list[Failure | None]:
        """Return the groups' unreported failures if recovery times depend on them."""
        if not self._recovery_times.depends_on_failures:
            return []
        return [self.clocks.due(group) for group in groups]

    def _save(self, phase: Save) -> Outcome:
        writer, fails_s = phase.writer, self._next_failure_s[phase.writer]
        if writer in self._down or fails_s <= self.now_s:
            return Outcome(self.now_s, (writer,))
        save_s = self._job.timer.save_s(writer)
        if phase.waits:
            save_s = self._beside("save", save_s)
        if not phase.waits:
            self._busy_until_s[writer] = self.now_s + save_s
        elif self._job.rules.failed_writer == "replaced" and fails_s <= self.now_s + save_s:
            self.now_s = fails_s
            return Outcome(self.now_s, (writer,))
        else:
            self.now_s += save_s
        return Outcome(self.now_s)

    def _restart(self, phase: Restart) -> Outcome:
        rules, start_s = self._job.rules, self.now_s
        clocks, next_failure_s = self.clocks, self._next_failure_s
        absent = set(phase.absent)
        begins_anew = rules.failure_in_restart == "begins-anew"
        failures: list[tuple[float, int]] = []
        unwatched = self._down | self._dropped
        struck = self._failing_until(start_s, unwatched)
        failed = self._unreported_failures(group for group in struck if group not in self._dropped)
        restart_s = self._recovery_times.duration_s(phase.recovery, failed)
        restart_s += self._recovery_times.repair_s(failed)
        end_s = start_s + restart_s
        for group in struck:
            if group not in self._dropped:
                clocks.take(group, start_s)
            clocks.take_while_down(group, start_s)
        if begins_anew:
            for group in self._failing_until(start_s + restart_s, unwatched, absent):
                begun_s = start_s
                while next_failure_s[group] <= begun_s + restart_s:
                    begun_s = clocks.take_at_occurrence(group)
                    failures.append((begun_s, group))
                end_s = max(end_s, begun_s + restart_s)
        if rules.failure_while_waiting == "absorbed" or not begins_anew:
            for group in self._failing_until(end_s, unwatched, absent):
                while next_failure_s[group] <= end_s:
                    failures.append((clocks.take_at_occurrence(group), group))
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
        phases, failed_meanwhile = self._recovery_times.last_phases(), tuple(sorted(failures))
        return Outcome(
            end_s, (), failed_meanwhile, self.clocks.collect(phase.reports_failures), phases
        )

    def _stall(self, phase: Stall) -> Outcome:
        self.now_s += phase.duration_s
        return Outcome(self.now_s)

    def _send(self, phase: Send) -> Outcome:
        self.now_s += self._beside("send", self._job.timer.sent_s(phase.moves))
        return Outcome(self.now_s)

    def _load(self, phase: Load) -> Outcome:
        loading, unharmed = 0, self._unharmed(phase.members)
        while unharmed and len(unharmed) != loading:
            loading, load_s = len(unharmed), phase.duration_s
            self.now_s += self._job.timer.load_s(unharmed) if load_s is None else load_s
            unharmed = self._unharmed(phase.members)
        return Outcome(self.now_s)

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

    def _unharmed(self, members: Sequence[int]) -> Sequence[int]:
        """Return the members that have not failed by now; all of them have watched clocks."""
        upcoming, failed = self._upcoming, []
        while upcoming and upcoming[0][0] <= self.now_s:
            failed.append(heappop(upcoming))
        for failure in failed:
            heappush(upcoming, failure)
        if not failed:
            return members
        failed_groups = {group for _, group in failed}
        return [*filterfalse(failed_groups.__contains__, members)]

    def _rejoin(self, phase: Rejoin) -> Outcome:
        for group in phase.groups:
            self.clocks.take_while_down(group, self.now_s)
            self.clocks.resume(group, self.now_s)
            heappush(self._upcoming, (self._next_failure_s[group], group))
        self._dropped.difference_update(phase.groups)
        self.now_s += self._recovery_times.duration_s(phase.recovery)
        self._move(phase.recovery, phase.members)
        return Outcome(self.now_s, phases=self._recovery_times.last_phases())

    def _move(self, recovery: Recovery | None, members: Sequence[int]) -> None:
        """Move state; send it again from other groups whenever a sender or receiver fails."""
        if recovery is None or not self._job.timer.moves(recovery):
            return
        times = self._job.durations.moves
        assert times is not None
        moves, able = recovery.moves, set(self._up(members))
        while moves := tuple(move for move in moves if move.group in able):
            self._advance_writes()
            sent = sent_moves(moves, able)
            begun_s, busy_s = self.now_s, times.busy_s(sent)
            alone_s = max(busy_s.values(), default=0.0)
            lasts_s = self._beside("send", alone_s)
            self.now_s += lasts_s
            slower = lasts_s / alone_s if alone_s else 1.0
            # A group that fails after its last flow has arrived breaks nothing.
            if all(
                self._next_failure_s[group] > begun_s + slower * group_s
                for group, group_s in busy_s.items()
            ):
                return
            able = set(self._up(able))

    def _up(self, groups: Iterable[int]) -> list[int]:
        """Return the groups that have not failed by now."""
        return [group for group in groups if self._next_failure_s[group] > self.now_s]

    def _watch(self, groups: Iterable[int]) -> None:
        self._upcoming = [(self._next_failure_s[group], group) for group in groups]
        heapify(self._upcoming)


def _groups_by_stacks(patch: Mapping[int, int], lacking: set[int]) -> Counter[int]:
    """Return how many groups of a patch, other than those lacking, compute each number of types."""
    if not lacking:
        return Counter(patch.values())
    return Counter(stacks for group, stacks in patch.items() if group not in lacking)
