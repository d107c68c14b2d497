"""Time to train, from closed forms alone: what a scheme makes of its failures, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf, nan
from typing import NamedTuple

import numpy as np
from faultline.strategies.checkpoint_period import Costs
from faultline.strategies.closed_forms.lifetimes import (
    GroupLifetimes,
    best_period_of_lives_s,
    kept_periods,
)
from faultline.strategies.closed_forms.wipe_out import FailureCourse, FloatArray, WipeOutLaw
from numpy.typing import ArrayLike
from scipy.special import bdtr, ndtr

LEAST_LIVES = 2.0
"""Lives that a job takes on average, at least, for its prediction to hold."""

LEAST_KEPT = 0.1
"""Checkpoints of a mean life that are kept, at least, for its prediction to hold."""

_NEVER = 1e-200
"""As many steps of a life are none."""


@dataclass(frozen=True, slots=True)
class StepCosts:
    """What a step takes beyond `Costs`.

    Attributes
    ----------
    jitter : float
        Standard deviation of a stack's compute time, relative to its mean; all wait for the
        slowest.
    failed_all_reduce_s : float
        Time that an all-reduce with a member missing costs, the controller's included, in seconds;
        one with all survivors follows.
    spared_all_reduce_s : float
        Time of that second all-reduce if a step that lost nothing commits without it, else 0.
    restart_loses_steps : int
        Steps before the last checkpoint that a restart does again.
    undisturbed_s : float or None
        A step of the same job without failures, redundancy and checkpoints, in seconds; None for
        one without jitter either.
    """

    jitter: float = 0.0
    failed_all_reduce_s: float = 0.0
    spared_all_reduce_s: float = 0.0
    restart_loses_steps: int = 0
    undisturbed_s: float | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Means over many lives of a job, a life being the time from one restart to the next.

    Whether a job has so many lives is another matter: `ratio_of_job`.

    Attributes
    ----------
    mean_failures : float
        Failures a life, the last included, from the state without failures.
    time_to_wipe_out_s : float
        Length of a life without the restart, in seconds.
    steps_per_life : float
        Steps played in a life, those that are lost at its end included.
    step_s : float
        Mean time of a step, its checkpoints included, in seconds.
    stacks_per_step, patch_per_step : float
        Shard types that a group computes a step, and those it computes again, by steps played.
    interval_steps : int
        Checkpoint interval.
    kept_steps_per_life : float
        Steps of a life that a checkpoint keeps for good.
    availability : float
        Share of the time that is not spent in restarts.
    time_to_train_ratio : float
        Time to train over that of undisturbed steps (`StepCosts.undisturbed_s`), of a job without
        end.
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
        """Return how many lives a job of so many steps takes on average."""
        return steps / self.kept_steps_per_life if self.kept_steps_per_life else inf

    def holds_for(self, steps: int) -> bool:
        """Return whether a job of so many steps is within the range of the form.

        The form is a mean over many lives of a job without end, at a uniform pace. It does not hold

        - for a job of fewer than `LEAST_LIVES` lives: it begins undamaged, and is over before it
          meets as many failures at a time as lives do on average, nor has it to save its last
          steps. Simulated jobs of one life are over 4 to 7 % sooner than predicted, of two lives
          at most 5 %, of ten 2 %;
        - where fewer than `LEAST_KEPT` checkpoints of a life are kept: then all progress is made in
          the few lives that are much longer than the mean, and it is their tail that decides, of
          which neither the uniform pace nor the tabulated lives say anything.
        """
        kept_checkpoints = self.kept_steps_per_life / self.interval_steps
        return self.lives_of_job(steps) >= LEAST_LIVES and kept_checkpoints >= LEAST_KEPT

    def ratio_of_job(self, steps: int) -> float:
        """Return the time-to-train ratio of a job of so many steps; NaN if it does not hold."""
        return self.time_to_train_ratio if self.holds_for(steps) else nan


def predict(
    course: FailureCourse,
    lifetimes: GroupLifetimes,
    costs: Costs,
    extra: StepCosts,
    interval_steps: int | None = None,
) -> Prediction:
    """Predict a job under a scheme.

    A life spends P(k) tau_k seconds with k groups down (`wipe_out`, `lifetimes`). A step there
    takes D_k: the slowest group's S_k stacks, the all-reduce, its share of a checkpoint, and with
    lambda_k failures in it (Poisson) a failed all-reduce with probability 1 - exp(-lambda_k) and a
    patch compute with probability 1 - exp(-lambda_k rho_k): failures of one step are repaired at
    once. Failures in the patch compute make another one, and so on. Steps are counted by
    P(k) tau_k / D_k: a mean over steps weighs the fast steps of an undamaged job more than a mean
    over time, and late failures, which come slower, more than a mean over failures. A life that
    starts with groups down (`lifetimes.failed_at_start`) has one more step, which finds them.

    A checkpoint every n steps keeps n floor(steps / n) steps of a life; the probability that a life
    has that many is taken at a uniform pace.

    Parameters
    ----------
    course : FailureCourse
        The scheme with N groups and redundancy r.
    lifetimes : GroupLifetimes
        The groups' failures; `costs.mtbf_s` is not used.
    costs : Costs
        Saving, restart (effective, for the whole job), compute and all-reduce times, in seconds.
    extra : StepCosts
        What else a step takes.
    interval_steps : int, optional
        Checkpoint interval in steps; by default the nearest to the best fixed period of the lives.
    """
    law = course.law
    life = lifetimes.life(law)
    time_s = life.mean_s
    if interval_steps is None:
        bare = _steps_of_a_life(course, lifetimes, costs, extra, 0.0)
        if bare.played < _NEVER:
            return _endless(law, time_s, costs.restart_s, 1)
        bare_step_s = time_s / bare.played
        period_s = best_period_of_lives_s(life, costs.save_s, costs.save_s + bare_step_s)
        interval_steps = max(1, round((period_s - costs.save_s) / bare_step_s))
    steps = _steps_of_a_life(course, lifetimes, costs, extra, costs.save_s / interval_steps)
    if steps.played < _NEVER:
        return _endless(law, time_s, costs.restart_s, interval_steps)
    step_s = time_s / steps.played
    life_s = time_s + step_s / 2.0
    checkpoints = kept_periods(life, interval_steps * step_s)
    kept = interval_steps * checkpoints - extra.restart_loses_steps * min(1.0, checkpoints)
    nominal_s = costs.compute_s + costs.all_reduce_s
    ideal_s = kept * (nominal_s if extra.undisturbed_s is None else extra.undisturbed_s)
    return Prediction(
        mean_failures=law.mean_failures,
        time_to_wipe_out_s=time_s,
        steps_per_life=steps.played,
        step_s=step_s,
        stacks_per_step=steps.stacks * course.stack_size / steps.played,
        patch_per_step=steps.patch * course.stack_size / steps.played,
        interval_steps=interval_steps,
        kept_steps_per_life=kept,
        availability=life_s / (life_s + costs.restart_s),
        time_to_train_ratio=(life_s + costs.restart_s) / ideal_s if ideal_s else inf,
    )


def _endless(law: WipeOutLaw, time_s: float, restart_s: float, interval_steps: int) -> Prediction:
    """Return what comes of a job whose failures let no step end."""
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
    played: float
    stacks: float
    patch: float


def _steps_of_a_life(
    course: FailureCourse,
    lifetimes: GroupLifetimes,
    costs: Costs,
    extra: StepCosts,
    save_s: float,
) -> _Steps:
    law, groups, at_start = course.law, course.law.groups, lifetimes.failed_at_start
    failed = np.arange(groups)
    holding_s, stacks = lifetimes.holding_times_s, course.stacks
    reached = bdtr(failed, groups, at_start) if at_start > 0.0 else np.ones(groups)
    a_second = np.divide(reached, holding_s, out=np.zeros(groups), where=holding_s > 0.0)
    patch = np.append(course.patch[1:], 0.0)
    stack_s = costs.compute_s * course.stack_size
    slowest = extra.jitter * _slowest_of_survivors(groups)
    # A stack of several shard types is one batch with one factor; stacks have a factor each.
    step_s = stack_s * (stacks + np.sqrt(stacks) * slowest) + costs.all_reduce_s + save_s
    patch_s = stack_s * (1.0 + slowest) + extra.failed_all_reduce_s
    found = -np.expm1(-a_second * step_s)
    # Where failures come sooner than a patch computes, a step never ends.
    with np.errstate(divide="ignore"):
        patched = -np.expm1(-a_second * step_s * patch) / np.exp(-a_second * patch_s * patch)
    untouched = np.maximum(found - patched, 0.0)
    step_s = step_s + patched * patch_s
    step_s += untouched * (extra.failed_all_reduce_s - extra.spared_all_reduce_s)
    played = law.outliving * holding_s / step_s
    patched[played == 0.0] = 0.0
    first = 1.0 if at_start > 0.0 else 0.0
    lives_on = float(law.reliability(np.array([at_start]))[0])
    return _Steps(
        float(played.sum()) + first,
        float(played @ stacks) + first * float(stacks[0]),
        float(played @ patched) + first * lives_on * float(patch[0]),
    )


@lru_cache(maxsize=16)
def _slowest_of_survivors(groups: int) -> FloatArray:
    """Return the mean of the largest of N - k standard normal variates, for k = 0 to N - 1."""
    return largest_of_normals(np.arange(groups, 0, -1))


def largest_of_normals(numbers: ArrayLike, least: float = -9.0) -> FloatArray:
    """Return the mean of the largest of n standard normal variates, for each n of `numbers`.

    Variates below `least` count as that: it and the integral of ``1 - Phi(x)^n`` from there on.
    """
    x = np.linspace(max(least, -9.0), 9.0, 1801)
    log_below = np.log(np.maximum(ndtr(x), 1e-300))
    powers = np.exp(np.asarray(numbers, dtype=float)[:, None] * log_below)
    above = 1.0 - powers
    # By the trapezoidal rule, which numpy 1 and 2 call by different names.
    area = (above.sum(axis=1) - (above[:, 0] + above[:, -1]) / 2.0) * (x[1] - x[0])
    return np.asarray(x[0] + area)
