"""Mean failures until a wipe-out, and the work of a step: Monte Carlo beside the closed forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Call
from faultline.experiments.studies.theory.monte_carlo import (
    LAWS,
    Purpose,
    failures_until_wipe_out,
    generator,
    trials_for,
)
from faultline.strategies.closed_forms.stacked_types import independent_types_mean_failures
from faultline.strategies.closed_forms.stacked_work import least_stacks
from faultline.strategies.closed_forms.wipe_out import plain_mean_failures
from faultline.strategies.golomb import largest_redundancy
from faultline.strategies.registry import build_strategy
from faultline.strategies.replication import Replication

GROUPS = (50, 100, 200, 400, 600, 1000, 2000, 5000, 10_000)
FEWER_GROUPS = (50, 100, 200, 600, 1000, 10_000)
STANDARD_ERROR = 0.0018
"""Relative standard error that the number of trials is chosen for: below 0.2 %."""

Cell = tuple[str, int, int]


def all_cells() -> list[Cell]:
    """Return (scheme, N, r) for all N and all r that have a ruler; 2 to 12 for replication."""
    return [*_spare(GROUPS), *_replication(GROUPS)]


def fewer_cells() -> list[Cell]:
    """As `all_cells` for fewer N, and up to 1000 for replication, whose form is exact."""
    return [*_replication(FEWER_GROUPS[:-1]), *_spare(FEWER_GROUPS)]


def _spare(groups: Sequence[int]) -> Iterator[Cell]:
    for n in groups:
        for redundancy in range(2, largest_redundancy(n) + 1):
            yield "spare", n, redundancy


def _replication(groups: Sequence[int]) -> Iterator[Cell]:
    for n in groups:
        for redundancy in Replication.redundancies(n, Replication.Options()):
            yield "replication", n, redundancy


def compare_counts(
    chosen: list[Cell],
    standard_error: float = STANDARD_ERROR,
    seed: int = 0,
    workers: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> pd.DataFrame:
    """Simulate every cell and put the closed forms beside it.

    Parameters
    ----------
    chosen : list of (scheme, N, r)
        The cells.
    standard_error : float
        Relative standard error of the mean count that is aimed at.
    seed, workers, on_done
        Seed of all cells, worker processes (all cores by default), and what to call after a cell.

    Returns
    -------
    DataFrame
        A row a cell. ``simulated`` is the mean number of failures up to and with the wipe-out,
        ``standard_error`` that of the mean; ``plain`` is mu(N, r) of the paper, ``closed`` the law
        of the scheme, ``independent`` the lower bound with independent types (SPARe only).
        ``least_work`` is the simulated mean of c(k) = ceil(N / (N - k)) over all failures,
        ``least_work_by_life`` the mean over lives of a life's mean, ``plain_work`` and
        ``closed_work`` the closed forms, all in stacks (SPARe only). Columns ``*_error`` are
        relative: closed form / simulated - 1; those of ``plain_error_*`` read mu as an estimate of
        E[X] - 1 (failures outlived), E[X] - 1/2, and E[X].
    """
    tasks = [(cell, standard_error, seed) for cell in chosen]
    rows = pd.DataFrame(play(Call.each(_compare, tasks), workers=workers, on_done=on_done))
    for name, offset in (("outlived", 1.0), ("middle", 0.5), ("fatal", 0.0)):
        rows[f"plain_error_{name}"] = rows.plain / (rows.simulated - offset) - 1
    for form in ("closed", "independent"):
        rows[f"{form}_error"] = rows[form] / rows.simulated - 1
    for form in ("plain", "closed"):
        rows[f"{form}_work_error"] = rows[f"{form}_work"] / rows.least_work - 1
    return rows


def _compare(task: tuple[Cell, float, int]) -> dict[str, Any]:
    (scheme, groups, redundancy), standard_error, seed = task
    law = LAWS[scheme](groups, redundancy)
    trials = trials_for(law, standard_error)
    rng = generator(seed, Purpose.COUNTS, groups, redundancy)
    counts = failures_until_wipe_out(scheme, groups, redundancy, trials, rng)
    row = {
        "scheme": scheme,
        "groups": groups,
        "redundancy": redundancy,
        "trials": trials,
        "simulated": float(counts.mean()),
        "standard_error": float(counts.std(ddof=1) / np.sqrt(trials)),
        "plain": plain_mean_failures(groups, redundancy),
        "closed": law.mean_failures,
    }
    if scheme == "replication":
        return row
    work = np.append(0.0, np.cumsum(least_stacks(groups, redundancy)))[counts]
    mean = float(work.sum() / counts.sum())
    outliving = law.outliving
    return {
        **row,
        "independent": independent_types_mean_failures(groups, redundancy),
        "least_work": mean,
        # Delta method for the ratio of two sums over the same lives.
        "least_work_standard_error": float(
            (work - mean * counts).std(ddof=1) / np.sqrt(trials) / counts.mean()
        ),
        "least_work_by_life": float((work / counts).mean()),
        "plain_work": build_strategy("spare", groups, redundancy).work_per_step(),
        "closed_work": float(outliving @ least_stacks(groups, redundancy) / outliving.sum()),
    }
