"""Where restarted jobs find their state: counted in simulated runs, and in closed form.

A small job, so that all three ways occur: 64 servers, each a replica. Every failure stops the job;
a snapshot is whole at the end of every step. What happens from there until the end of the restart
decides: nothing but software fails: each server has its own copy; no more servers a sharding group
than its code bears: peers rebuild them; else storage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from math import exp, expm1

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs import player
from faultline.experiments.runs.point import Call
from faultline.experiments.studies.gemini.proportions import proportion_interval
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import play
from faultline.simulator.training import Training
from faultline.strategies.in_memory.reliability import loss_probability
from faultline.strategies.protection.tier import Keeper, Recovery

NODES = 64
GAP_S = 300.0
HARDWARE_SHARE = 0.78
"""Of interruptions (Grattafiori et al. 2024, Llama 3, arXiv 2407.21783)."""

WAYS: tuple[Recovery, ...] = ("local", "peers", "storage")
CASES = tuple((size, restart_s) for size in (4, 16) for restart_s in (60.0, 300.0, 1200.0))
_COMPUTE_S, _ALL_REDUCE_S = 30.0, 2.0


@dataclass(slots=True)
class Counting:
    """A keeper that counts what it answered."""

    keeper: Keeper
    found: Counter[Recovery] = field(default_factory=Counter)

    def recovery(self, lost_nodes: Collection[int]) -> Recovery | None:
        """Answer, and count; what is gone counts as storage."""
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
        lost = -expm1(-HARDWARE_SHARE * time_s / GAP_S / NODES)
        return 1.0 - loss_probability(lost, NODES, size, 1)

    local, kept = given_failure(no_hardware), given_failure(survived)
    return {"local": local, "peers": kept - local, "storage": 1.0 - kept}


def recovery_table(
    steps: int, seeds: int, workers: int | None, on_done: Callable[[], None] | None = None
) -> pd.DataFrame:
    """Count the ways of recovery, beside their probabilities.

    Returns
    -------
    DataFrame
        A row a sharding group, restart and way: ``restarts``, ``counted`` (a share), its 95 %
        interval ``low`` and ``high`` (Wilson), and ``exact``.
    """
    arguments = [
        (size, restart_s, steps, seed) for size, restart_s in CASES for seed in range(seeds)
    ]
    found = player.play(Call.each(_count, arguments), workers=workers, on_done=on_done)
    rows = []
    for size, restart_s in CASES:
        exact = closed_form(size, restart_s)
        mine = sum(
            (
                count
                for count, argument in zip(found, arguments, strict=True)
                if argument[:2] == (size, restart_s)
            ),
            Counter[Recovery](),
        )
        restarts = sum(mine.values())
        for way in WAYS:
            low, high = proportion_interval(mine[way], restarts)
            rows.append(
                {
                    "sharding_group": size,
                    "restart_s": restart_s,
                    "way": way,
                    "restarts": restarts,
                    "counted": mine[way] / restarts,
                    "low": low,
                    "high": high,
                    "exact": exact[way],
                }
            )
    return pd.DataFrame(rows)


def _count(argument: tuple[int, float, int, int]) -> Counter[Recovery]:
    size, restart_s, steps, seed = argument
    question = resolve(load_scenario("spare-sound", _settings(size, restart_s, steps)))
    job = question.job(seed)
    memory, *others = job.work.tiers
    counting = Counting(memory.keeper)
    work = replace(job.work, tiers=(replace(memory, keeper=counting), *others))
    play(Training(work, job.rules, question.strategy()), ReplayEngine(replace(job, work=work)))
    return counting.found


def _settings(size: int, restart_s: float, steps: int) -> list[str]:
    return [
        "strategy.name=checkpoint",
        f"job.groups={NODES}",
        f"job.gpus={8 * NODES}",
        "job.parameter_bytes=1e11",
        f"job.steps={steps}",
        f"job.compute_s={_COMPUTE_S}",
        "job.compute_jitter=0",
        "job.give_up_after_restarts=1000000",
        "failures.distribution=exponential",
        f"failures.mtbf_s={GAP_S}",
        f"failures.hardware_share={HARDWARE_SHARE}",
        "failures.gpus_per_host=8",
        "all_reduce.time=stated",
        f"all_reduce.time_s={_ALL_REDUCE_S}",
        "checkpoint.write=stated",
        # As good as nothing: how much time things take is another question.
        "checkpoint.write_s=1e-6",
        "checkpoint.interval_steps=50",
        f"restart.duration_s={restart_s}",
        "restart.load=included",
        "restart.controller_s=0",
        "protection.name=reft",
        f"protection.reft.sharding_group={size}",
        "protection.interval_steps=1",
        "protection.times=stated",
        "protection.copy_s=0",
        "protection.load_s=0",
        "protection.rebuild_s=0",
    ]
