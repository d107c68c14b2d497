"""Emulators of the candidates on a map, and who is chosen in its cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, nan, sqrt

import numpy as np
import pandas as pd
from faultline.experiments.analysis.design import Design, Floats, SimulatedCosts
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.config.errors import UserError
from faultline.experiments.studies.head_to_head.maps import (
    IDLE_POWER,
    LEAST_FIT,
    METRICS,
    PLAIN,
    SIDE,
    WORTH_INPUT,
    Sheet,
)
from faultline.experiments.studies.head_to_head.matches import HOPELESS, Row
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.neighbors import KNeighborsClassifier

_LEAST_SAMPLES = 16
_OTHERS = 64  # Samples of the priors per cell.
_NEIGHBOURS = 3
_EMULATED = tuple(metric for metric in METRICS if metric != "gpu_ratio")


def filled_map(simulated: tuple[Sheet, pd.DataFrame]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the choice in each cell of a map, by emulators, and a row per emulator with its error.

    A map comes with what was simulated for it: a row per candidate and sample. Without any
    candidate that trains this is a UserError.
    """
    sheet, rows = simulated
    candidates = emulated(sheet, rows)
    if not candidates:
        raise UserError(
            f"--schemes: none of these trains {sheet.job} in the memory of its GPUs; name "
            f"others, such as {PLAIN}"
        )
    errors = [
        {"job": sheet.job, "map": sheet.map.name, "candidate": one.candidate}
        | asdict(one.emulators["ratio"].leave_out()[one.candidate])
        for one in candidates
    ]
    return cells_of(sheet, candidates), pd.DataFrame(errors)


@dataclass(frozen=True, slots=True, eq=False)
class Emulated:
    """A candidate on a map: its costs over those without failures, by emulators.

    Attributes
    ----------
    candidate, scheme : str
        Their names.
    emulators : mapping of str to Emulator
        By the metrics of `METRICS` without GPU-hours.
    columns : tuple of int
        Places of the inputs that it depends on, in the design.
    fits : KNeighborsClassifier or None
        Whether it fits the memory, by quantiles of both axes; None: everywhere.
    spares : ndarray of float
        GPUs that are paid for over those of the job, as a polynomial of both axes.
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
        mine, axes = _evened(unit)[:, self.columns], unit[:, :2]
        found = {
            metric: np.exp(emulator.log_times(np.clip(mine, *emulator.range))[0])
            for metric, emulator in self.emulators.items()
        }
        found["gpu_ratio"] = found["ratio"] * (_basis(axes) @ self.spares)
        if self.fits is None:
            return found
        fits = self.fits.predict(axes)
        return {metric: np.where(fits, cost, inf) for metric, cost in found.items()}


def emulated(sheet: Sheet, rows: pd.DataFrame) -> list[Emulated]:
    """Return the candidates of a map that fit the memory in at least half of its samples.

    A run that was stopped, as another was much sooner, counts with `HOPELESS` times the least cost
    of its sample. Samples in which nobody trains are left out.

    Parameters
    ----------
    sheet : Sheet
        The map.
    rows : DataFrame
        Of its matches: a row per candidate and sample.
    """
    simulated = rows[(rows["absent"] == "") & rows["seed"].isin(_trained(rows))]
    worth = sheet.design.values[simulated["seed"], sheet.design.names.index(WORTH_INPUT)]
    simulated = simulated.assign(**_costs(simulated, worth))
    fitting = simulated[simulated["fits_memory"].astype(bool)]
    for metric in _EMULATED:
        most = HOPELESS * simulated["seed"].map(fitting.groupby("seed")[metric].min())
        simulated[metric] = np.minimum(simulated[metric], most)
    found = []
    for name, of_candidate in simulated.groupby("candidate", sort=False):
        mine = of_candidate.sort_values("seed")
        fits = mine["fits_memory"].to_numpy(bool)
        if fits.sum() >= max(_LEAST_SAMPLES, LEAST_FIT * len(mine)):
            found.append(_emulated(sheet, str(name), mine, fits))
    return found


def _trained(rows: pd.DataFrame) -> list[int]:
    """Return the samples in which some candidate trains."""
    fitting = rows[(rows["absent"] == "") & rows["fits_memory"].eq(True)]
    least = fitting.groupby("seed")["ratio"].min()
    return [int(sample) for sample in least.index[least < inf]]


def _costs(rows: pd.DataFrame, worth: Floats) -> dict[str, pd.Series]:
    """Return costs of runs over those without failures by metric; infinite without an end."""
    spare = rows["spare_gpus"] / rows["gpus"]
    busy = 1.0 - (1.0 - IDLE_POWER) * (1.0 - rows["availability"]) + rows["raised_power"]
    return {
        "energy_ratio": rows["ratio"] * (busy + IDLE_POWER * spare),
        "loss_ratio": rows["ratio"] * (1.0 - (1.0 - worth) * (1.0 - rows["batch_share"])),
    }


def _emulated(sheet: Sheet, name: str, rows: pd.DataFrame, fits: NDArray[np.bool_]) -> Emulated:
    design, scheme = sheet.design, str(rows["scheme"].iloc[0])
    columns = tuple(
        place
        for place, key in enumerate(design.names)
        if key != WORTH_INPUT and (" of " not in key or key.endswith(f" of {scheme}"))
    )
    where = None
    if not fits.all():
        axes = design.unit[rows["seed"].to_numpy(int), :2]
        where = KNeighborsClassifier(_NEIGHBOURS).fit(axes, fits)
    rows = rows[fits]
    unit = design.unit[rows["seed"].to_numpy(int)]
    names = tuple(design.names[place] for place in columns)
    mine = Design(names, _evened(unit)[:, columns], unit[:, columns])
    emulators = {
        metric: Emulator(SimulatedCosts((name,), mine, rows[metric].to_numpy(float)[None, :, None]))
        for metric in _EMULATED
    }
    paid = 1.0 + (rows["spare_gpus"] / rows["gpus"]).to_numpy(float)
    spares: Floats = np.linalg.lstsq(_basis(unit[:, :2]), paid, rcond=None)[0]
    return Emulated(name, scheme, emulators, columns, where, spares)


def _evened(unit: Floats) -> Floats:
    """Return quantiles whose normal scores are in proportion to the place on the axes."""
    evened = unit.copy()
    evened[:, :2] = ndtr(sqrt(12.0) * (unit[:, :2] - 0.5))
    return evened


def _basis(axes: Floats) -> Floats:
    """Return the terms of a cubic polynomial of both axes: shape (points, terms)."""
    x, y = 2.0 * axes.T - 1.0
    return np.column_stack([x**i * y**j for i in range(4) for j in range(4 - i)])


def cells_of(sheet: Sheet, candidates: Sequence[Emulated], side: int = SIDE) -> pd.DataFrame:
    """Return a row per cell: axes, and for each metric who is chosen, and how sure.

    ``job``, ``map``, ``x``, ``y``, and of each metric: ``best``, the candidate of the least
    expected cost, and the ``probability`` that its scheme has the least cost, over the priors. By
    time: the ``cost``, expected, over that without failures; the ``regret``, its expected excess
    over the least in hindsight; and ``plain_cost``, the control: checkpoints on storage without
    redundancy.
    """
    shares = (np.arange(side) + 0.5) / side
    others = sheet.design.unit[:_OTHERS]
    rows = []
    for y in shares:
        points = np.tile(others, (side, 1))
        points[:, 0], points[:, 1] = shares.repeat(len(others)), y
        costs = {one.candidate: one.costs(points) for one in candidates}
        plain = costs[PLAIN]["ratio"] if PLAIN in costs else np.full(len(points), nan)
        for place, x in enumerate(shares):
            here = slice(place * len(others), (place + 1) * len(others))
            row: Row = {"job": sheet.job, "map": sheet.map.name}
            row |= {"x": float(sheet.map.x.value(x)), "y": float(sheet.map.y.value(y))}
            for metric in METRICS:
                mine = np.array([cost[metric][here] for cost in costs.values()])
                row |= _choice(metric, mine, candidates)
            row["plain_cost"] = float(plain[here].mean())
            rows.append(row)
    return pd.DataFrame(rows)


def _choice(metric: str, costs: Floats, candidates: Sequence[Emulated]) -> Row:
    """Return the choice by a metric from costs of shape (candidates, samples)."""
    expected, least = costs.mean(axis=1), costs.min(axis=0)
    best = int(expected.argmin())
    schemes = np.array([one.scheme for one in candidates])
    likely = schemes[costs.argmin(axis=0)] == schemes[best]
    row: Row = {
        metric.replace("ratio", "best"): candidates[best].candidate,
        metric.replace("ratio", "probability"): float(likely.mean()),
    }
    if metric == "ratio":
        lost = float((costs[best] - least).mean())
        row |= {"cost": float(expected[best]), "regret": lost}
    return row
