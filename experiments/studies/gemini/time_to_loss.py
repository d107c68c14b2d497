"""When too many nodes of a group have failed, with random lifetimes."""

from __future__ import annotations

import numpy as np
from faultline.experiments.config.errors import UserError
from faultline.experiments.studies.gemini.streams import Purpose, stream
from numpy.typing import NDArray

_NUMBERS_AT_ONCE = 2_000_000


def time_to_loss_by_monte_carlo(
    probability: float,
    scale: float,
    shape: float,
    nodes: int,
    group: int,
    tolerated: int,
    trials: int,
    seed: int,
) -> tuple[float, float, float]:
    """Return the time until which state in memory is lost with a probability, from random lives.

    Nodes live for Weibull times, independent of each other; a group is gone with its
    ``tolerated + 1``-th loss, and the state with the first group.

    Parameters
    ----------
    probability : float
        Probability of the loss, between 0 and 1.
    scale, shape : float
        ``F(t) = 1 - exp(-(t / scale)^shape)`` of a node.
    nodes, group, tolerated : int
        Nodes in all, nodes a group, losses that a group survives.
    trials : int
        How often all nodes are given lifetimes.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    estimate, low, high : float
        The quantile of the times of loss, and its 95 % interval, in the unit of `scale`. The
        interval is that of the order statistics: exact, whatever the distribution.

    Raises
    ------
    UserError
        Groups do not divide the nodes, or tolerate all losses; or trials are too few for the
        interval.
    """
    from scipy.stats import binom

    if nodes % group or not 0 <= tolerated < group:
        raise UserError(
            f"{nodes} nodes in groups of {group} that tolerate {tolerated} losses: use a divisor "
            "of the nodes, and fewer losses than a group has nodes"
        )
    below = int(binom.ppf(0.025, trials, probability))
    above = int(binom.ppf(0.975, trials, probability)) + 1
    if below < 1 or above > trials:
        raise UserError(
            f"{trials} trials are too few for the interval at a probability of {probability:g}; "
            "use more"
        )
    hazards = np.sort(_hazards_at_loss(nodes, group, tolerated, trials, seed))
    estimate = np.quantile(hazards, probability)
    # A Weibull time is a power of an exponential one, so ranks may be taken before.
    low, middle, high = (
        scale * float(hazard) ** (1.0 / shape)
        for hazard in (hazards[below - 1], estimate, hazards[above - 1])
    )
    return middle, low, high


def _hazards_at_loss(
    nodes: int, group: int, tolerated: int, trials: int, seed: int
) -> NDArray[np.float64]:
    """Return (t / scale)^shape at the loss, a value a trial."""
    rng = stream(seed, Purpose.LIFETIMES)
    at_once = max(1, _NUMBERS_AT_ONCE // nodes)
    found = []
    for done in range(0, trials, at_once):
        chunk = min(at_once, trials - done)
        lives = rng.standard_exponential((chunk, nodes // group, group))
        ends = np.partition(lives, tolerated, axis=2)[:, :, tolerated]
        found.append(ends.min(axis=1))
    return np.concatenate(found)
