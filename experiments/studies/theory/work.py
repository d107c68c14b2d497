"""Stacks and patch compute a failure: the real matching beside the closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Call
from faultline.experiments.studies.theory.reorderings import lives, work_per_failure
from faultline.strategies.closed_forms.stacked_work import least_stacks, patch_types
from faultline.strategies.spare import Spare, SpareOptions

PUBLISHED = (*((200, redundancy) for redundancy in range(2, 13)), (600, 8), (1000, 9))
"""(N, r) of SPARe in the published tables."""

_OPTIONS = {
    "one_stack": SpareOptions(patch_compute="one-stack"),
    "as_needed": SpareOptions(patch_compute="as-needed"),
}


def lives_for(groups: int) -> int:
    """Return a number of lives that takes about half a second of matching."""
    return max(50, 100_000 // groups)


def compare_work(
    chosen: list[tuple[int, int]],
    seed: int = 0,
    workers: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> pd.DataFrame:
    """Return a row for each (N, r): mean stacks and patch compute over the failures of many lives.

    Columns ``stacks``, ``one_stack``, ``as_needed`` are simulated with the real matching, in shard
    types; ``closed_stacks``, ``closed_one_stack``, ``closed_as_needed`` are closed forms;
    ``*_error`` are relative. ``work_error`` is that of stacks and patch compute together under
    'one-stack'.
    """
    tasks = [(groups, redundancy, seed) for groups, redundancy in chosen]
    return pd.DataFrame(play(Call.each(_compare, tasks), workers=workers, on_done=on_done))


def _compare(task: tuple[int, int, int]) -> dict[str, Any]:
    groups, redundancy, seed = task
    trials = lives_for(groups)
    table = lives(groups, redundancy, trials, seed)
    row: dict[str, Any] = {"groups": groups, "redundancy": redundancy, "lives": trials}
    for option, choice in _OPTIONS.items():
        course = Spare(groups, redundancy, choice).failure_course()
        row["stacks"], row[option] = work_per_failure(table, option)
        row["closed_stacks"], row[f"closed_{option}"] = course.work_per_failure()
    for name in ("stacks", *_OPTIONS):
        row[f"{name}_error"] = row[f"closed_{name}"] / row[name] - 1
    closed = row["closed_stacks"] + row["closed_one_stack"]
    return {**row, "work_error": closed / (row["stacks"] + row["one_stack"]) - 1}


def patch_by_failure(cell: tuple[int, int]) -> pd.DataFrame:
    """Return rho_k beside Monte Carlo, a row a number of failures k that some lives outlived.

    The columns of `lives`, and ``least_stacks``, ``closed_one_stack``, ``closed_as_needed``.
    """
    groups, redundancy = cell
    # A seed of its own: the mean over all k is measured on other lives.
    table = lives(groups, redundancy, 2 * lives_for(groups), seed=1)
    at = table.failures.to_numpy()
    closed = {
        "least_stacks": least_stacks(groups, redundancy),
        "closed_one_stack": patch_types(groups, redundancy, one_stack=True),
        "closed_as_needed": patch_types(groups, redundancy, one_stack=False),
    }
    return table.assign(**{name: np.asarray(values)[at] for name, values in closed.items()})
