"""Who carries what, step by step: the plans of the training loop, as the scheme made them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.studies.mecefo.setting import GROUPS, MODELS, SCENARIOS, STAGES
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import play
from faultline.simulator.timeline import Event, EventKind
from faultline.simulator.training import Training
from faultline.strategies.base import StepPlan

PUBLISHED_STEPS = {"350M": 6_000, "1B": 20_000, "7B": 60_000}
"""Steps of the published runs (MeCeFO, arXiv 2510.16415)."""
REFRESH_SHARE = 100 / PUBLISHED_STEPS["350M"]
"""Share of a run from one refresh of projections to the next: every 100 steps of 6,000, the most
that is published."""

NO_FAULTS = "none"
RATES = (NO_FAULTS, *SCENARIOS)
"""Fault rates: none, and those of the published scenarios by name."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A way to lose part of a batch, or of its gradients' accuracy.

    Attributes
    ----------
    title : str
        What tables call it.
    settings : mapping of str to value
        What its scenario has, by dotted keys.
    """

    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)


# Recoveries cost next to nothing here, and lose nothing: what is asked is who trains.
_FREE = {
    "checkpoint.interval_steps": 1,
    "times.checkpoint_write_s": 1.0,
    "times.restart_s": 1.0,
    "times.take_over_s": 1.0,
    "times.hand_back_s": 1.0,
}
LOSSES = {
    "mecefo": Loss("MeCeFO"),
    "idle": Loss("idle pipelines", {"model.stages_that_fit": 1}),
    "replica-drop": Loss(
        "replica drop",
        {"strategy.name": "replica-drop", "rejoin.when": "at-checkpoint"},
    ),
    "dp-drop": Loss("DP-DROP", {"strategy.name": "dp-drop"}),
    "ntp": Loss("NTP", {"strategy.name": "ntp", "model.pipeline": 1, "model.tensor": 8}),
}
"""What becomes of a failed GPU: approximate gradients, or a smaller batch in four ways."""


def plans(
    loss: str, rate: str, steps: int, seed: int, model: str = "1B"
) -> tuple[list[StepPlan], int]:
    """Return the plan of each step of a run that the loop plays, and how often GPUs were lost.

    The run has the published cluster and as many hours as the model's published run: a run of
    fewer steps has longer ones, and so the same failures, and stages that are taken over for the
    same share of it. Of a step that a restart takes back, the plan by which it was done at last
    counts.

    Parameters
    ----------
    loss : str
        One of `LOSSES`.
    rate : str
        One of `RATES`.
    steps : int
        Steps of training.
    seed : int
        Names the failures: the same for all losses.
    model : str
        Whose run it is.
    """
    hours_s = PUBLISHED_STEPS[model] * MODELS[model].step_s("mecefo")
    never_s = 1e6 * hours_s
    failures = SCENARIOS.get(rate)
    changes: dict[str, Any] = {
        "job.groups": GROUPS,
        "job.gpus": GROUPS * STAGES,
        "job.steps": steps,
        "times.compute_s": hours_s / steps,
        "failures.mtbf_s": failures.mtbf_s if failures else never_s,
        "rejoin.repair_s": failures.repair_s if failures else 0.0,
        **_FREE,
        **LOSSES[loss].settings,
    }
    question = resolve(load_scenario("mecefo-7b", changes))
    job = question.job(seed)
    found: dict[int, StepPlan] = {}
    lost: list[int] = []

    def record(event: Event) -> None:
        if event.kind is EventKind.STEP:
            found[event.step] = training.strategy.plan()
        elif event.kind is EventKind.MISSING and event.step < steps:
            lost.extend(event.groups)

    training = Training(job.work, job.rules, question.strategy(), record)
    play(training, ReplayEngine(job))
    return [found[step] for step in range(1, steps + 1)], len(lost)
