"""The approximate gradient itself: how far it is off, and how its norm falls with nT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from faultline.experiments.studies.mecefo.setting import GROUPS, STAGES
from faultline.strategies.base import StepPlan, Task
from faultline.strategies.takeover.stage_work import LowRank, Techniques

Where = Literal["nowhere", "one rank", "every rank"]
"""On which data-parallel ranks a node does two stages, in every step."""


@dataclass(frozen=True, slots=True)
class NormCell:
    """A training with plain gradient descent; its rate grows with the root of ranks over steps.

    Attributes
    ----------
    ranks, steps : int
        n and T.
    where : {"nowhere", "one rank", "every rank"}
        Who is approximate; of every rank another node, so that each stage is exact somewhere.
    seed : int
        Of weights and text.
    """

    ranks: int
    steps: int
    where: Where
    seed: int


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

    Returns
    -------
    list of dict
        A row for the directions' age in steps and how much was kept (``rank_share`` of the width):
        ``one_rank``, the error of the first rank's gradient for one batch, and ``all_ranks``, that
        of the mean over all ranks; each over the norm of the exact one.
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
