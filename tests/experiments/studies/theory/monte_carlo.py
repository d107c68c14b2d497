"""Random failures until a wipe-out: the oracle of the closed forms, and what recorded samples hold.

Which groups fail, and in which order, is a random permutation, whatever the distribution of their
lifetimes. Each trial draws a time for each group; a type or a replica set is lost at the latest of
its hosts' times, and the job at the earliest loss.

``python -m tests.experiments.studies.theory.monte_carlo FOLDER`` draws the study's samples
(``counts.csv``, ``work.csv`` and ``times.csv`` of its data) anew; it takes a few minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.studies.theory.comparisons import (
    LAWS,
    MTBF_S,
    PATCH_OPTIONS,
    PUBLISHED,
    TIMES_GROUPS,
)
from faultline.simulator.failures.distributions import Weibull
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import WipeOut
from faultline.strategies.schemes.replication import Replication
from faultline.strategies.schemes.spare.golomb import largest_redundancy, ruler_for
from faultline.strategies.schemes.spare.spare import Spare, SpareOptions
from faultline.strategies.theory.stacked_types import least_stacks
from faultline.strategies.theory.wipe_out import FloatArray, WipeOutLaw
from numpy.typing import NDArray

STANDARD_ERROR = 0.0018
"""Relative standard error that the number of trials is chosen for: below 0.2 %."""
GROUPS = (50, 100, 200, 600, 1000, 10_000)
SHAPES = (0.5, 0.78, 1.0, 1.5)
AGES = ("new", "old")
CASES = (("spare", 2), ("spare", 3), ("spare", 5), ("spare", 9), ("replication", 2),
         ("replication", 3))  # fmt: skip
TRIALS_OF_TIMES = 20_000
_NUMBERS_AT_ONCE = 2_000_000

Times = NDArray[Any]
Cell = tuple[str, int, int]


class Purpose(IntEnum):
    """What a stream of random numbers is for; part of what a seed means."""

    COUNTS = 1
    TIMES = 2
    LIVES = 3


def generator(seed: int, purpose: Purpose, groups: int, index: int) -> np.random.Generator:
    """Return the random numbers of one cell, the `index`-th for N; they depend on nothing else."""
    key = (int(purpose), groups, index)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def cells() -> list[Cell]:
    """Return (scheme, N, r): all r that have a ruler; 2 to 12 for replication, up to 1000."""
    found: list[Cell] = []
    for n in GROUPS[:-1]:
        found += [("replication", n, r) for r in Replication.redundancies(n, Replication.Options())]
    for n in GROUPS:
        found += [("spare", n, r) for r in range(2, largest_redundancy(n) + 1)]
    return found


def sampled_count(cell: Cell, standard_error: float, seed: int) -> dict[str, Any]:
    """Return the mean number of failures up to and with the wipe-out, and of SPARe the work.

    ``least_work`` is the mean of c(k) = ceil(N / (N - k)) over all failures, in stacks.
    """
    scheme, groups, redundancy = cell
    trials = trials_for(LAWS[scheme](groups, redundancy), standard_error)
    rng = generator(seed, Purpose.COUNTS, groups, redundancy)
    counts = failures_until_wipe_out(scheme, groups, redundancy, trials, rng)
    row = {
        "scheme": scheme,
        "groups": groups,
        "redundancy": redundancy,
        "trials": trials,
        "simulated": float(counts.mean()),
        "standard_error": float(counts.std(ddof=1) / np.sqrt(trials)),
    }
    if scheme == "replication":
        return row
    work = np.append(0.0, np.cumsum(least_stacks(groups, redundancy)))[counts]
    return {**row, "least_work": float(work.sum() / counts.sum())}


def lives(groups: int, redundancy: int, trials: int, seed: int) -> pd.DataFrame:
    """Let groups fail one at a time, in random order, until a wipe-out, `trials` times.

    A row per number of failures k that a life outlived: ``failures``, ``lives`` (that outlived k),
    ``stacks`` (mean S after the k-th failure), ``one_stack`` and ``as_needed`` (mean patch compute
    of the k-th failure under either option, in types of the busiest survivor; NaN at k = 0).
    """
    rng = generator(seed, Purpose.LIVES, groups, redundancy)
    scheme = Spare(groups, redundancy, SpareOptions(patch_compute="as-needed"), JobShape())
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


def _life(scheme: Spare, order: Sequence[int]) -> Iterator[tuple[int, int]]:
    """S and the busiest survivor's patch after each failure that is outlived; first without."""
    scheme.restart()
    yield scheme.plan().stacks, 0
    for group in order:
        verdict = scheme.on_failures([group])
        if isinstance(verdict, WipeOut):
            return
        yield scheme.plan().stacks, max(verdict.patch.values(), default=0)


def per_failure(table: pd.DataFrame, column: str) -> float:
    """Return the mean of a column of `lives` over the failures of all lives.

    The patch of the k-th failure goes with the state that it leaves, as in the closed form.
    """
    return float((table.lives / table.lives.sum() * table[column]).sum())


def sampled_work(groups: int, redundancy: int) -> dict[str, Any]:
    """Return the mean patch compute of a failure with the real matching, by option."""
    trials = max(50, 100_000 // groups)
    table = lives(groups, redundancy, trials, seed=0)
    means = {option: per_failure(table, option) for option in PATCH_OPTIONS}
    return {"groups": groups, "redundancy": redundancy, "lives": trials, **means}


def sampled_times(shape: float, age: str, place: int, trials: int) -> list[dict[str, Any]]:
    """Return the mean time to a wipe-out in each case, for a Weibull shape and age of the groups.

    ``age`` is "new" (all groups are renewed by a restart) or "old" (their clocks run on); `place`
    is that of the random numbers.
    """
    distribution = Weibull.from_mean(shape, MTBF_S * TIMES_GROUPS)
    rng = generator(0, Purpose.TIMES, TIMES_GROUPS, place)

    def draw(size: tuple[int, int]) -> FloatArray:
        """Times to failure; of old groups, by length-biased sampling.

        The interval that covers an arbitrary moment has a density proportional to its length (for a
        Weibull variate, its k-th power is gamma distributed with shape 1 + 1/k), and the moment
        lies anywhere in it.
        """
        if age == "new":
            return distribution.scale_s * rng.weibull(shape, size)
        covering_s = distribution.scale_s * rng.gamma(1.0 + 1.0 / shape, size=size) ** (1.0 / shape)
        return np.asarray(covering_s * rng.random(size))

    chunks_s = [draw((chunk, TIMES_GROUPS)) for chunk in _chunks(trials, TIMES_GROUPS)]
    rows = []
    # All cases have the same failures.
    for scheme, redundancy in CASES:
        times_s = np.concatenate([first_loss(scheme, each, redundancy) for each in chunks_s])
        error_s = float(times_s.std(ddof=1) / np.sqrt(trials))
        row = {"shape": shape, "age": age, "scheme": scheme, "redundancy": redundancy}
        rows.append(row | {"simulated_s": float(times_s.mean()), "standard_error_s": error_s})
    return rows


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


def trials_for(law: WipeOutLaw, standard_error: float) -> int:
    """Return the trials that bring the relative standard error of the mean count below a bound.

    The variance of the count is that of P(k): ``E[X^2] = sum of (2k + 1) P(k)``.
    """
    outliving = law.outliving
    mean = float(outliving.sum())
    square = float(((2 * np.arange(law.groups) + 1) * outliving).sum())
    spread = max(0.0, square - mean**2) ** 0.5 / mean
    # The law is an approximation for SPARe: a tenth more trials than it requires.
    return max(1000, int(1.1 * (spread / standard_error) ** 2))


def _chunks(trials: int, groups: int) -> Iterator[int]:
    largest = max(1, _NUMBERS_AT_ONCE // groups)
    while trials > 0:
        yield min(largest, trials)
        trials -= largest


def main(folder: Path) -> None:
    """Write the study's samples."""
    counts = pd.DataFrame(sampled_count(cell, STANDARD_ERROR, 0) for cell in cells())
    _write(folder / "counts.csv", counts, "trials of each cell by its law, seed 0")
    work = pd.DataFrame(sampled_work(*cell) for cell in PUBLISHED)
    _write(folder / "work.csv", work, "lives with the real matching, seed 0")
    cases = list(enumerate(product(SHAPES, AGES)))
    found = [sampled_times(*of, place, TRIALS_OF_TIMES) for place, of in cases]
    times = pd.DataFrame([row for rows in found for row in rows])
    _write(
        folder / "times.csv", times, f"{TRIALS_OF_TIMES:,} trials, {TIMES_GROUPS} groups, seed 0"
    )


def _write(path: Path, table: pd.DataFrame, what: str) -> None:
    about = "# Drawn by tests/experiments/studies/theory/monte_carlo.py"
    path.write_text(f"{about}: {what}.\n{table.to_csv(index=False)}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
