"""When too many nodes of a group have failed: in closed form, and with random lifetimes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.studies.base import Row, row_of
from faultline.strategies.in_memory.reliability import (
    loss_probability,
    time_to_loss,
    weibull_failed_by,
)
from numpy.typing import NDArray
from scipy.stats import binom

NODES, GROUP = 1024, 16
SCALE, SHAPE = 50.0, 3.0
"""A node has failed by t with F(t) = 1 - exp(-(t / 50)^3)."""

LOSS = 0.1
PUBLISHED_TIMES = {0: 2.34, 1: 7.79, 2: 12.37}
"""Time until state is lost with 10 %, by the tolerated losses of a group (REFT, Wang et al. 2023,
arXiv 2310.12670)."""

_STREAM = (0x4D454D, 3, 0)
"""Part of what a seed means; it never changes."""

_NUMBERS_AT_ONCE = 2_000_000
_QUANTITY = "time to 10 % loss"


def loss_by(time: float, tolerated: int) -> float:
    """Return the probability that state is lost until a time, in closed form."""
    return loss_probability(weibull_failed_by(SCALE, SHAPE)(time), NODES, GROUP, tolerated)


def exact_time(tolerated: int) -> float:
    """Return the time until which state is lost with `LOSS`, in closed form."""
    return time_to_loss(LOSS, weibull_failed_by(SCALE, SHAPE), NODES, GROUP, tolerated, 100.0)


def reliability_rows(trials: int, seed: int) -> Iterator[Row]:
    """Return the times until state is lost with 10 %, in closed form and from random lifetimes."""
    for tolerated, published in PUBLISHED_TIMES.items():
        setting = f"{NODES} nodes in groups of {GROUP}, {tolerated} losses tolerated"
        yield row_of(_QUANTITY, "reft", setting, published, [exact_time(tolerated)], "1")
        drawn = drawn_time(tolerated, trials, seed)
        yield Row(f"{_QUANTITY}, Monte Carlo", "reft", setting, published, *drawn, "1")


def shown_reliability(rows: Sequence[Row]) -> Printed:
    """Show the times to 10 % loss."""
    frame = pd.DataFrame(
        {
            "": row.setting.split(", ")[1] + row.quantity.removeprefix(_QUANTITY),
            "published": row.published,
            "ours": row.simulated,
            "95 %": f"{row.low:.2f} to {row.high:.2f}" if row.high > row.low else "",
        }
        for row in rows
        if row.quantity.startswith(_QUANTITY)
    )
    formats = {"published": "{:.2f}", "ours": "{:.2f}", "95 %": "{}"}
    return Printed("Time until state in memory is lost with 10 %", frame, formats)


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
