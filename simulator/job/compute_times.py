"""Draws how long groups compute: each by itself, or the slowest of many in one draw.

If the messages of steps are simulated, one factor per step applies to all computations.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from faultline.simulator.failures.random_streams import Purpose, stream
from faultline.simulator.job.phases import Compute
from faultline.simulator.job.timer import Timer
from numpy.typing import NDArray
from scipy.special import cython_special, ndtri_exp, xlogy

LEAST_COMPUTE_FACTOR = 0.1
"""Least factor on a compute time, as in the simulator of SPARe (arXiv 2603.00357)."""

_BLOCK = 1024
# Normal variates beyond this many standard deviations are cut: their probability is 1e-19.
NEVER_SIGMAS = 9.0
# Replaces a uniform number of 0, which has no logarithm: half of the smallest other number.
_LEAST_UNIFORM = 2.0**-54
# For single numbers, this form of the function is three times as fast.
_ndtri_exp_of_one = cython_special.ndtri_exp


class ComputeTimes:
    """Draws compute times: `stacks` factors N(1, jitter^2), times a unit.

    No factor is below `LEAST_COMPUTE_FACTOR`.

    The largest of n independent standard normal variates is below x with probability Phi(x)^n. So a
    single uniform number u gives it: the x at which log Phi(x) = log(u) / n. A shard type takes
    `unit_s` seconds at a factor of 1; `jitter` is the standard deviation of the factor.

    Attributes
    ----------
    draws_ahead : bool
        Whether `slowest_ahead_s` can return times before the number needed is known.
    drawn : int
        Number of times drawn so far; without jitter there is nothing to draw.
    """

    def __init__(self, unit_s: float, jitter: float, seed: int) -> None:
        self._unit_s = unit_s
        self._jitter = jitter
        # No variate reaches a minimum that is this far below 1.
        self._closed_form = jitter * NEVER_SIGMAS < 1.0 - LEAST_COMPUTE_FACTOR
        self.draws_ahead = jitter == 0.0 or self._closed_form
        self._normals = stream(seed, Purpose.COMPUTE_JITTER, 0)
        self._uniforms = stream(seed, Purpose.COMPUTE_JITTER, 1)
        self._normal_block: list[float] = []
        self._logs = np.empty(0)
        self._block_begin = -_BLOCK
        self.drawn = 0

    def nominal_s(self, stacks: int) -> float:
        """Return the time if all factors are 1."""
        return self._unit_s * stacks

    def longest_s(self, stacks: int) -> float:
        """Return a bound that no draw exceeds."""
        return self._unit_s * (stacks + NEVER_SIGMAS * self._jitter * sqrt(stacks))

    def own_s(self, stacks: int) -> float:
        """Draw the time of one group."""
        if self._jitter == 0.0 or stacks == 0:
            return self._unit_s * stacks
        if self._closed_form:
            # The sum of normal variates is normal.
            normal = (self._normal_block or self._more_normals()).pop()
            return self._unit_s * (stacks + self._jitter * sqrt(stacks) * normal)
        factors = 1.0 + self._jitter * self._normals.standard_normal(stacks)
        return self._unit_s * float(factors.clip(min=LEAST_COMPUTE_FACTOR).sum())

    def slowest_s(self, groups: int, stacks: int) -> float:
        """Draw the time of the slowest of some groups."""
        if self._jitter == 0.0:
            return self._unit_s * stacks
        if self._closed_form:
            place = self.drawn - self._block_begin
            if place >= _BLOCK:
                place = self._next_block()
            self.drawn += 1
            largest = _ndtri_exp_of_one(1.0 / groups * self._logs.item(place))
            largest = min(largest, NEVER_SIGMAS)
            return self._unit_s * (stacks + self._jitter * sqrt(stacks) * largest)
        factors = 1.0 + self._jitter * self._normals.standard_normal((groups, stacks))
        return self._unit_s * float(factors.clip(min=LEAST_COMPUTE_FACTOR).sum(axis=1).max())

    def slowest_ahead_s(self, groups: int, stacks: int, wanted: float) -> NDArray[np.float64]:
        """Return the next draws of `slowest_s`, in seconds, without drawing them.

        Only if `draws_ahead`. There is at least one; `wanted` draws are likely to be made.
        """
        if self._jitter == 0.0:
            return np.full(int(min(wanted + 1, _BLOCK)), self._unit_s * stacks)
        place = self.drawn - self._block_begin
        if place >= _BLOCK:
            place = self._next_block()
        end = int(min(place + wanted + 1, _BLOCK))
        largest = np.minimum(ndtri_exp(1.0 / groups * self._logs[place:end]), NEVER_SIGMAS)
        ahead_s: NDArray[np.float64] = self._unit_s * (
            stacks + self._jitter * sqrt(stacks) * largest
        )
        return ahead_s

    def pass_over(self, draws: int) -> None:
        """Count the first `draws` draws as made."""
        if self._jitter > 0.0:
            self.drawn += draws

    def _next_block(self) -> int:
        """Draw more uniform numbers; return the place of the first one's logarithm."""
        uniforms = np.maximum(self._uniforms.random(_BLOCK)[::-1], _LEAST_UNIFORM)
        # SciPy takes the C library's logarithm; the last digit of numpy's depends on the CPU.
        self._logs = np.asarray(xlogy(1.0, uniforms), dtype=np.float64)
        self._block_begin = self.drawn
        return 0

    def _more_normals(self) -> list[float]:
        self._normal_block = self._normals.standard_normal(_BLOCK).tolist()
        return self._normal_block


@dataclass(frozen=True, slots=True)
class SimulatedFactors:
    """Draws how much longer the computations of each phase take; the same in both engines.

    All groups wait for the slowest, so one draw gives the largest mean factor of all members. It
    applies to the computations of all groups, not to their messages. It is rounded to multiples of
    half the jitter: so few different steps are simulated, and the mean stays the same.
    """

    timer: Timer  # How long the job's steps take.
    times: ComputeTimes  # Draws the factors, in units of one shard type.

    @classmethod
    def of(cls, timer: Timer, seed: int) -> SimulatedFactors | None:
        """Return the draws of a run; None without jitter, or if no messages are simulated."""
        work = timer.work
        if not work.simulates_steps or not work.compute_jitter:
            return None
        return cls(timer, ComputeTimes(1.0, work.compute_jitter, seed))

    def draw(self, phase: Compute) -> Compute:
        """Return the next phase at the pace of its slowest member."""
        stacks = _stacks(phase)
        if not stacks or not phase.members:
            return phase
        factor = self.times.slowest_s(len(phase.members), stacks) / stacks
        return self.timer.slower(phase, round(factor / self._unit) * self._unit)

    def longest(self, phase: Compute) -> float:
        """Return a factor that no draw exceeds."""
        stacks = _stacks(phase)
        return self.times.longest_s(stacks) / stacks + self._unit if stacks else 1.0

    @property
    def _unit(self) -> float:
        return self.timer.work.compute_jitter / 2


def _stacks(phase: Compute) -> int:
    return phase.stacks if phase.patch is None else max(phase.patch.values(), default=0)
