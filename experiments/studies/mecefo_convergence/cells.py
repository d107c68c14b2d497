"""Trainings: the treatment of failed GPUs, the rate of failures, and a seed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.studies.data import settings_of
from faultline.experiments.studies.mecefo.runs import GROUPS, MODELS, SCENARIOS, STAGES
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import simulate
from faultline.simulator.timeline import Event, EventKind
from faultline.simulator.training import Training
from faultline.strategies.base import StepPlan, Task
from faultline.strategies.stage_work import LowRank

_HOURS_S = 20_000 * MODELS["1B"].step_s("mecefo")
"""The published run of 1B has 20,000 steps (MeCeFO, arXiv 2510.16415)."""
_REFRESH_SHARE = 100 / 6_000
"""Share of a run from one refresh of projections to the next: every 100 steps of the 6,000 of 350M,
the most that is published."""

NO_FAULTS = "none"
RATES = (NO_FAULTS, *SCENARIOS)
"""Fault rates: none, and those of the published scenarios by name."""

STEADY = "steady"
"""No failures: some of the four pipelines work with half of their nodes, always.

The same few GPUs then stand in for each other all the time, and a larger share is approximate than
by failures.
"""

LOSSES = ("mecefo", "idle", "replica-drop", "dp-drop", "ntp")
"""Treatments of a failed GPU, parts of ``data/settings.csv``: approximate gradients, or a smaller
batch in four ways."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A training."""

    loss: str  # One of `LOSSES`, or "steady".
    rate: str  # One of `RATES`; for "steady" the pipelines that work with half of their nodes.
    seed: int  # Of the failures, the first weights and the order of the text.
    steps: int
    small: bool  # Whether the model is the small one or the tiny one.


def plans_of(cell: Cell) -> tuple[list[StepPlan], int]:
    """Return the plan of each step of a run, and how many GPUs were lost.

    The loop simulates the published cluster for as many hours as the published run of 1B: a run of
    fewer steps has longer ones, and so the same failures, and stages that are taken over for the
    same share of it. Of a step that a restart takes back, the plan by which it was done at last
    counts. The seed names the failures: the same for all of `LOSSES`.
    """
    if cell.loss == STEADY:
        taken = product(range(int(cell.rate)), range(STAGES))
        tasks = tuple(Task(group, stage, stage // 2 * 2) for group, stage in taken)
        plan = StepPlan(tuple(range(GROUPS)), 1, approximate=tasks, stages=STAGES)
        return [plan] * cell.steps, 0
    failures = SCENARIOS.get(cell.rate)
    changes: dict[str, Any] = {
        "job.groups": GROUPS,
        "job.gpus": GROUPS * STAGES,
        "job.steps": cell.steps,
        "times.compute_s": _HOURS_S / cell.steps,
        "failures.mtbf_s": failures.mtbf_s if failures else 1e6 * _HOURS_S,
        "rejoin.repair_s": failures.repair_s if failures else 0.0,
        **settings_of("mecefo_convergence", "all"),
        **settings_of("mecefo_convergence", cell.loss),
    }
    question = resolve(load_scenario("mecefo-7b", changes))
    job = question.job(cell.seed)
    found: dict[int, StepPlan] = {}
    lost: list[int] = []

    def record(event: Event) -> None:
        if event.kind is EventKind.STEP:
            found[event.step] = training.strategy.plan()
        elif event.kind is EventKind.MISSING and event.step < cell.steps:
            lost.extend(event.groups)

    training = Training(job.work, job.rules, question.strategy(), record)
    simulate(training, ReplayEngine(job))
    return [found[step] for step in range(1, cell.steps + 1)], len(lost)


def trained(cell: Cell) -> list[dict[str, float]]:
    """Train a cell; returns the rows of `training.train`, each with the number of failures."""
    from faultline.experiments.studies.mecefo_convergence.language_model import SMALL, TINY
    from faultline.experiments.studies.mecefo_convergence.training import Settings, train

    shape = SMALL if cell.small else TINY
    refresh = max(1, round(_REFRESH_SHARE * cell.steps))
    settings = Settings(shape, GROUPS, 2, cell.steps, LowRank(shape.hidden // 4, refresh))
    plans, failures = plans_of(cell)
    _, rows = train(settings, plans, cell.seed)
    return [{"failures": failures, **row} for row in rows]
