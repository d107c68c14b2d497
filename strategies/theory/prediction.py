"""Prediction of the time to train under a scheme, from closed forms alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf, nan
from typing import NamedTuple

import numpy as np
from faultline.strategies.theory.checkpoint_period import Costs
from faultline.strategies.theory.lifetimes import (
    GroupLifetimes,
    best_period_of_lives_s,
    kept_periods,
)
from faultline.strategies.theory.wipe_out import FailureCourse, FloatArray, WipeOutLaw
from numpy.typing import ArrayLike
from scipy.special import bdtr, ndtr

LEAST_LIVES = 2.0
"""Least mean number of lives of a job for which a prediction is valid."""

LEAST_KEPT = 0.1
"""Least mean number of kept checkpoints per life for which a prediction is valid."""

_NEVER = 1e-200
"""Fewer steps per life than this count as none."""


@dataclass(frozen=True, slots=True)
class LoopCosts:
    """Costs of a step beyond `Costs`.

    Attributes
    ----------
    jitter : float
        Standard deviation of a stack's compute time, relative to its mean; all wait for the
        slowest.
    failed_all_reduce_s : float
        Time of an all-reduce with a missing member, including the controller, in seconds; one with
        all survivors follows.
    spared_all_reduce_s : float
        Time of that second all-reduce if a step without losses commits without it, else 0.
    restart_loses_steps : int
        Steps before the last checkpoint that a restart repeats.
    undisturbed_s : float or None
        Time of a step of the same job without failures, redundancy and checkpoints, in seconds;
        None for a step without jitter.
    """

    jitter: float = 0.0
    failed_all_reduce_s: float = 0.0
    spared_all_reduce_s: float = 0.0
    restart_loses_steps: int = 0
    undisturbed_s: float | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Means over many lives of a job; a life is the time from one restart to the next.

    `holds_for` states whether a job has enough lives for them.

    Attributes
    ----------
    mean_failures : float
        Failures per life, including the last, from the state without failures.
    time_to_wipe_out_s : float
        Length of a life without the restart, in seconds.
    steps_per_life : float
        Steps run in a life, including those that are lost at its end.
    step_s : float
        Mean time of a step, including its share of checkpoints, in seconds.
    stacks_per_step, patch_per_step : float
        Shard types that a group computes per step, and those that it recomputes.
    interval_steps : int
        Checkpoint interval.
    kept_steps_per_life : float
        Steps of a life that a checkpoint saves.
    availability : float
        Share of time outside restarts.
    time_to_train_ratio : float
        Time to train over that of undisturbed steps (`LoopCosts.undisturbed_s`), for a job of
        unlimited length.
    """

    mean_failures: float
    time_to_wipe_out_s: float
    steps_per_life: float
    step_s: float
    stacks_per_step: float
    patch_per_step: float
    interval_steps: int
    kept_steps_per_life: float
    availability: float
    time_to_train_ratio: float

    def lives_of_job(self, steps: int) -> float:
        """Return the mean number of lives of a job of `steps` steps."""
        return steps / self.kept_steps_per_life if self.kept_steps_per_life else inf

    def holds_for(self, steps: int) -> bool:
        """Return whether the prediction is valid for a job of `steps` steps.

        It is a mean over many lives of an unlimited job at a uniform pace. It is invalid

        - for a job of fewer than `LEAST_LIVES` lives. Such a job starts without failures, ends
          before it has as many failed groups as an average life, and need not save its last steps.
          Simulated jobs of one life end 4 to 7 % sooner than predicted, of two lives at most 5 %,
          of ten 2 %;
        - if fewer than `LEAST_KEPT` checkpoints per life are kept. Then all progress is made in the
          few lives that are much longer than the mean. Neither the uniform pace nor the tabulated
          lives describe this tail.
        """
        kept_checkpoints = self.kept_steps_per_life / self.interval_steps
        return self.lives_of_job(steps) >= LEAST_LIVES and kept_checkpoints >= LEAST_KEPT

    def ratio_of_job(self, steps: int) -> float:
        """Return the time-to-train ratio of a job of `steps` steps; NaN if it is invalid."""
        return self.time_to_train_ratio if self.holds_for(steps) else nan


def predict(
    course: FailureCourse,
    lifetimes: GroupLifetimes,
    costs: Costs,
    extra: LoopCosts,
    interval_steps: int | None = None,
) -> Prediction:
    """Predict a job under a scheme.

    A life spends P(k) tau_k seconds with k groups down (`wipe_out`, `lifetimes`). A step then takes
    D_k: the slowest group's S_k stacks, the all-reduce and a share of a checkpoint. With lambda_k
    failures in it (Poisson) there is a failed all-reduce with probability 1 - exp(-lambda_k), and a
    patch compute with probability 1 - exp(-lambda_k rho_k): one repair handles all failures of a
    step. Failures in the patch compute cause another one, and so on. The number of steps is
    P(k) tau_k / D_k. A mean over steps gives the fast steps of an undamaged job more weight than a
    mean over time, and late failures, which are slower, more than a mean over failures. A life that
    starts with groups down (`lifetimes.failed_at_start`) has one more step, which detects them.

    A checkpoint every n steps keeps n floor(steps / n) steps of a life; the probability that a life
    has that many assumes a uniform pace.

    Parameters
    ----------
    course : FailureCourse
        The scheme with N groups and redundancy r.
    lifetimes : GroupLifetimes
        Lifetimes of the groups; `costs.mtbf_s` is not used.
    costs : Costs
        Saving, restart (effective, for the whole job), compute and all-reduce times, in seconds.
    extra : LoopCosts
        Further costs of a step.
    interval_steps : int, optional
        Checkpoint interval in steps; by default that nearest to the best fixed period of the lives.
    """
    law = course.law
    life = lifetimes.life(law)
    time_s = life.mean_s
    if interval_steps is None:
        bare = _steps_of_a_life(course, lifetimes, costs, extra, 0.0)
        if bare.run < _NEVER:
            return _endless(law, time_s, costs.restart_s, 1)
        bare_step_s = time_s / bare.run
        period_s = best_period_of_lives_s(life, costs.save_s, costs.save_s + bare_step_s)
        interval_steps = max(1, round((period_s - costs.save_s) / bare_step_s))
    steps = _steps_of_a_life(course, lifetimes, costs, extra, costs.save_s / interval_steps)
    if steps.run < _NEVER:
        return _endless(law, time_s, costs.restart_s, interval_steps)
    step_s = time_s / steps.run
    life_s = time_s + step_s / 2.0
    checkpoints = kept_periods(life, interval_steps * step_s)
    kept = interval_steps * checkpoints - extra.restart_loses_steps * min(1.0, checkpoints)
    nominal_s = costs.compute_s + costs.all_reduce_s
    ideal_s = kept * (nominal_s if extra.undisturbed_s is None else extra.undisturbed_s)
    return Prediction(
        mean_failures=law.mean_failures,
        time_to_wipe_out_s=time_s,
        steps_per_life=steps.run,
        step_s=step_s,
        stacks_per_step=steps.stacks * course.stack_size / steps.run,
        patch_per_step=steps.patch * course.stack_size / steps.run,
        interval_steps=interval_steps,
        kept_steps_per_life=kept,
        availability=life_s / (life_s + costs.restart_s),
        time_to_train_ratio=(life_s + costs.restart_s) / ideal_s if ideal_s else inf,
    )


def _endless(law: WipeOutLaw, time_s: float, restart_s: float, interval_steps: int) -> Prediction:
    """Return the prediction for a job in which no step can end before a failure."""
    return Prediction(
        mean_failures=law.mean_failures,
        time_to_wipe_out_s=time_s,
        steps_per_life=0.0,
        step_s=inf,
        stacks_per_step=nan,
        patch_per_step=nan,
        interval_steps=interval_steps,
        kept_steps_per_life=0.0,
        availability=time_s / (time_s + restart_s),
        time_to_train_ratio=inf,
    )


class _Steps(NamedTuple):
    run: float
    stacks: float
    patch: float


def _steps_of_a_life(
    course: FailureCourse,
    lifetimes: GroupLifetimes,
    costs: Costs,
    extra: LoopCosts,
    save_s: float,
) -> _Steps:
    law, groups, at_start = course.law, course.law.groups, lifetimes.failed_at_start
    down = np.arange(groups)
    holding_s, stacks = lifetimes.holding_times_s, course.stacks
    reached = bdtr(down, groups, at_start) if at_start > 0.0 else np.ones(groups)
    failures_per_s = np.divide(reached, holding_s, out=np.zeros(groups), where=holding_s > 0.0)
    patch = np.append(course.patch[1:], 0.0)
    stack_s = costs.compute_s * course.stack_size
    slowest = extra.jitter * _slowest_of_survivors(groups)
    # A stack of several shard types is one batch with one random factor; each stack has its own.
    step_s = stack_s * (stacks + np.sqrt(stacks) * slowest) + costs.all_reduce_s + save_s
    patch_s = stack_s * (1.0 + slowest) + extra.failed_all_reduce_s
    failed = -np.expm1(-failures_per_s * step_s)
    # If failures come faster than patch computes, a step never ends.
    with np.errstate(divide="ignore"):
        patched = -np.expm1(-failures_per_s * step_s * patch) / np.exp(
            -failures_per_s * patch_s * patch
        )
    unpatched = np.maximum(failed - patched, 0.0)
    step_s = step_s + patched * patch_s
    step_s += unpatched * (extra.failed_all_reduce_s - extra.spared_all_reduce_s)
    steps_run = law.outliving * holding_s / step_s
    patched[steps_run == 0.0] = 0.0
    # A step that detects the groups that are down at the start.
    first = 1.0 if at_start > 0.0 else 0.0
    survives = lifetimes.life(law).survives_start
    return _Steps(
        float(steps_run.sum()) + first,
        float(steps_run @ stacks) + first * float(stacks[0]),
        float(steps_run @ patched) + first * survives * float(patch[0]),
    )


@lru_cache(maxsize=16)
def _slowest_of_survivors(groups: int) -> FloatArray:
    """Return the mean of the largest of N - k standard normal variates, for k = 0 to N - 1."""
    return largest_of_normals(np.arange(groups, 0, -1))


def largest_of_normals(numbers: ArrayLike, least: float = -9.0) -> FloatArray:
    """Return the mean of the largest of n standard normal variates, for each n of `numbers`.

    Variates below `least` count as `least`: the result is `least` plus the integral of
    ``1 - Phi(x)^n`` from there on.
    """
    x = np.linspace(max(least, -9.0), 9.0, 1801)
    log_below = np.log(np.maximum(ndtr(x), 1e-300))
    powers = np.exp(np.asarray(numbers, dtype=float)[:, None] * log_below)
    above = 1.0 - powers
    # The trapezoidal rule, which has different names in numpy 1 and 2.
    area = (above.sum(axis=1) - (above[:, 0] + above[:, -1]) / 2.0) * (x[1] - x[0])
    return np.asarray(x[0] + area)
