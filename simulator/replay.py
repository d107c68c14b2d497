"""The replay engine: phases of known duration, played from event to event.

It draws only what can change the outcome. Nobody asks for the pace of each of N groups: the phase
ends with the slowest, and the largest of n independent, equally distributed times is one draw, the
n-th root of a uniform number put through the inverse distribution. Only groups whose failure may
fall into the phase get times of their own, since it matters how far they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from math import sqrt
from statistics import NormalDist
from typing import Any

from faultline.simulator.job import Job
from faultline.simulator.phases import (
    AllReduce,
    Compute,
    Inquiry,
    Load,
    Outcome,
    Phase,
    Reconfigure,
    Rejoin,
    Restart,
    Save,
    Stall,
)
from faultline.simulator.random_streams import Purpose, stream

_BLOCK = 1024
# A normal variate beyond this many standard deviations has a probability of 1e-19: never, here.
_NEVER_SIGMAS = 9.0
_normal_quantile = NormalDist().inv_cdf


class ReplayEngine:
    """Plays a job's phases by their durations.

    Parameters
    ----------
    job : Job
        The job; its `durations` are what phases take.
    """

    def __init__(self, job: Job) -> None:
        work = job.work
        self.now_s = 0.0
        self._job = job
        self.clocks = job.failures.clocks(job.seed, job.rules.clock)
        self._next_failure_s = self.clocks.next_failure_s
        self._upcoming: list[tuple[float, int]] = []
        self._watch(range(work.groups))
        self._down: set[int] = set()
        self._dropped: set[int] = set()
        self._busy_until_s: dict[int, float] = {}
        self._pace = _Pace(work.compute_s, work.compute_jitter, work.minimum_factor, job.seed)
        self._fails_in_all_reduce = job.rules.failure_in_all_reduce == "fails-it"
        self._play: dict[type, Callable[[Any], Outcome]] = {
            Compute: self._compute,
            AllReduce: self._all_reduce,
            Inquiry: self._inquire,
            Reconfigure: self._reconfigure,
            Save: self._save,
            Stall: self._stall,
            Restart: self._restart,
            Load: self._load,
            Rejoin: self._rejoin,
        }

    def execute(self, phase: Phase) -> Outcome:
        """Play one phase and return what came of it."""
        return self._play[type(phase)](phase)

    def _compute(self, phase: Compute) -> Outcome:
        start_s, patch = self.now_s, phase.patch
        size = phase.stack_size * phase.pace
        if patch is None:
            most_stacks, computing = phase.stacks, len(phase.members) - len(self._down)
        else:
            most_stacks, computing = max(patch.values()), 0
        latest_s = max((start_s, *self._busy_until_s.values()))
        latest_s += self._pace.longest_s(most_stacks) * size
        end_s = start_s
        apart: dict[int, int] = {}
        if self._busy_until_s or (self._upcoming and self._upcoming[0][0] <= latest_s):
            end_s, apart = self._compute_at_risk(phase, latest_s)
        if patch is None:
            if computing > len(apart):
                slowest_s = size * self._pace.slowest_s(computing - len(apart), most_stacks)
                end_s = max(end_s, start_s + slowest_s)
        else:
            for stacks, groups in _groups_by_stacks(patch, apart, self._down).items():
                end_s = max(end_s, start_s + size * self._pace.slowest_s(groups, stacks))
        self.now_s = end_s
        return Outcome(end_s)

    def _compute_at_risk(self, phase: Compute, latest_s: float) -> tuple[float, dict[int, int]]:
        """Let those compute by themselves who may fail before `latest_s`, or who start late.

        Returns the end of the last of them, and the shard types each computed, by group.
        """
        start_s = end_s = self.now_s
        upcoming, next_failure_s = self._upcoming, self._next_failure_s
        busy, self._busy_until_s = self._busy_until_s, {}
        apart: dict[int, int] = {}
        unharmed: list[tuple[float, int]] = []
        candidates = [(next_failure_s[group], group) for group in busy if group not in self._down]
        while upcoming and upcoming[0][0] <= latest_s:
            failure = heappop(upcoming)
            if failure[1] in busy:
                unharmed.append(failure)
            else:
                candidates.append(failure)
        for failure_s, group in candidates:
            stacks = phase.stacks if phase.patch is None else phase.patch.get(group, 0)
            apart[group] = stacks
            own_s = self._pace.own_s(stacks) * phase.stack_size * phase.pace
            arrival_s = max(start_s, busy.get(group, 0.0)) + own_s
            if failure_s <= arrival_s:
                self._down.add(group)
                # The others cannot know that it will not arrive before it has died.
                end_s = max(end_s, failure_s)
            else:
                end_s = max(end_s, arrival_s)
                if group not in busy:
                    unharmed.append((failure_s, group))
        for failure in unharmed:
            if failure[1] not in self._down:
                heappush(upcoming, failure)
        return end_s, apart

    def _all_reduce(self, phase: AllReduce) -> Outcome:
        job, start_s = self._job, self.now_s
        whole_s = job.durations.all_reduce_s(len(phase.members))
        lacked_from_start = bool(self._down)
        if self._fails_in_all_reduce:
            lacked_from_start |= self._fall_until(start_s)
            if not lacked_from_start:
                self._fall_until(start_s + whole_s)
        if not self._down:
            self.now_s = start_s + whole_s
            return Outcome(self.now_s)
        if job.rules.detection == "watchdog":
            self.now_s += job.rules.watchdog_s
        elif lacked_from_start:
            self.now_s += whole_s * job.rules.failed_all_reduce_fraction
        else:
            self.now_s += whole_s
        if self._fails_in_all_reduce:
            self._fall_until(self.now_s)
        return Outcome(self.now_s, tuple(sorted(self._down)))

    def _fall_until(self, time_s: float) -> bool:
        """Take down every group that fails until `time_s`; whether there was one."""
        upcoming, fallen = self._upcoming, False
        while upcoming and upcoming[0][0] <= time_s:
            self._down.add(heappop(upcoming)[1])
            fallen = True
        return fallen

    def _inquire(self, phase: Inquiry) -> Outcome:
        struck = [self.clocks.due(group) for group in phase.groups]
        return Outcome(self.now_s, struck=[failure for failure in struck if failure is not None])

    def _reconfigure(self, phase: Reconfigure) -> Outcome:
        for group in (*phase.dropped, *phase.carried_on):
            self.clocks.take(group, self.now_s)
            self._down.discard(group)
        self._dropped.update(phase.dropped)
        for group in phase.carried_on:
            heappush(self._upcoming, (self._next_failure_s[group], group))
        self.now_s += self._job.durations.reconfigure_s(len(phase.members)) + phase.stall_s
        return Outcome(self.now_s, struck=self.clocks.collect(phase.asks))

    def _save(self, phase: Save) -> Outcome:
        writer, save_s = phase.writer, self._job.durations.save_s
        fails_s = self._next_failure_s[writer]
        if writer in self._down or fails_s <= self.now_s:
            return Outcome(self.now_s, (writer,))
        if not phase.waits:
            self._busy_until_s[writer] = self.now_s + save_s
        elif self._job.rules.failed_writer == "replaced" and fails_s <= self.now_s + save_s:
            self.now_s = fails_s
            return Outcome(self.now_s, (writer,))
        else:
            self.now_s += save_s
        return Outcome(self.now_s)

    def _restart(self, phase: Restart) -> Outcome:
        rules, restart_s, start_s = self._job.rules, self._job.durations.restart_s, self.now_s
        clocks, next_failure_s = self.clocks, self._next_failure_s
        coming = [group for group in range(phase.groups) if group not in phase.absent]
        begins_anew = rules.failure_in_restart == "begins-anew"
        failures: list[tuple[float, int]] = []
        end_s = start_s + restart_s
        for group in range(phase.groups):
            if group not in self._dropped and next_failure_s[group] <= start_s:
                clocks.take(group, start_s)
            clocks.take_while_down(group, start_s)
        for group in coming:
            begun_s = start_s
            while begins_anew and next_failure_s[group] <= begun_s + restart_s:
                begun_s = clocks.take_at_occurrence(group)
                failures.append((begun_s, group))
            end_s = max(end_s, begun_s + restart_s)
        if rules.failure_while_waiting == "absorbed" or not begins_anew:
            for group in coming:
                while next_failure_s[group] <= end_s:
                    failures.append((clocks.take_at_occurrence(group), group))
        self.now_s = end_s
        self._down.clear()
        self._dropped = set(phase.absent)
        self._busy_until_s.clear()
        self._watch(coming)
        return Outcome(end_s, (), tuple(sorted(failures)), self.clocks.collect(phase.asks))

    def _stall(self, phase: Stall) -> Outcome:
        self.now_s += phase.duration_s
        return Outcome(self.now_s)

    def _load(self, phase: Load) -> Outcome:
        loading, left = 0, self._unharmed(phase.members)
        while left and len(left) != loading:
            loading, load_s = len(left), phase.duration_s
            self.now_s += self._job.load_s(loading) if load_s is None else load_s
            left = self._unharmed(left)
        return Outcome(self.now_s)

    def _unharmed(self, groups: Iterable[int]) -> list[int]:
        next_failure_s, now_s = self._next_failure_s, self.now_s
        return [group for group in groups if next_failure_s[group] > now_s]

    def _rejoin(self, phase: Rejoin) -> Outcome:
        for group in phase.groups:
            self.clocks.take_while_down(group, self.now_s)
            heappush(self._upcoming, (self._next_failure_s[group], group))
        self._dropped.difference_update(phase.groups)
        self.now_s += self._job.durations.rejoin_s
        return Outcome(self.now_s)

    def _watch(self, groups: Iterable[int]) -> None:
        self._upcoming = [(self._next_failure_s[group], group) for group in groups]
        heapify(self._upcoming)


class _Pace:
    """Draws compute times: `stacks` factors N(1, jitter^2), none below a minimum, times a unit."""

    def __init__(self, unit_s: float, jitter: float, minimum_factor: float, seed: int) -> None:
        self._unit_s = unit_s
        self._jitter = jitter
        self._minimum = minimum_factor
        # The minimum is out of reach of the variates where it lies this far below 1.
        self._closed_form = jitter * _NEVER_SIGMAS < 1.0 - minimum_factor
        self._normals = stream(seed, Purpose.COMPUTE_JITTER, 0)
        self._uniforms = stream(seed, Purpose.COMPUTE_JITTER, 1)
        self._block: list[float] = []
        self._normal_block: list[float] = []

    def longest_s(self, stacks: int) -> float:
        """Return a bound that no draw exceeds."""
        return self._unit_s * (stacks + _NEVER_SIGMAS * self._jitter * sqrt(stacks))

    def own_s(self, stacks: int) -> float:
        """Draw the time of one group."""
        if self._jitter == 0.0 or stacks == 0:
            return self._unit_s * stacks
        if self._closed_form:
            # The sum of normal variates is one, too.
            return self._unit_s * (stacks + self._jitter * sqrt(stacks) * self._normal())
        factors = 1.0 + self._jitter * self._normals.standard_normal(stacks)
        return self._unit_s * float(factors.clip(min=self._minimum).sum())

    def slowest_s(self, groups: int, stacks: int) -> float:
        """Draw the time of the slowest of some groups."""
        if self._jitter == 0.0:
            return self._unit_s * stacks
        if self._closed_form:
            if not self._block:
                self._block = self._uniforms.random(_BLOCK).tolist()
            quantile = (self._block.pop() or 2.0**-54) ** (1.0 / groups)
            largest = _normal_quantile(quantile) if quantile < 1.0 else _NEVER_SIGMAS
            return self._unit_s * (stacks + self._jitter * sqrt(stacks) * largest)
        factors = 1.0 + self._jitter * self._normals.standard_normal((groups, stacks))
        return self._unit_s * float(factors.clip(min=self._minimum).sum(axis=1).max())

    def _normal(self) -> float:
        if not self._normal_block:
            self._normal_block = self._normals.standard_normal(_BLOCK).tolist()
        return self._normal_block.pop()


def _groups_by_stacks(
    patch: Mapping[int, int], apart: Mapping[int, int], down: set[int]
) -> dict[int, int]:
    """Count the groups of a patch by the shard types they compute, without those set apart."""
    counts: dict[int, int] = {}
    for group, stacks in patch.items():
        if group not in apart and group not in down:
            counts[stacks] = counts.get(stacks, 0) + 1
    return counts
