"""The share of a cluster's nodes that are down, and a prediction of it from its past.

Outages come in bursts, and repairs last for weeks. So the prediction draws whole blocks of four
weeks of the past, with replacement (moving blocks: Kuensch 1989, Annals of Statistics 17).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs.fault_records import LoggedOutage
from numpy.typing import NDArray

_HOUR_S = 3600.0
_BLOCK_HOURS = 28 * 24
MEASURES = ("mean", "P50", "P90", "P99", "most")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DownBacktest:
    """Shares of nodes down in the second part of a log, predicted and measured."""

    # Lengths of the parts.
    first_days: float
    second_days: float
    predicted: Floats  # Values of `MEASURES` by run: shape (runs, measures).
    measured: Floats  # Measured values of the second part.
    ahead: Floats  # Predictions, by run, for a time after the whole log and as long as the log.


def down_share(outages: Sequence[LoggedOutage], span_s: float, nodes: int) -> Floats:
    """Return the share of nodes that are down at each full hour before the end of a log.

    Outages of one node do not overlap.
    """
    hours = int(span_s // _HOUR_S)
    change = np.zeros(hours + 2)
    for one in outages:
        change[int(np.ceil(one.start_s / _HOUR_S))] += 1
        change[min(int(np.ceil(one.end_s / _HOUR_S)), len(change) - 1)] -= 1
    share: Floats = np.cumsum(change)[:hours] / nodes
    return share


def backtest_down(share: Floats, runs: int, seed: int, name: str) -> DownBacktest:
    """Predict the second half of a series of shares from the first.

    It is a UserError if the log is shorter than four blocks.
    """
    if len(share) < 4 * _BLOCK_HOURS:
        raise UserError(
            f"{name}: {len(share) / 24:.0f} days are too few to predict a half from the other; "
            f"take a log of {4 * _BLOCK_HOURS / 24:.0f} days and more"
        )
    half = len(share) // 2
    rng = np.random.default_rng([seed, 0])
    return DownBacktest(
        half / 24,
        (len(share) - half) / 24,
        _predicted(share[:half], len(share) - half, runs, rng),
        _measured(share[half:]),
        _predicted(share, len(share), runs, rng),
    )


def _predicted(share: Floats, hours: int, runs: int, rng: np.random.Generator) -> Floats:
    blocks = -(-hours // _BLOCK_HOURS)
    starts = rng.integers(0, len(share) - _BLOCK_HOURS + 1, (runs, blocks))
    places = (starts[:, :, None] + np.arange(_BLOCK_HOURS)).reshape(runs, -1)[:, :hours]
    return np.array([_measured(share[one]) for one in places])


def _measured(share: Floats) -> Floats:
    quantiles = np.quantile(share, [0.5, 0.9, 0.99, 1.0])
    return np.concatenate([[share.mean()], quantiles])
