"""What curves of training come to: steps to a loss, and what approximation takes of a step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.studies.mecefo_convergence.cells import Cell
from faultline.experiments.studies.mecefo_convergence.task_maps import NO_FAULTS

TARGET_SHARE = 0.5
"""The loss to be reached is that of the run without faults after this share of its steps."""


def curve_table(cells: Sequence[Cell], results: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return all curves, a row an evaluation."""
    curves = [
        pd.DataFrame(result).assign(loss=cell.loss, rate=cell.rate, seed=cell.seed)
        for cell, result in zip(cells, results, strict=True)
    ]
    return pd.concat(curves, ignore_index=True)


def run_table(curves: pd.DataFrame) -> pd.DataFrame:
    """Return what each run comes to beside the one without faults of the same seed.

    Returns
    -------
    DataFrame
        A row a run: ``share``, the share of its gradients that was approximate or missing until it
        reached the loss, ``inflation``, the steps that took over those without faults (missing
        where it did not), ``taken``, 1 - 1 / inflation, ``final_share`` and ``change``: the share
        and the difference of the held-out loss at the end, in nats a byte.
    """
    rows = []
    for _, of_seed in curves.groupby("seed", sort=False):
        exact = of_seed[of_seed.rate == NO_FAULTS]
        last = float(exact.steps.iloc[-1])
        target = float(np.interp(TARGET_SHARE * last, exact.steps, exact.held_out.cummin()))
        for (loss, rate, seed), mine in of_seed.groupby(["loss", "rate", "seed"], sort=False):
            needed = steps_to(target, mine.steps, mine.held_out)
            shares = mine.approximate + mine.missing
            inflation = needed / (TARGET_SHARE * last)
            rows.append(
                {
                    "loss": loss,
                    "rate": rate,
                    "seed": seed,
                    "failures": mine.failures.iloc[0],
                    "share": float(np.interp(needed, mine.steps, shares)),
                    "inflation": inflation,
                    "taken": 1.0 - 1.0 / inflation,
                    "final_share": shares.iloc[-1],
                    "change": mine.held_out.iloc[-1] - exact.held_out.iloc[-1],
                }
            )
    return pd.DataFrame(rows)


def steps_to(target: float, steps: Iterable[float], held_out: Iterable[float]) -> float:
    """Return the steps after which a loss is reached, linear between evaluations; NaN if never."""
    best = np.minimum.accumulate(np.fromiter(held_out, float))
    if best[-1] > target:
        return float("nan")
    # Ascending, as interpolation wants it.
    return float(np.interp(-target, -best, np.fromiter(steps, float)))


def factor_by_seed(runs: pd.DataFrame, value: str, share: str) -> list[float]:
    """Return for each seed the factor of a value in proportion to a share, by least squares."""
    known = runs[runs[share].gt(0) & runs[value].notna()]
    return [
        float((mine[value] * mine[share]).sum() / (mine[share] ** 2).sum())
        for _, mine in known.groupby("seed", sort=False)
    ]
