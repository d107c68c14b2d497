"""Steps into which no failure can fall, executed together."""

from __future__ import annotations

import numpy as np
from faultline.simulator.job.compute_times import ComputeTimes, SimulatedFactors
from faultline.simulator.job.phases import (
    NO_TIMES_S,
    NONE_MISSING,
    Compute,
    Outcome,
    QuietSteps,
)
from numpy.typing import NDArray

_MANY_STEPS = 24
"""From this many steps on, arrays are faster than one step after the other."""


class QuietExecution:
    """Executes quiet steps: it draws only the time of the slowest group of each.

    Compute times are drawn from `pace`, and one factor per step from `factors`, if there are any.
    A failure may also break an all-reduce if `fails_in_all_reduce`.
    """

    def __init__(
        self,
        pace: ComputeTimes,
        factors: SimulatedFactors | None,
        *,
        fails_in_all_reduce: bool,
    ) -> None:
        self._pace, self._factors = pace, factors
        self._fails_in_all_reduce = fails_in_all_reduce
        # Ends of compute and all-reduce of steps ahead: of these phases, from this draw on.
        self._ahead_s = np.empty(0)
        self._ahead_of: Compute | None = None
        self._ahead_from = 0

    def execute(
        self, phase: QuietSteps, now_s: float, failure_s: float, all_reduce_s: float
    ) -> Outcome:
        """Execute steps from `now_s` on, given the next failure and the time of an all-reduce."""
        (compute, _, at_most, until_s, snapshots), steps, pace = phase, 0, self._pace
        slowest = self._slowest_groups(compute)
        if slowest is None:
            return Outcome(now_s)
        (groups, stack_s), stacks = slowest, compute.stacks
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
        snapshot_ends_s: list[NDArray[np.float64]] = []
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
                    snapshot_ends_s.append(np.array([now_s]))
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
                snapshot_ends_s.append(ends_s[begin : 2 * quiet + 1 : by])
            steps += quiet
        reduced_s = steps * all_reduce_s
        taken_s = np.concatenate(snapshot_ends_s) if snapshot_ends_s else NO_TIMES_S
        return Outcome(now_s, NONE_MISSING, (), (), steps, reduced_s, taken_s)

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
