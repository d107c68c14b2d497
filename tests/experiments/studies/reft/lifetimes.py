"""Random lifetimes of nodes: the oracle of the closed form, and what the recorded sample holds.

``python -m tests.experiments.studies.reft.lifetimes FOLDER`` draws the study's sample
(``lifetimes.csv`` of its data) anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from faultline.experiments.studies.reft.failures import (
    GROUP,
    LOSS,
    NODES,
    SCALE,
    SHAPE,
    TOLERATED,
)
from numpy.typing import NDArray
from scipy.stats import binom

TRIALS = 40_000

_STREAM = (0x4D454D, 3, 0)
"""Part of what a seed means; it never changes."""

_NUMBERS_AT_ONCE = 2_000_000


def drawn_time(
    tolerated: int,
    trials: int,
    seed: int,
    *,
    probability: float = LOSS,
    nodes: int = NODES,
    group: int = GROUP,
) -> tuple[float, float, float]:
    """Return the time until which state in memory is lost with a probability, from random lives.

    Nodes live for Weibull times, independent of each other; a group is gone with its
    ``tolerated + 1``-th loss, and the state with the first group. All nodes are given lifetimes
    `trials` times. The quantile of the times of loss is returned with the ends of its 95 %
    interval, in the unit of `SCALE`; that is of the order statistics: exact, whatever the
    distribution.
    """
    below = int(binom.ppf(0.025, trials, probability))
    above = int(binom.ppf(0.975, trials, probability)) + 1
    hazards = np.sort(_hazards_at_loss(nodes, group, tolerated, trials, seed))
    # A Weibull time is a power of an exponential one, so ranks may be taken before.
    low, middle, high = (
        SCALE * float(hazard) ** (1.0 / SHAPE)
        for hazard in (hazards[below - 1], np.quantile(hazards, probability), hazards[above - 1])
    )
    return middle, low, high


def _hazards_at_loss(
    nodes: int, group: int, tolerated: int, trials: int, seed: int
) -> NDArray[np.float64]:
    """Return (t / SCALE)^SHAPE at the loss, a value a trial."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_STREAM))
    at_once = max(1, _NUMBERS_AT_ONCE // nodes)
    found = []
    for done in range(0, trials, at_once):
        chunk = min(at_once, trials - done)
        lives = rng.standard_exponential((chunk, nodes // group, group))
        ends = np.partition(lives, tolerated, axis=2)[:, :, tolerated]
        found.append(ends.min(axis=1))
    return np.concatenate(found)


def main(path: Path) -> None:
    """Write the study's sample."""
    drawn = {tolerated: drawn_time(tolerated, TRIALS, seed=0) for tolerated in TOLERATED}
    columns = ["tolerated", "simulated", "low", "high"]
    table = pd.DataFrame([(key, *values) for key, values in drawn.items()], columns=columns)
    about = f"# Drawn by tests/experiments/studies/reft/lifetimes.py: {TRIALS:,} trials, seed 0."
    path.write_text(f"{about}\n{table.to_csv(index=False)}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "lifetimes.csv")
