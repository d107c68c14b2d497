"""From failures to time: what the distribution of lifetimes does to the time to a wipe-out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Call
from faultline.experiments.studies.theory.monte_carlo import (
    LAWS,
    Purpose,
    generator,
    times_until_wipe_out_s,
)
from faultline.simulator.failures.distributions import Weibull
from faultline.strategies.checkpoint_period import Costs, best_period_s
from faultline.strategies.closed_forms.lifetimes import GroupLifetimes, Survival, stationary_excess
from faultline.strategies.closed_forms.periods import availability_of_lives, best_period_of_lives_s
from faultline.strategies.closed_forms.wipe_out import FloatArray, plain_mean_failures

SHAPES = (0.5, 0.78, 1.0, 1.5)
AGES = ("new", "old")
CASES = (("spare", 2), ("spare", 3), ("spare", 5), ("spare", 9), ("replication", 2),
         ("replication", 3))  # fmt: skip
GROUPS = 200
STUDY = Costs(mtbf_s=300.0, save_s=58.8, restart_s=3600.0, compute_s=64.0, all_reduce_s=2.0)
"""Costs of Lee et al. 2026 (SPARe) for so many groups, in seconds."""


def compare_times(
    trials: int = 20_000,
    seed: int = 0,
    workers: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> pd.DataFrame:
    """Return the time to a wipe-out by Weibull shape, age of the groups, scheme and r.

    Returns
    -------
    DataFrame
        ``age`` is "new" (all groups are renewed by a restart) or "old" (their clocks run on).
        ``plain_s`` is mu(N, r) m as the paper has it, ``closed_s`` the integral of R(1 - S(t)),
        ``simulated_s`` Monte Carlo with ``standard_error_s``. ``plain_period_s`` is T_c* from
        ``plain_s``, ``best_period_s`` the best fixed period of such lives, ``availability`` and
        ``best_availability`` what a job reaches with either.
    """
    tasks = [
        (shape, age, trials, place, seed)
        for place, (shape, age) in enumerate(product(SHAPES, AGES))
    ]
    blocks = play(Call.each(_compare, tasks), workers=workers, on_done=on_done)
    return pd.DataFrame([row for block in blocks for row in block])


def _compare(task: tuple[float, str, int, int, int]) -> list[dict[str, Any]]:
    shape, age, trials, place, seed = task
    distribution = Weibull.from_mean(shape, STUDY.mtbf_s * GROUPS)
    lifetimes = GroupLifetimes(GROUPS, _survival(distribution, age))
    draw = _lifetimes_s(distribution, age, generator(seed, Purpose.TIMES, GROUPS, place))
    simulated = times_until_wipe_out_s(CASES, GROUPS, trials, draw)
    return [
        {
            "shape": shape,
            "age": age,
            "scheme": scheme,
            "redundancy": redundancy,
            **_life(scheme, redundancy, lifetimes),
            "simulated_s": float(simulated_s.mean()),
            "standard_error_s": float(simulated_s.std(ddof=1) / np.sqrt(trials)),
        }
        for (scheme, redundancy), simulated_s in zip(CASES, simulated, strict=True)
    ]


def _life(scheme: str, redundancy: int, lifetimes: GroupLifetimes) -> dict[str, Any]:
    groups, costs = lifetimes.groups, STUDY
    life = lifetimes.life(LAWS[scheme](groups, redundancy))
    plain_s = plain_mean_failures(groups, redundancy) * costs.mtbf_s
    plain_period_s = best_period_s(costs.save_s, plain_s, costs.restart_s)
    period_s = best_period_of_lives_s(life, costs.save_s, 1.05 * costs.save_s)
    return {
        "plain_s": plain_s,
        "closed_s": life.mean_s,
        "plain_period_s": plain_period_s,
        "best_period_s": period_s,
        "availability": availability_of_lives(life, plain_period_s, costs.save_s, costs.restart_s),
        "best_availability": availability_of_lives(life, period_s, costs.save_s, costs.restart_s),
    }


def _survival(distribution: Weibull, age: str) -> Survival:
    if age == "new":
        return distribution.survival
    return stationary_excess(distribution.survival, distribution.mean_s)


def _lifetimes_s(
    distribution: Weibull, age: str, rng: np.random.Generator
) -> Callable[[tuple[int, int]], FloatArray]:
    """Return a source of times to failure; of old groups, by length-biased sampling.

    The interval that covers an arbitrary moment has a density proportional to its length (for a
    Weibull variate, its k-th power is gamma distributed with shape 1 + 1/k), and the moment lies
    anywhere in it.
    """
    shape, scale_s = distribution.shape, distribution.scale_s

    def new(size: tuple[int, int]) -> FloatArray:
        return scale_s * rng.weibull(shape, size)

    def old(size: tuple[int, int]) -> FloatArray:
        covering_s = scale_s * rng.gamma(1.0 + 1.0 / shape, size=size) ** (1.0 / shape)
        return np.asarray(covering_s * rng.random(size))

    return new if age == "new" else old
