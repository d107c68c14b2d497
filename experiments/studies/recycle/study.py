"""ReCycle (Gandhi et al. 2024, SOSP, arXiv 2405.14009) compared with Oobleck and Bamboo.

Step times by number of failed nodes, from schedules alone; and runs of MeCeFO's 7B job whose nodes
fail and return, with recoveries. The published results are at most 1.46 times Oobleck's throughput
and 1.64 times Bamboo's. Their models, pipelines and failures are unknown. So the settings are our
own, and the greatest ratio among them is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import ceil
from typing import ClassVar

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.figures.palette import title_of
from faultline.experiments.job.workload import workload_of
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.base import Results, Study
from faultline.experiments.studies.stage import Stage
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Hit
from faultline.strategies.plugins.registry import build_strategy, strategy_class

SETTINGS = {
    "4 pipelines of 8, 8 micro-batches": (4, 8, 8),
    "8 pipelines of 4, 16 micro-batches": (8, 4, 16),
    "8 pipelines of 8, 32 micro-batches": (8, 8, 32),
    "16 pipelines of 16, 64 micro-batches": (16, 16, 64),
}
"""Pipelines D, stages p, micro-batches m per pipeline: ours; the first is MeCeFO's."""

LAYERS, LEAST_STAGES_SHARE = 32, 0.5
DOWN = (0.03125, 0.0625, 0.09375)
"""Shares of failed nodes."""

PUBLISHED = {"oobleck": 1.46, "bamboo": 1.64}
"""Upper bound of ReCycle's throughput relative to another system's."""

PAPER: dict[str, object] = {"schedule": "split-and-staggered"}
"""The paper's own comparison: an undisturbed step excludes resources of re-routed micro-batches."""
VARIANTS: dict[str, dict[str, object]] = {
    "ReCycle": PAPER,
    "no stagger": {"schedule": "split"},
    "re-routing": {},
    "no swaps": {**PAPER, "role_swaps": False},
}
SYSTEMS = ("recycle", "oobleck", "bamboo")
MTBF_S = {"2 h": 7200.0, "1 h": 3600.0, "30 min": 1800.0, "10 min": 600.0}
_REPAIR_S = 7200.0
_HOURS = 20.0


def bamboo_price(stages: int, micro_batches: int) -> float:
    """Return the share of a step for Bamboo's second forward passes, beyond its bubbles.

    They are a third of the work of m micro-batches; of ``m + p - 1`` slots p - 1 are free.
    """
    over = max(0.0, micro_batches / 3 - (stages - 1))
    return over / (micro_batches + stages - 1)


def pace_of(
    scheme: str, setting: tuple[int, int, int], down: int, **choices: object
) -> float | None:
    """Return the time of a step with `down` failed nodes over that with none; None if impossible.

    They fail one after the other, round robin over the pipelines, at stages three apart.
    """
    pipelines, stages, micro_batches = setting
    shape = JobShape(
        stages=stages,
        micro_batches=micro_batches,
        layers=LAYERS,
        least_stages=ceil(LEAST_STAGES_SHARE * stages),
    )
    options = strategy_class(scheme).Options.model_validate(choices)
    strategy = build_strategy(scheme, pipelines, 1, options, shape)
    for number in range(down):
        group, node = number % pipelines, (number // pipelines + 3 * number) % stages
        strategy.on_hit(Hit(group, node, node, stages))
        strategy.on_failures([group])
    plan = strategy.plan()
    return plan.pace if plan.members else None


def step_table() -> pd.DataFrame:
    """Return the time of a step, over an undisturbed one, by setting, failed nodes and scheme."""
    ways = [(label, "recycle", options) for label, options in VARIANTS.items()]
    ways += [(title_of(name), name, {}) for name in ("oobleck", "bamboo")]
    rows = []
    for (name, setting), share in product(SETTINGS.items(), DOWN):
        pipelines, stages, micro_batches = setting
        down = round(share * pipelines * stages)
        lost = ceil(down / stages)
        bound = max(
            1.0,
            micro_batches * pipelines / (pipelines - lost) / (micro_batches + stages - 1),
        )
        rows.append((name, down, "bound", "bound", bound))
        for label, scheme, options in ways:
            price = bamboo_price(stages, micro_batches) if scheme == "bamboo" else 0.0
            pace = pace_of(scheme, setting, down, **options)
            rows.append((name, down, scheme, label, (pace or float("nan")) * (1.0 + price)))
    return pd.DataFrame(rows, columns=["setting", "down", "scheme", "way", "step"])


def run_points(hours: float, seeds: int) -> Iterator[Point]:
    """Yield each system on MeCeFO's 7B job; undisturbed steps of all are equally long."""
    for (name, mtbf_s), system in product(MTBF_S.items(), SYSTEMS):
        sound = load_scenario("mecefo-7b")
        price = bamboo_price(8, 8) if system == "bamboo" else 0.0
        changes = {
            "strategy.name": system,
            "job.steps": 1_000_000_000,
            "job.time_limit_s": hours * 3600.0,
            "times.compute_s": workload_of(sound).compute_s * (1.0 + price),
            "failures.mtbf_s": mtbf_s,
            "rejoin.repair_s": _REPAIR_S,
        }
        if system == "recycle":
            changes |= {f"strategy.recycle.{name}": choice for name, choice in PAPER.items()}
        scenario = load_scenario("mecefo-7b", changes)
        for seed in range(seeds):
            yield Point(scenario, seed, labels=(("system", system), ("every", name)))


def ratios_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return ReCycle's steps over the others', for each seed."""
    index = ["every", "seed"]
    done = runs.pivot_table("completed_steps", index, "system", sort=False)
    found = [
        pd.DataFrame({"other": other, "ratio": done.recycle / done[other]}).reset_index()
        for other in PUBLISHED
    ]
    return pd.concat(found, ignore_index=True)


def greatest_table(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the greatest ratio by which ReCycle is faster, over settings and failed nodes."""
    by = steps.pivot_table(index=["setting", "down"], columns="way", values="step")
    return pd.DataFrame(
        {"over": title, "ratio": (by[title] / by["ReCycle"]).max(), "published": published}
        for other, published in PUBLISHED.items()
        for title in [title_of(other)]
    )


def slowdown_table(steps: pd.DataFrame) -> pd.DataFrame:
    """Return ReCycle's greatest slowdown over all settings, by the share of failed nodes.

    The published slowdowns by failures were unavailable, so these are predictions.
    """
    mine = steps[steps.way == "ReCycle"]
    rows = []
    for share in DOWN:
        numbers = {round(share * pipelines * stages) for pipelines, stages, _ in SETTINGS.values()}
        rows.append((100 * share, mine[mine.down.isin(numbers)].step.max() - 1.0))
    return pd.DataFrame(rows, columns=["percent_down", "slowdown"])


class RecycleStudy(Study):
    """Step times by failed nodes, and runs with recoveries."""

    headline_title = "ReCycle's throughput over another's, at most"
    headline_rows: ClassVar = {
        "over Oobleck": ("throughput over another's", "*", "*over Oobleck"),
        "over Bamboo": ("throughput over another's", "*", "*over Bamboo"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Compute the schedules of steps, and simulate the runs."""
        runs = stage.runs("runs", run_points(stage.pick(_HOURS, 5 * _HOURS), stage.seeds))
        steps = step_table()
        return {
            "steps": steps,
            "runs": runs,
            "ratios": ratios_of(runs),
            "greatest": greatest_table(steps),
            "slowdowns": slowdown_table(steps),
        }
