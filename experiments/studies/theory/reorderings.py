"""Lives of SPARe's stacks with the real matching, failure by failure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from faultline.experiments.studies.theory.monte_carlo import Purpose, generator
from faultline.strategies.base import WipeOut
from faultline.strategies.spare import Spare, SpareOptions


def lives(groups: int, redundancy: int, trials: int, seed: int) -> pd.DataFrame:
    """Let groups fail one at a time, in random order, until a wipe-out, `trials` times.

    Returns
    -------
    DataFrame
        A row for each number of failures k that a life outlived: ``failures``, ``lives`` (that
        outlived k), ``stacks`` (mean S after the k-th failure), ``one_stack`` and ``as_needed``
        (mean patch compute of the k-th failure under either option, in types of the busiest
        survivor; NaN at k = 0).
    """
    rng = generator(seed, Purpose.REORDERINGS, groups, redundancy)
    scheme = Spare(groups, redundancy, SpareOptions(patch_compute="as-needed"))
    outlived, stacks, patched, needed = np.zeros((4, groups))
    for _ in range(trials):
        for failures, patch in enumerate(_life(scheme, rng.permutation(groups).tolist())):
            outlived[failures] += 1
            stacks[failures] += patch[0]
            patched[failures] += patch[1] > 0
            needed[failures] += patch[1]
    reached = outlived > 0
    count = outlived[reached]
    table = pd.DataFrame(
        {
            "failures": np.flatnonzero(reached),
            "lives": count.astype(int),
            "stacks": stacks[reached] / count,
            "one_stack": patched[reached] / count,
            "as_needed": needed[reached] / count,
        }
    )
    table.loc[0, ["one_stack", "as_needed"]] = np.nan
    return table


def _life(scheme: Spare, order: Sequence[int]) -> list[tuple[int, int]]:
    """S and the busiest survivor's patch after each failure that was outlived; first without."""
    scheme.restart()
    course = [(scheme.plan().stacks, 0)]
    for group in order:
        verdict = scheme.on_failures([group])
        if isinstance(verdict, WipeOut):
            break
        course.append((scheme.plan().stacks, max(verdict.patch.values(), default=0)))
    return course


def work_per_failure(table: pd.DataFrame, option: str) -> tuple[float, float]:
    """Return mean stacks and mean patch compute over the failures of all lives, in types.

    The patch of the k-th failure goes with the state that it leaves, as in the closed form.
    """
    weights = table.lives / table.lives.sum()
    return float((weights * table.stacks).sum()), float((weights * table[option]).sum())
