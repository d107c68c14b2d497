"""Jitter of steps that are simulated by their messages: one factor for all that they compute."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.simulator.compute_times import ComputeTimes
from faultline.simulator.job import Work
from faultline.simulator.phases import Compute


@dataclass(frozen=True, slots=True)
class SimulatedFactors:
    """Draws how much longer computations take, phase by phase: the same in both engines.

    All groups wait for the slowest, so one draw gives the largest mean factor of all members. The
    computations of all groups take it, and their messages carry what they always do.

    Attributes
    ----------
    work : Work
        The work of the job.
    times : ComputeTimes
        Draws the factors, in units of one shard type.
    """

    work: Work
    times: ComputeTimes

    @classmethod
    def of(cls, work: Work, seed: int) -> SimulatedFactors | None:
        """Return what draws them; None without jitter, and where no messages are simulated."""
        if not work.simulates_steps or not work.compute_jitter:
            return None
        return cls(work, ComputeTimes(1.0, work.compute_jitter, work.minimum_factor, seed))

    def draw(self, phase: Compute) -> Compute:
        """Return the next phase at the pace of its slowest member."""
        stacks = _stacks(phase)
        if not stacks or not phase.members:
            return phase
        return self.work.slower(phase, self.times.slowest_s(len(phase.members), stacks) / stacks)

    def longest(self, phase: Compute) -> float:
        """Return a factor that no draw exceeds."""
        stacks = _stacks(phase)
        return self.times.longest_s(stacks) / stacks if stacks else 1.0


def _stacks(phase: Compute) -> int:
    return phase.stacks if phase.patch is None else max(phase.patch.values(), default=0)
