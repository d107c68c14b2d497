"""Emulators of the candidates on a map, and the choice in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, nan, sqrt

import numpy as np
import pandas as pd
from faultline.experiments.analysis.design import Design, Floats, SimulatedCosts
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.config.errors import UserError
from faultline.experiments.studies.head_to_head.cell_runs import HOPELESS, Row
from faultline.experiments.studies.head_to_head.maps import (
    IDLE_POWER,
    LEAST_FIT,
    METRICS,
    PLAIN,
    SIDE,
    WORTH_INPUT,
    SampledMap,
)
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.neighbors import KNeighborsClassifier

_LEAST_SAMPLES = 16
_OTHERS = 64  # Samples of the priors per cell.
_NEIGHBOURS = 3
_EMULATED = tuple(metric for metric in METRICS if metric != "gpu_ratio")


def filled_map(simulated: tuple[SampledMap, pd.DataFrame]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the choice in each cell of a map, and a row per emulator with its error.

    Parameters
    ----------
    simulated : tuple of SampledMap and DataFrame
        A map, and its simulations: a row per candidate and sample.

    Raises
    ------
    UserError
        If no candidate trains.
    """
    sampled_map, rows = simulated
    candidates = emulated(sampled_map, rows)
    if not candidates:
        raise UserError(
            f"--schemes: none of these trains {sampled_map.job} in the memory of its GPUs; name "
            f"others, such as {PLAIN}"
        )
    errors = [
        {"job": sampled_map.job, "map": sampled_map.map.name, "candidate": one.candidate}
        | asdict(one.emulators["ratio"].leave_out()[one.candidate])
        for one in candidates
    ]
    return cells_of(sampled_map, candidates), pd.DataFrame(errors)


@dataclass(frozen=True, slots=True, eq=False)
class Emulated:
    """Emulators of a candidate's costs on a map, over those without failures.

    Attributes
    ----------
    candidate, scheme : str
        Their names.
    emulators : mapping of str to Emulator
        By the metrics of `METRICS` without GPU-hours.
    columns : tuple of int
        Indices of the candidate's inputs in the design.
    fits : KNeighborsClassifier or None
        Whether it fits the memory at quantiles of both axes; None if it always fits.
    spares : ndarray of float
        Coefficients of a polynomial of both axes: GPUs that are paid for over those of the job.
    """

    candidate: str
    scheme: str
    emulators: Mapping[str, Emulator]
    columns: tuple[int, ...]
    fits: KNeighborsClassifier | None
    spares: Floats

    def costs(self, unit: Floats) -> dict[str, Floats]:
        """Return the costs at quantiles of all inputs by metric; infinite where it does not fit.

        Parameters
        ----------
        unit
            Shape (points, inputs).
        """
        own, axes = _linear_on_axes(unit)[:, self.columns], unit[:, :2]
        found = {
            metric: np.exp(emulator.log_times(np.clip(own, *emulator.range))[0])
            for metric, emulator in self.emulators.items()
        }
        found["gpu_ratio"] = found["ratio"] * (_basis(axes) @ self.spares)
        if self.fits is None:
            return found
        fits = self.fits.predict(axes)
        return {metric: np.where(fits, cost, inf) for metric, cost in found.items()}


def emulated(sampled_map: SampledMap, rows: pd.DataFrame) -> list[Emulated]:
    """Return the candidates of a map that fit the memory in at least half of its samples.

    A run that was stopped early counts with `HOPELESS` times the least cost of its sample. Samples
    in which no candidate trains are left out.

    Parameters
    ----------
    sampled_map : SampledMap
        The map.
    rows : DataFrame
        Its simulations: a row per candidate and sample.
    """
    simulated = rows[(rows["absent"] == "") & rows["seed"].isin(_trained(rows))]
    worth = sampled_map.design.values[
        simulated["seed"], sampled_map.design.names.index(WORTH_INPUT)
    ]
    simulated = simulated.assign(**_costs(simulated, worth))
    fitting = simulated[simulated["fits_memory"].astype(bool)]
    for metric in _EMULATED:
        most = HOPELESS * simulated["seed"].map(fitting.groupby("seed")[metric].min())
        simulated[metric] = np.minimum(simulated[metric], most)
    emulators = []
    for name, runs in simulated.groupby("candidate", sort=False):
        ordered = runs.sort_values("seed")
        fits = ordered["fits_memory"].to_numpy(bool)
        if fits.sum() >= max(_LEAST_SAMPLES, LEAST_FIT * len(ordered)):
            emulators.append(_emulated(sampled_map, str(name), ordered, fits))
    return emulators


def _trained(rows: pd.DataFrame) -> list[int]:
    """Return the samples in which some candidate trains."""
    fitting = rows[(rows["absent"] == "") & rows["fits_memory"].eq(True)]
    least = fitting.groupby("seed")["ratio"].min()
    return [int(sample) for sample in least.index[least < inf]]


def _costs(rows: pd.DataFrame, worth: Floats) -> dict[str, pd.Series]:
    """Return costs of runs over those without failures, by metric; infinite if a run never ends."""
    spare = rows["spare_gpus"] / rows["gpus"]
    busy = 1.0 - (1.0 - IDLE_POWER) * (1.0 - rows["availability"]) + rows["raised_power"]
    return {
        "energy_ratio": rows["ratio"] * (busy + IDLE_POWER * spare),
        "loss_ratio": rows["ratio"] * (1.0 - (1.0 - worth) * (1.0 - rows["batch_share"])),
    }


def _emulated(
    sampled_map: SampledMap, name: str, rows: pd.DataFrame, fits: NDArray[np.bool_]
) -> Emulated:
    design, scheme = sampled_map.design, str(rows["scheme"].iloc[0])
    columns = tuple(
        place
        for place, key in enumerate(design.names)
        if key != WORTH_INPUT and (" of " not in key or key.endswith(f" of {scheme}"))
    )
    memory = None
    if not fits.all():
        axes = design.unit[rows["seed"].to_numpy(int), :2]
        memory = KNeighborsClassifier(_NEIGHBOURS).fit(axes, fits)
    rows = rows[fits]
    unit = design.unit[rows["seed"].to_numpy(int)]
    names = tuple(design.names[place] for place in columns)
    own = Design(names, _linear_on_axes(unit)[:, columns], unit[:, columns])
    emulators = {
        metric: Emulator(SimulatedCosts((name,), own, rows[metric].to_numpy(float)[None, :, None]))
        for metric in _EMULATED
    }
    paid = 1.0 + (rows["spare_gpus"] / rows["gpus"]).to_numpy(float)
    spares: Floats = np.linalg.lstsq(_basis(unit[:, :2]), paid, rcond=None)[0]
    return Emulated(name, scheme, emulators, columns, memory, spares)


def _linear_on_axes(unit: Floats) -> Floats:
    """Return quantiles with those of both axes changed: their normal scores are linear in place."""
    changed = unit.copy()
    changed[:, :2] = ndtr(sqrt(12.0) * (unit[:, :2] - 0.5))
    return changed


def _basis(axes: Floats) -> Floats:
    """Return the terms of a cubic polynomial of both axes: shape (points, terms)."""
    x, y = 2.0 * axes.T - 1.0
    return np.column_stack([x**i * y**j for i in range(4) for j in range(4 - i)])


def cells_of(
    sampled_map: SampledMap, candidates: Sequence[Emulated], side: int = SIDE
) -> pd.DataFrame:
    """Return a row per cell, with the choice by each metric.

    Columns: ``job``, ``map``, ``x``, ``y``; for each metric, ``best``, the candidate of the least
    expected cost, and ``probability``, that its scheme has the least cost, over the priors; by
    time, ``cost``, the expected time over that without failures, ``regret``, its expected excess
    over the least time in hindsight, and ``plain_cost``, the cost of the control: checkpoints on
    storage without redundancy.
    """
    shares = (np.arange(side) + 0.5) / side
    others = sampled_map.design.unit[:_OTHERS]
    rows = []
    for y in shares:
        points = np.tile(others, (side, 1))
        points[:, 0], points[:, 1] = shares.repeat(len(others)), y
        costs = {one.candidate: one.costs(points) for one in candidates}
        plain = costs[PLAIN]["ratio"] if PLAIN in costs else np.full(len(points), nan)
        for place, x in enumerate(shares):
            in_cell = slice(place * len(others), (place + 1) * len(others))
            row: Row = {"job": sampled_map.job, "map": sampled_map.map.name}
            row |= {"x": float(sampled_map.map.x.value(x)), "y": float(sampled_map.map.y.value(y))}
            for metric in METRICS:
                of_metric = np.array([cost[metric][in_cell] for cost in costs.values()])
                row |= _choice(metric, of_metric, candidates)
            row["plain_cost"] = float(plain[in_cell].mean())
            rows.append(row)
    return pd.DataFrame(rows)


def _choice(metric: str, costs: Floats, candidates: Sequence[Emulated]) -> Row:
    """Return the choice by a metric from costs of shape (candidates, samples)."""
    expected, least = costs.mean(axis=1), costs.min(axis=0)
    best = int(expected.argmin())
    schemes = np.array([one.scheme for one in candidates])
    is_least = schemes[costs.argmin(axis=0)] == schemes[best]
    row: Row = {
        metric.replace("ratio", "best"): candidates[best].candidate,
        metric.replace("ratio", "probability"): float(is_least.mean()),
    }
    if metric == "ratio":
        regret = float((costs[best] - least).mean())
        row |= {"cost": float(expected[best]), "regret": regret}
    return row
