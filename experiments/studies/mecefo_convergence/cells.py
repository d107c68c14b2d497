"""What is trained, each by itself: by the loop's plans, and to look at the gradient itself.

A cell is a model, a loss, a fault rate and a seed. Of the approximate gradient it is asked how far
it is off, and how its norm falls with nT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.studies.mecefo.runs import GROUPS, MODELS, SCENARIOS, STAGES
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import play
from faultline.simulator.timeline import Event, EventKind
from faultline.simulator.training import Training
from faultline.strategies.base import StepPlan, Task
from faultline.strategies.stage_work import LowRank, Techniques

PUBLISHED_STEPS = {"350M": 6_000, "1B": 20_000, "7B": 60_000}
"""Steps of the published runs (MeCeFO, arXiv 2510.16415)."""
_REFRESH_SHARE = 100 / PUBLISHED_STEPS["350M"]
"""Share of a run from one refresh of projections to the next: every 100 steps of 6,000, the most
that is published."""

NO_FAULTS = "none"
RATES = (NO_FAULTS, *SCENARIOS)
"""Fault rates: none, and those of the published scenarios by name."""

STEADY = "steady"
"""No failures of the loop's: so many of the four pipelines work with half of their nodes, always.

With one of them, the same few GPUs stand for each other all the time; the share that is
approximate is larger than failures make it.
"""

# Recoveries cost next to nothing here, and lose nothing: what is asked is who trains.
_FREE = {
    "checkpoint.interval_steps": 1,
    "times.checkpoint_write_s": 1.0,
    "times.restart_s": 1.0,
    "times.take_over_s": 1.0,
    "times.hand_back_s": 1.0,
}
LOSSES: Mapping[str, Mapping[str, Any]] = {
    "mecefo": {},
    "idle": {"model.stages_that_fit": 1},
    "replica-drop": {"strategy.name": "replica-drop", "rejoin.when": "at-checkpoint"},
    "dp-drop": {"strategy.name": "dp-drop"},
    "ntp": {"strategy.name": "ntp", "model.pipeline": 1, "model.tensor": 8},
}
"""What becomes of a failed GPU, with the keys of its scenario: approximate gradients, or a smaller
batch in four ways."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A training."""

    loss: str  # What becomes of failed GPUs: one of `LOSSES`, or "steady".
    # How often they fail (`RATES`); for "steady" the pipelines that work with half of their nodes.
    rate: str
    seed: int  # Of the failures, the first weights and the order of the text.
    steps: int
    small: bool  # Whether the model is the small one or the tiny one.


def plans(
    loss: str, rate: str, steps: int, seed: int, model: str = "1B"
) -> tuple[list[StepPlan], int]:
    """Return the plan of each step of a run that the loop plays, and how often GPUs were lost.

    The run has the published cluster and as many hours as the model's published run: a run of
    fewer steps has longer ones, and so the same failures, and stages that are taken over for the
    same share of it. Of a step that a restart takes back, the plan by which it was done at last
    counts.

    The seed names the failures: the same for all of `LOSSES`.
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
        **LOSSES[loss],
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


def plans_of(cell: Cell) -> tuple[list[StepPlan], int]:
    """Return the plan of each step, and how many failures there were."""
    if cell.loss != STEADY:
        return plans(cell.loss, cell.rate, cell.steps, cell.seed)
    taken = product(range(int(cell.rate)), range(STAGES))
    tasks = tuple(Task(group, stage, stage // 2 * 2) for group, stage in taken)
    plan = StepPlan(tuple(range(GROUPS)), 1, approximate=tasks, stages=STAGES)
    return [plan] * cell.steps, 0


def trained(cell: Cell) -> dict[str, Any]:
    """Train a cell; returns its curve as lists, and its number of failures."""
    from faultline.experiments.studies.mecefo_convergence.language_model import SMALL, TINY
    from faultline.experiments.studies.mecefo_convergence.training import Settings, train

    shape = SMALL if cell.small else TINY
    refresh = max(1, round(_REFRESH_SHARE * cell.steps))
    # Recomputation changes no gradient, and takes time: it is left out.
    techniques = Techniques(True, False, LowRank(shape.hidden // 4, refresh))
    settings = Settings(shape, GROUPS, 2, cell.steps, techniques)
    of_steps, failures = plans_of(cell)
    course = train(settings, of_steps, cell.seed)
    told = ("steps", "samples", "held_out", "approximate", "missing")
    return {"failures": failures, **{name: getattr(course, name) for name in told}}


Where = Literal["nowhere", "one rank", "every rank"]
"""On which data-parallel ranks a node does two stages, in every step."""


@dataclass(frozen=True, slots=True)
class NormCell:
    """A training with plain gradient descent; its rate grows with the root of ranks over steps."""

    # n and T.
    ranks: int
    steps: int
    where: Where  # Who is approximate; of every rank another node: each stage is exact somewhere.
    seed: int  # Of weights and text.


_RATE = 0.4
"""Of plain gradient descent; four times as much diverges with 16 ranks in a hundred steps."""


def doubled(ranks: int, where: Where) -> StepPlan:
    """Return a step in which a node of some ranks does two stages."""
    taken = {"nowhere": 0, "one rank": 1, "every rank": ranks}[where]
    firsts = [(rank, 2 * rank % STAGES) for rank in range(taken)]
    tasks = (Task(rank, first + more, first) for rank, first in firsts for more in (0, 1))
    return StepPlan(tuple(range(ranks)), 1, approximate=tuple(tasks), stages=STAGES)


def mean_square_norm(cell: NormCell) -> float:
    """Return the mean over a training of the squared norm of the exact gradient."""
    from faultline.experiments.studies.mecefo_convergence.language_model import TINY
    from faultline.experiments.studies.mecefo_convergence.training import Settings, train

    techniques = Techniques(True, False, LowRank(TINY.hidden // 4, 10))
    settings = Settings(TINY, cell.ranks, 1, cell.steps, techniques, rate=_RATE, optimizer="sgd")
    plan = doubled(cell.ranks, cell.where)
    course = train(settings, [plan] * cell.steps, cell.seed)
    return float(np.mean(course.gradient[1:]))


def slope_of(n_t: Sequence[float], squares: Sequence[float]) -> float:
    """Return the slope of the logarithm of mean squared norms over that of nT."""
    return float(np.polyfit(np.log(n_t), np.log(squares), 1)[0])


def floor_of(n_t: Sequence[float], squares: Sequence[float]) -> float:
    """Return b of the least squares fit ``a / sqrt(nT) + b``."""
    return float(np.polyfit(1.0 / np.sqrt(n_t), squares, 1)[1])


@dataclass(frozen=True, slots=True)
class ErrorCell:
    """Whose gradient is looked at: of the small model or the tiny one, after some steps."""

    seed: int
    steps: int
    small: bool


def gradient_errors(cell: ErrorCell) -> list[dict[str, Any]]:
    """Return relative errors of the gradient when a node of the first rank does two stages.

    A row for the directions' age in steps and how much was kept (``rank_share`` of the width):
    ``one_rank``, the error of the first rank's gradient for one batch, and ``all_ranks``, that of
    the mean over all ranks; each over the norm of the exact one.
    """
    import jax
    from faultline.experiments.studies.mecefo_convergence.language_model import (
        SMALL,
        TINY,
        TakeOver,
        gradients,
    )
    from faultline.experiments.studies.mecefo_convergence.training import (
        Batches,
        Projections,
        Settings,
        take_over_of,
        train,
    )

    shape = SMALL if cell.small else TINY
    exact, over = doubled(GROUPS, "nowhere"), doubled(GROUPS, "one rank")
    ages = {0: cell.steps, cell.steps // 2: cell.steps - cell.steps // 2, cell.steps: 0}
    plain = Settings(shape, GROUPS, 8, cell.steps, Techniques())
    weights = {steps: train(plain, [exact] * steps, cell.seed).weights for steps in ages.values()}
    batches = Batches(plain, cell.seed)
    text, counts = batches.of(cell.steps + 1, exact)
    only = counts * np.eye(GROUPS, dtype=np.float32)[0][:, None]

    def of(weights: Any, text: Any, counts: Any, taken: Any) -> Any:
        take_over = None if taken is None else TakeOver(taken[0], True, taken[1])
        return gradients(weights, text, shape.heads, counts, take_over)[1]

    # Not constants: a compiler would work them out.
    find, rows = partial(jax.jit(of), weights[cell.steps], text), []
    for share in (8, 4, 2):
        techniques = Techniques(True, False, LowRank(shape.hidden // share, 10**9))
        settings = Settings(shape, GROUPS, 8, cell.steps, techniques)
        for age, steps in ages.items():
            directions = Projections(settings).at(0, weights[steps], over)
            take_over = take_over_of(over, settings, directions)
            assert take_over is not None
            taken = (take_over.approximate, take_over.directions)
            errors = {
                name: _error(find(each, taken), find(each, None))
                for name, each in (("one_rank", only), ("all_ranks", counts))
            }
            rows.append({"age_steps": age, "rank_share": 1 / share, **errors})
    return rows


def _error(found: dict[str, Any], exact: dict[str, Any]) -> float:
    """Return the norm of the difference over that of the exact gradient, all weights together."""
    off = sum(float(((found[name] - exact[name]) ** 2).sum()) for name in exact)
    whole = sum(float((exact[name] ** 2).sum()) for name in exact)
    return float(np.sqrt(off / whole))
