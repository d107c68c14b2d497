"""What is trained: cells of a model, a loss, a fault rate and a seed, each by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from faultline.experiments.studies.mecefo.setting import GROUPS, STAGES
from faultline.experiments.studies.mecefo_convergence import task_maps
from faultline.strategies.base import StepPlan, Task
from faultline.strategies.takeover.stage_work import LowRank, Techniques

STEADY = "steady"
"""No failures of the loop's: so many of the four pipelines work with half of their nodes, always.

With one of them, the same few GPUs stand for each other all the time; the share that is
approximate is larger than failures make it.
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """A training.

    Attributes
    ----------
    loss : str
        What becomes of failed GPUs (`task_maps.LOSSES`), or "steady".
    rate : str
        How often they fail (`task_maps.RATES`); for "steady" the pipelines that work with half of
        their nodes.
    seed : int
        Of the failures, the first weights and the order of the text.
    steps, sequences_per_rank : int
        Steps, and sequences a rank.
    small : bool
        Whether the model is the small one or the tiny one.
    """

    loss: str
    rate: str
    seed: int
    steps: int
    small: bool
    sequences_per_rank: int = 2


def plans_of(cell: Cell) -> tuple[list[StepPlan], int]:
    """Return the plan of each step, and how many failures there were."""
    if cell.loss != STEADY:
        return task_maps.plans(cell.loss, cell.rate, cell.steps, cell.seed)
    tasks = [
        Task(group, stage, stage // 2 * 2)
        for group in range(int(cell.rate))
        for stage in range(STAGES)
    ]
    return [StepPlan(tuple(range(GROUPS)), 1, approximate=tuple(tasks), stages=STAGES)] * (
        cell.steps
    ), 0


def trained(cell: Cell) -> dict[str, Any]:
    """Train a cell; returns its curve as lists, and its number of failures."""
    from faultline.experiments.studies.mecefo_convergence.language_model import SMALL, TINY
    from faultline.experiments.studies.mecefo_convergence.training import Settings, train

    shape = SMALL if cell.small else TINY
    refresh = max(1, round(task_maps.REFRESH_SHARE * cell.steps))
    # Recomputation changes no gradient, and takes time: it is left out.
    techniques = Techniques(True, False, LowRank(shape.hidden // 4, refresh))
    settings = Settings(shape, GROUPS, cell.sequences_per_rank, cell.steps, techniques)
    plans, failures = plans_of(cell)
    course = train(settings, plans, cell.seed)
    return {
        "failures": failures,
        "steps": course.steps,
        "samples": course.samples,
        "held_out": course.held_out,
        "approximate": course.approximate,
        "missing": course.missing,
    }
