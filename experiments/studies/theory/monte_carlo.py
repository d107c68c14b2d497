"""Random failures until a wipe-out: many lives at a time, and lives of SPARe's real matching.

Which groups fail, and in which order, is a random permutation, whatever the distribution of their
lifetimes. Each trial draws a time for each group; a type or a replica set is lost at the latest of
its hosts' times, and the job at the earliest loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import pandas as pd
from faultline.strategies.base import WipeOut
from faultline.strategies.closed_forms.stacked_types import StackedTypes
from faultline.strategies.closed_forms.wipe_out import DisjointSets, FloatArray, WipeOutLaw
from faultline.strategies.golomb import ruler_for
from faultline.strategies.spare import Spare, SpareOptions
from numpy.typing import NDArray

_NUMBERS_AT_ONCE = 2_000_000

Times = NDArray[Any]


class Purpose(IntEnum):
    """What a stream of random numbers is for; part of what a seed means."""

    COUNTS = 1
    TIMES = 2
    REORDERINGS = 3


LAWS: dict[str, type[WipeOutLaw]] = {"spare": StackedTypes, "replication": DisjointSets}


def generator(seed: int, purpose: Purpose, groups: int, index: int) -> np.random.Generator:
    """Return the random numbers of one cell, the `index`-th for N; they depend on nothing else."""
    key = (int(purpose), groups, index)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def first_loss(scheme: str, times: Times, redundancy: int) -> Times:
    """Return when something is lost for good, a value a trial.

    Times have a row a trial and a column a group. SPARe's copies lie by a Golomb ruler, others in
    sets of consecutive groups.
    """
    if scheme == "spare":
        lost = _all_hosts_gone(times, ruler_for(times.shape[1], redundancy))
        return np.asarray(lost.min(axis=1))
    groups = times.shape[1]
    whole = groups - groups % redundancy
    sets = times[:, :whole].reshape(len(times), -1, redundancy).max(axis=2).min(axis=1)
    if whole == groups:
        return np.asarray(sets)
    return np.asarray(np.minimum(sets, times[:, whole:].max(axis=1)))


def _all_hosts_gone(times: Times, offsets: tuple[int, ...]) -> Times:
    """Latest time of the hosts (i - offset) mod N of each type i, as slices of a padded copy."""
    groups, reach = times.shape[1], max(offsets)
    padded = np.concatenate([times[:, groups - reach :], times], axis=1)
    latest = padded[:, reach - offsets[0] : reach - offsets[0] + groups].copy()
    for offset in offsets[1:]:
        np.maximum(latest, padded[:, reach - offset : reach - offset + groups], out=latest)
    return latest


def failures_until_wipe_out(
    scheme: str, groups: int, redundancy: int, trials: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the number of failures up to and with the one that loses something, a value a trial.

    Whole numbers of 32 bits stand for times: two of N groups share one with a probability below
    N^2 / 2^33, and the mean of the count is off by less than N / 2^32 for it.
    """
    counts = []
    for chunk in _chunks(trials, groups):
        times = rng.integers(0, 2**32, size=(chunk, groups), dtype=np.uint32)
        ends = first_loss(scheme, times, redundancy)
        counts.append((times <= ends[:, None]).sum(axis=1))
    return np.concatenate(counts)


def times_until_wipe_out_s(
    cases: Sequence[tuple[str, int]],
    groups: int,
    trials: int,
    lifetimes_s: Callable[[tuple[int, int]], FloatArray],
) -> list[FloatArray]:
    """Return the times until something is lost, in seconds, a value a trial for each case.

    All cases live through the same failures; `lifetimes_s` draws times to failure of the shape it
    is given.
    """
    ends_s: list[list[FloatArray]] = [[] for _ in cases]
    for chunk in _chunks(trials, groups):
        times_s = lifetimes_s((chunk, groups))
        for found, (scheme, redundancy) in zip(ends_s, cases, strict=True):
            found.append(first_loss(scheme, times_s, redundancy))
    return [np.concatenate(found) for found in ends_s]


def trials_for(law: WipeOutLaw, standard_error: float) -> int:
    """Return the trials that bring the relative standard error of the mean count below a bound.

    The variance of the count is that of P(k): ``E[X^2] = sum of (2k + 1) P(k)``.
    """
    outliving = law.outliving
    mean = float(outliving.sum())
    square = float(((2 * np.arange(law.groups) + 1) * outliving).sum())
    spread = max(0.0, square - mean**2) ** 0.5 / mean
    # The law is an approximation for SPARe: a tenth more trials than it asks for.
    return max(1000, int(1.1 * (spread / standard_error) ** 2))


def _chunks(trials: int, groups: int) -> Iterator[int]:
    largest = max(1, _NUMBERS_AT_ONCE // groups)
    while trials > 0:
        yield min(largest, trials)
        trials -= largest


def lives(groups: int, redundancy: int, trials: int, seed: int) -> pd.DataFrame:
    """Let groups fail one at a time, in random order, until a wipe-out, `trials` times.

    A row for each number of failures k that a life outlived: ``failures``, ``lives`` (that outlived
    k), ``stacks`` (mean S after the k-th failure), ``one_stack`` and ``as_needed`` (mean patch
    compute of the k-th failure under either option, in types of the busiest survivor; NaN at
    k = 0).
    """
    rng = generator(seed, Purpose.REORDERINGS, groups, redundancy)
    scheme = Spare(groups, redundancy, SpareOptions(patch_compute="as-needed"))
    sums = np.zeros((groups, 4))
    for _ in range(trials):
        for failures, (stacks, patch) in enumerate(_life(scheme, rng.permutation(groups).tolist())):
            sums[failures] += (1, stacks, patch > 0, patch)
    table = pd.DataFrame(sums, columns=["lives", "stacks", "one_stack", "as_needed"])
    table = table[table.lives > 0].rename_axis("failures").reset_index()
    means = ["stacks", "one_stack", "as_needed"]
    table[means] = table[means].div(table.lives, axis=0)
    table.loc[0, ["one_stack", "as_needed"]] = np.nan
    return table.astype({"lives": int})


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
