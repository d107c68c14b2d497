"""When to write a checkpoint: decided at the end of each step, for all schemes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol

from faultline.strategies.theory.checkpoint_period import best_period_s

_ROUNDING_MARGIN = 1.0 - 1e-12


class CheckpointPolicy(Protocol):
    """Decides at the end of a step whether a checkpoint is due."""

    @property
    def every_steps(self) -> int:
        """Steps between two checkpoints; 0 if the policy does not count steps."""

    def due(self, completed_steps: int, unsaved_s: float, now_s: float, down: int) -> bool:
        """Return whether to write a checkpoint now.

        Parameters
        ----------
        completed_steps : int
            Steps completed so far.
        unsaved_s : float
            Time since the last checkpoint was written or loaded, in seconds.
        now_s : float
            Time since the job began, in seconds.
        down : int
            Groups that are down.
        """

    def not_due_before(
        self, completed_steps: int, unsaved_s: float, now_s: float, down: int
    ) -> tuple[float, float]:
        """Return a step count and a time; below both, `due` stays False.

        Parameters as in `due`. This assumes that the job runs and that the number of groups that
        are down does not change.

        Returns
        -------
        float, float
            Completed steps, and time since the job began in seconds; infinite without a bound.
        """


@dataclass(frozen=True, slots=True)
class EverySteps:
    """A checkpoint every `every_steps` steps."""

    every_steps: int

    def due(self, completed_steps: int, unsaved_s: float, now_s: float, down: int) -> bool:
        return completed_steps % self.every_steps == 0

    def not_due_before(
        self, completed_steps: int, unsaved_s: float, now_s: float, down: int
    ) -> tuple[float, float]:
        return (completed_steps // self.every_steps + 1) * self.every_steps, inf


@dataclass(frozen=True, slots=True)
class Never:
    """No checkpoint except the last one: state is saved in the background."""

    @property
    def every_steps(self) -> int:
        return 0

    def due(self, completed_steps: int, unsaved_s: float, now_s: float, down: int) -> bool:
        return False

    def not_due_before(
        self, completed_steps: int, unsaved_s: float, now_s: float, down: int
    ) -> tuple[float, float]:
        return inf, inf


class FailureRate(Protocol):
    """Failures per second of one group over the time since the job began; piecewise constant.

    Times are in seconds.
    """

    def __call__(self, now_s: float) -> float:
        """Return the rate at a time."""

    def holds_until_s(self, now_s: float) -> float:
        """Return the time of the next change of the rate; infinite if there is none."""


@dataclass(frozen=True, slots=True)
class FollowingHazard:
    """A checkpoint as soon as the unsaved work exceeds the optimum for the current hazard.

    For a constant hazard h of losing the unsaved work, the optimal amount between checkpoints is
    ``T_c* - T_s = sqrt(T_s^2 + 2 T_s (1/h + T_r))`` (`best_period_s`). Here h varies:
    ``h = groups up * failure rate of a group * P(the next failure forces a restart)``. The last
    factor is 0 right after a restart if the scheme masks failures, and grows with each group that
    is down. The rate follows the distribution of the times between failures. Ling, Mi & Lin
    2001 use the current hazard in the same way (checkpoint density sqrt(h(t) / 2 T_s)), and so do,
    for parallel jobs under Weibull failures, the dynamic policies in Bougeret et al. 2011.
    """

    # Times of a checkpoint write and of a restart, in seconds.
    save_s: float
    restart_s: float
    groups: int  # Data-parallel groups N.
    rate: FailureRate  # Failures of one group per second.
    # Probability that the next failure forces a restart, by the number of groups that are down. The
    # last value holds for all larger numbers.
    forces_restart: tuple[float, ...]

    @property
    def every_steps(self) -> int:
        return 0

    def due(self, completed_steps: int, unsaved_s: float, now_s: float, down: int) -> bool:
        return unsaved_s >= self._worth_saving_s(now_s, down)

    def not_due_before(
        self, completed_steps: int, unsaved_s: float, now_s: float, down: int
    ) -> tuple[float, float]:
        # Slightly early, so that rounding never makes it late.
        due_s = (now_s - unsaved_s + self._worth_saving_s(now_s, down)) * _ROUNDING_MARGIN
        return inf, min(due_s, self.rate.holds_until_s(now_s))

    def _worth_saving_s(self, now_s: float, down: int) -> float:
        """Return the seconds of unsaved work at which a checkpoint is due."""
        probability = self.forces_restart[min(down, len(self.forces_restart) - 1)]
        hazard = (self.groups - down) * self.rate(now_s) * probability
        if hazard <= 0.0:
            return inf
        return best_period_s(self.save_s, 1.0 / hazard, self.restart_s) - self.save_s
