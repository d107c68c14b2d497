"""What stalls leave of the time of O(100k) GPUs: closed forms beside simulated jobs.

FT-HSDP (arXiv 2602.00277) shortens the stall of a failure from 10 to 3 minutes. At RSC-1's rate
100,000 GPUs fail every 17.7 minutes, so what becomes of a failure during a stall decides the rest:

- each failure costs a stall of its own, one after the other: ``1 - stall / gap``;
- a group that fails during a stall begins its own anew, and all wait for the last one. The stall is
  over with the first gap between failures as long as it: ``exp(-stall / gap)``, the busy period of
  a queue with any number of servers (M/D/inf);
- the stall repairs it in passing: ``1 / (1 + stall / gap)``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.reft.published import EFFECTIVE_TIME, FAILURES_PER_1000_NODE_DAYS

GPUS, NODES = 100_000, 12_500
STALLS_S = tuple(EFFECTIVE_TIME)
TREATMENTS = ("begins-anew", "absorbed")
_STEP_S = 10.0

GAP_S = 86_400.0 * 1000 / (FAILURES_PER_1000_NODE_DAYS * NODES)
"""Mean seconds between failures: 1,063, which is 17.7 minutes."""


def one_after_the_other(stall_s: float) -> float:
    """Return the effective time if each failure costs a stall of its own."""
    return 1.0 - stall_s / GAP_S


def of_treatment(treatment: str, stall_s: float) -> float:
    """Return the effective time in closed form, by what becomes of a failure during a stall."""
    if treatment == "begins-anew":
        return exp(-stall_s / GAP_S)
    return 1.0 / (1.0 + stall_s / GAP_S)


def stall_table(
    steps: int, seeds: int, workers: int | None, on_done: Callable[[], None] | None = None
) -> pd.DataFrame:
    """Simulate both stalls, with failures in them absorbed or begun anew.

    Just-in-time checkpoints and 100 groups of 1,000 GPUs: a failure loses the step under way, of
    10 s, and nothing else.

    Returns
    -------
    DataFrame
        A row a run: ``stall_s``, ``treatment``, ``seed``, ``effective_time`` (useful time over
        all time), ``availability`` (time in which the job was not in a restart), ``lost`` (the
        share of time for steps done twice and for failures to show).
    """
    tasks = [
        Point.of(resolve(load_scenario("spare-sound", _settings(stall_s, treatment, steps))), seed)
        for stall_s in STALLS_S
        for treatment in TREATMENTS
        for seed in range(seeds)
    ]
    rows = []
    for task, run in zip(tasks, play(tasks, workers=workers, on_done=on_done), strict=True):
        restart = task.scenario.restart
        rows.append(
            {
                "stall_s": restart.duration_s,
                "treatment": restart.failure_during,
                "seed": task.seed,
                "effective_time": 1.0 / run["time_to_train_ratio"],
                "availability": run["availability"],
                "lost": (run["repeated_s"] + run["detection_s"]) / run["time_s"],
                "failures": run["failures"],
                "restarts": run["restarts"],
            }
        )
    return pd.DataFrame(rows)


def _settings(stall_s: float, treatment: str, steps: int) -> list[str]:
    return [
        "strategy.name=checkpoint",
        "job.groups=100",
        f"job.gpus={GPUS}",
        f"job.steps={steps}",
        f"job.compute_s={_STEP_S}",
        "job.compute_jitter=0",
        "failures.distribution=exponential",
        f"failures.mtbf_s={GAP_S}",
        "all_reduce.time=stated",
        "all_reduce.time_s=0.1",
        "checkpoint.write=stated",
        "checkpoint.write_s=1",
        f"restart.duration_s={stall_s}",
        f"restart.failure_during={treatment}",
        # What fails anew while others are restarted is either waited for, or repaired in passing.
        f"restart.failure_while_waiting={'surfaces' if treatment == 'begins-anew' else 'absorbed'}",
        "restart.load=included",
        "restart.controller_s=0",
        "protection.name=just-in-time",
        "protection.times=stated",
        "protection.copy_s=1",
        "protection.load_s=1",
        "protection.fetch_s=2",
    ]
