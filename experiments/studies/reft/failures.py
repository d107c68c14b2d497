"""Loss of state in memory by failures, and stalls of a whole job: closed forms, and runs.

FT-HSDP (arXiv 2602.00277) shortens the stall of a failure from 10 to 3 minutes. At RSC-1's rate
100,000 GPUs fail every 17.7 minutes, so the treatment of a failure during a stall matters most:

- each failure has a stall of its own, one after the other: ``1 - stall / gap``;
- a group that fails during a stall restarts its own stall, and all wait for the last one. The stall
  ends in the first gap between failures that is as long: ``exp(-stall / gap)``, the busy period of
  a queue with any number of servers (M/D/inf);
- the stall also repairs the new failure: ``1 / (1 + stall / gap)``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import exp, expm1

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.config.tables.phases import SNAPSHOT_TIMES
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.data import settings_of
from faultline.experiments.studies.stage import Stage
from faultline.strategies.protection.node_groups import loss_probability

NODES, GROUP = 1024, 16
SCALE, SHAPE = 50.0, 3.0
"""Distribution of a node's failure time: F(t) = 1 - exp(-(t / 50)^3)."""


def reliability_table() -> pd.DataFrame:
    """Return the times at which state is lost with 10 % probability, by tolerated losses."""
    failed_by = weibull_failed_by(SCALE, SHAPE)
    times = [(n, time_to_loss(0.1, failed_by, NODES, GROUP, n, 100.0)) for n in (0, 1, 2)]
    return pd.DataFrame(times, columns=["tolerated", "exact"])


STALLS_S = (600.0, 180.0)
"""Stalls with a published effective training time on O(100k) GPUs (FT-HSDP)."""

FAILURES_PER_1000_NODE_DAYS = 6.50
"""RSC-1 (Kokolis et al. 2025, arXiv 2410.21680); nodes of eight GPUs."""

GPUS = 100_000
STALL_GAP_S = 86_400.0 * 1000 / (FAILURES_PER_1000_NODE_DAYS * (GPUS // 8))
"""Mean seconds between failures: 1,063, which is 17.7 minutes."""

ALONE = "one after the other"
TREATMENTS = ("begins-anew", "absorbed")


def effective_time(treatment: str, stall_s: float) -> float:
    """Return the effective time in closed form, by the treatment of a failure during a stall."""
    share = stall_s / STALL_GAP_S
    forms = {ALONE: 1.0 - share, "begins-anew": exp(-share), "absorbed": 1.0 / (1.0 + share)}
    return forms[treatment]


def stall_table(stage: Stage, steps: int) -> pd.DataFrame:
    """Simulate both stalls; a failure during one is absorbed or restarts it.

    The job has just-in-time checkpoints and 100 groups of 1,000 GPUs. A row per run, with
    ``simulated`` (useful time over all time) and its closed form ``exact``. Successive stalls have
    only the latter.
    """
    at_once = {f"times.snapshot_{name}": 0.0 for name in SNAPSHOT_TIMES}
    points = []
    for stall_s, treatment in product(STALLS_S, TREATMENTS):
        # The other groups wait for one that fails while they restart, or their restart repairs it.
        waiting = "surfaces" if treatment == "begins-anew" else "absorbed"
        changes = {
            **at_once,
            **settings_of("reft", "stalls"),
            "job.steps": steps,
            "failures.mtbf_s": STALL_GAP_S,
            "times.restart_s": stall_s,
            "restart.failure_during": treatment,
            "restart.failure_while_waiting": waiting,
        }
        resolved = resolve(load_scenario("spare-sound", changes))
        labels = (("stall_s", stall_s), ("treatment", treatment))
        points += [Point.of(resolved, seed, labels) for seed in range(stage.seeds)]
    runs = stage.runs("stalls", points)
    alone = pd.DataFrame({"stall_s": STALLS_S, "treatment": ALONE})
    table = pd.concat([alone, runs.assign(simulated=1.0 / runs.time_to_train_ratio)])
    exact = list(map(effective_time, table.treatment, table.stall_s))
    return table.assign(exact=exact, minutes=table.stall_s / 60)


def time_to_loss(
    probability: float,
    failed_by: Callable[[float], float],
    nodes: int,
    group: int,
    tolerated: int,
    longest: float,
) -> float:
    """Return the time at which the loss probability reaches `probability`.

    `failed_by` is the probability that a node has failed by a time; it defines the unit of time.
    The probability is reached by `longest`.
    """
    from scipy.optimize import brentq

    def excess(time: float) -> float:
        return loss_probability(failed_by(time), nodes, group, tolerated) - probability

    return float(brentq(excess, 0.0, longest, xtol=1e-12 * longest))


def weibull_failed_by(scale: float, shape: float) -> Callable[[float], float]:
    """Return F(t) = 1 - exp(-(t / scale)^shape)."""
    return lambda time: -expm1(-((time / scale) ** shape))
