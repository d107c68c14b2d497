"""Loss of state in memory by failures, stalls of a whole job, and where restarts find the state.

In closed form beside random lifetimes of nodes, and beside runs.

FT-HSDP (arXiv 2602.00277) shortens the stall of a failure from 10 to 3 minutes. At RSC-1's rate
100,000 GPUs fail every 17.7 minutes, so the treatment of a failure during a stall decides the rest:

- each failure costs a stall of its own, one after the other: ``1 - stall / gap``;
- a group that fails during a stall begins its own anew, and all wait for the last one. The stall is
  over with the first gap between failures as long as it: ``exp(-stall / gap)``, the busy period of
  a queue with any number of servers (M/D/inf);
- the stall repairs it in passing: ``1 / (1 + stall / gap)``.

Where restarts find the state is counted in a small job, so that all three ways occur: 64 servers,
each a replica. Every failure stops the job; a snapshot is whole at the end of every step. What
happens from there until the end of the restart decides. If nothing but software fails, each server
has its own copy; if no more servers a sharding group fail than its code bears, peers rebuild them;
else it comes from storage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from itertools import product
from math import exp, expm1

import pandas as pd
from faultline.experiments.analysis.intervals import interval_of_proportion
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.config.tables.phases import SNAPSHOT_TIMES
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.data import published_value, read_rows, settings_of
from faultline.experiments.studies.stage import Stage
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import simulate
from faultline.simulator.training import Training
from faultline.strategies.in_memory.reliability import (
    loss_probability,
    time_to_loss,
    weibull_failed_by,
)
from faultline.strategies.protection.base import Keeper, Recovery

NODES, GROUP = 1024, 16
SCALE, SHAPE = 50.0, 3.0
"""A node has failed by t with F(t) = 1 - exp(-(t / 50)^3)."""

LOSS, TOLERATED = 0.1, (0, 1, 2)
"""The probability of a loss at the times of the table, and the tolerated losses of a group."""


def loss_by(time: float, tolerated: int) -> float:
    """Return the probability that state is lost until a time, in closed form."""
    return loss_probability(weibull_failed_by(SCALE, SHAPE)(time), NODES, GROUP, tolerated)


def exact_time(tolerated: int) -> float:
    """Return the time until which state is lost with `LOSS`, in closed form."""
    return time_to_loss(LOSS, weibull_failed_by(SCALE, SHAPE), NODES, GROUP, tolerated, 100.0)


def reliability_table() -> pd.DataFrame:
    """Return the times until state is lost with 10 %, in closed form and from recorded lifetimes.

    The latter are those of ``data/lifetimes.csv``, with the ends of a 95 % interval.
    """
    table = pd.DataFrame(read_rows("reft", "lifetimes"))
    return table.assign(exact=table.tolerated.map(exact_time))


STALLS_S = (600.0, 180.0)
"""Stalls whose effective training time on O(100k) GPUs is published (FT-HSDP)."""

FAILURES_PER_1000_NODE_DAYS = 6.50
"""RSC-1 (Kokolis et al. 2025, arXiv 2410.21680); nodes of eight GPUs."""

GPUS = 100_000
STALL_GAP_S = 86_400.0 * 1000 / (FAILURES_PER_1000_NODE_DAYS * (GPUS // 8))
"""Mean seconds between failures: 1,063, which is 17.7 minutes."""

ALONE = "one after the other"
TREATMENTS = ("begins-anew", "absorbed")

SERVERS = 64
GAP_S = 300.0
HARDWARE_SHARE = 0.78
"""Of interruptions (Grattafiori et al. 2024, Llama 3, arXiv 2407.21783)."""

WAYS: tuple[Recovery, ...] = ("local", "peers", "storage")
CASES = tuple((size, restart_s) for size in (4, 16) for restart_s in (60.0, 300.0, 1200.0))
_COMPUTE_S, _ALL_REDUCE_S = 30.0, 2.0


def effective_time(treatment: str, stall_s: float) -> float:
    """Return the effective time in closed form, by the treatment of a failure during a stall."""
    share = stall_s / STALL_GAP_S
    forms = {ALONE: 1.0 - share, "begins-anew": exp(-share), "absorbed": 1.0 / (1.0 + share)}
    return forms[treatment]


def _settings(part: str) -> dict[str, object]:
    at_once = {f"times.snapshot_{name}": 0.0 for name in SNAPSHOT_TIMES}
    return {**at_once, **settings_of("reft", "common"), **settings_of("reft", part)}


def stall_table(stage: Stage, steps: int) -> pd.DataFrame:
    """Simulate both stalls, with failures in them absorbed or begun anew.

    Just-in-time checkpoints and 100 groups of 1,000 GPUs.

    A row per run: ``stall_s``, ``treatment``, ``seed``, ``effective_time`` (useful time over all
    time), ``availability`` (time in which the job was not in a restart), ``lost`` (the share of
    time for steps done twice and for failures to show).
    """
    points = []
    for stall_s, treatment in product(STALLS_S, TREATMENTS):
        # Others wait for a group that fails while they restart, or their restart repairs it.
        waiting = "surfaces" if treatment == "begins-anew" else "absorbed"
        changes = {
            **_settings("stalls"),
            "job.steps": steps,
            "failures.mtbf_s": STALL_GAP_S,
            "times.restart_s": stall_s,
            "restart.failure_during": treatment,
            "restart.failure_while_waiting": waiting,
        }
        question = resolve(load_scenario("spare-sound", changes))
        labels = (("stall_s", stall_s), ("treatment", treatment))
        points += [Point.of(question, seed, labels) for seed in range(stage.seeds)]
    runs = stage.runs("stalls", points)
    table = runs[["stall_s", "treatment", "seed"]].assign(
        effective_time=1.0 / runs.time_to_train_ratio,
        availability=runs.availability,
        lost=(runs.repeated_s + runs.detection_s) / runs.time_s,
    )
    return table.join(runs[["failures", "restarts"]])


def effective_times(table: pd.DataFrame) -> pd.DataFrame:
    """Return effective times by stall, three closed forms and simulated ones, a row per value."""
    found = []
    for stall_s, name in product(STALLS_S, (ALONE, *TREATMENTS)):
        setting = f"100,000 GPUs, stalls of {stall_s / 60:g} min, {name}"
        found.append(("effective time, closed form", setting, effective_time(name, stall_s)))
        mine = table[table.stall_s.eq(stall_s) & table.treatment.eq(name)]
        simulated = mine.effective_time
        found += [("effective time, simulated", setting, value) for value in simulated]
    return pd.DataFrame(found, columns=["quantity", "setting", "value"])


def stall_published(stall_s: float) -> float:
    """Return the published effective time with stalls of some seconds."""
    setting = f"100,000 GPUs, stalls of {stall_s / 60:g} min, {ALONE}"
    return published_value("reft", "effective time, closed form", "checkpoint", setting)


@dataclass(slots=True)
class Counting:
    """A keeper that counts the recoveries that it returned."""

    keeper: Keeper
    found: Counter[Recovery] = field(default_factory=Counter)

    def recovery(self, lost_nodes: Collection[int]) -> Recovery | None:
        """Return the recovery, and count it; a permanently lost state counts as storage."""
        way = self.keeper.recovery(lost_nodes)
        self.found[way or "storage"] += 1
        return way


def closed_form(size: int, restart_s: float) -> dict[Recovery, float]:
    """Return the probability of each way, given that a failure strikes in a step.

    Failures are a Poisson process. A step of length s fails with ``1 - exp(-s / gap)``; then all
    that fails from its begin to the end of the restart, W in all, is repaired at once. With E(t)
    the probability that nothing fails in a time t and everything after it is harmless,
    P(harmless | failure) = (P(harmless in W) - exp(-s / gap) P(harmless in W - s)) /
    (1 - exp(-s / gap)).
    """
    step_s = _COMPUTE_S + _ALL_REDUCE_S
    window_s = step_s + restart_s
    quiet = exp(-step_s / GAP_S)

    def given_failure(harmless: Callable[[float], float]) -> float:
        return (harmless(window_s) - quiet * harmless(window_s - step_s)) / (1.0 - quiet)

    def no_hardware(time_s: float) -> float:
        return exp(-HARDWARE_SHARE * time_s / GAP_S)

    def survived(time_s: float) -> float:
        lost = -expm1(-HARDWARE_SHARE * time_s / GAP_S / SERVERS)
        return 1.0 - loss_probability(lost, SERVERS, size, 1)

    local, kept = given_failure(no_hardware), given_failure(survived)
    return {"local": local, "peers": kept - local, "storage": 1.0 - kept}


def recovery_table(stage: Stage, steps: int) -> pd.DataFrame:
    """Count the ways of recovery, beside their probabilities.

    A row per sharding group, restart and way: ``restarts``, ``counted`` (a share), the ends ``low``
    and ``high`` of its 95 % interval (Wilson), and ``exact``.
    """
    arguments = [(*case, steps, seed) for case in CASES for seed in range(stage.seeds)]
    counted = stage.calls("recoveries", _count, arguments)
    rows = []
    for place, (size, restart_s) in enumerate(CASES):
        count = sum(counted[place * stage.seeds :][: stage.seeds], Counter[Recovery]())
        exact, restarts = closed_form(size, restart_s), count.total()
        for way in WAYS:
            share = count[way] / restarts, *interval_of_proportion(count[way], restarts)
            rows.append((size, restart_s, way, restarts, *share, exact[way]))
    columns = ["sharding_group", "restart_s", "way", "restarts", "counted", "low", "high", "exact"]
    return pd.DataFrame(rows, columns=columns)


def _count(argument: tuple[int, float, int, int]) -> Counter[Recovery]:
    size, restart_s, steps, seed = argument
    changes = {
        **_settings("recoveries"),
        "job.steps": steps,
        "times.compute_s": _COMPUTE_S,
        "times.all_reduce_s": _ALL_REDUCE_S,
        "failures.mtbf_s": GAP_S,
        "failures.hardware_share": HARDWARE_SHARE,
        "times.restart_s": restart_s,
        "protection.reft.sharding_group": size,
    }
    question = resolve(load_scenario("spare-sound", changes))
    job = question.job(seed)
    memory, *others = job.work.tiers
    counting = Counting(memory.keeper)
    work = replace(job.work, tiers=(replace(memory, keeper=counting), *others))
    simulate(Training(work, job.rules, question.strategy()), ReplayEngine(replace(job, work=work)))
    return counting.found
