"""Borders between schemes as closed forms draw them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib import patheffects
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator

FloatArray = NDArray[np.float64]

_FINE = 240


def draw_closed_forms(axes: Axes, table: pd.DataFrame, plane: str) -> bool:
    """Draw where closed forms put the borders between the schemes that have them.

    Returns
    -------
    bool
        Whether there was one.
    """
    mine = table[(table["plane"] == plane) & (table["seeds"] > 0)]
    known = mine.dropna(subset=["closed_form_ratio"])
    best = known.groupby(["scheme", "y", "x"])["closed_form_ratio"].min()
    if best.empty:
        return False
    grids = {
        scheme: best.loc[scheme].unstack("x").reindex(columns=sorted(mine["x"].unique()))
        for scheme in best.index.get_level_values("scheme").unique()
    }
    first = next(iter(grids.values()))
    if min(first.shape) < 2:
        return False
    # Between the cells each form is smooth, and the least of several is not.
    xs, ys, logs = _refined(first, grids)
    drawn = False
    # Each border once: between two schemes, where no third is better.
    for one, other in combinations(logs, 2):
        thirds = [form for name, form in logs.items() if name not in (one, other)]
        lead = logs[one] - logs[other]
        if thirds:
            beaten = np.minimum(logs[one], logs[other]) > np.fmin.reduce(thirds)
            lead = np.ma.masked_where(beaten, lead)
        lead = np.ma.masked_invalid(lead)
        known = np.ma.compressed(lead)
        if known.size and known.min() < 0.0 < known.max():
            effects = [patheffects.withStroke(linewidth=3.0, foreground="white", alpha=0.9)]
            lines = axes.contour(xs, ys, lead, levels=[0.0], colors="#111111", linewidths=1.3)
            lines.set(linestyle="--", path_effects=effects)
            drawn = True
    return drawn


def _refined(
    first: pd.DataFrame, grids: dict[str, pd.DataFrame]
) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
    """Return the logarithms of the forms on a finer grid, linear between the cells.

    Where a form does not hold in a cell, there is a gap around it.
    """
    xs, ys = first.columns.to_numpy(dtype=float), first.index.to_numpy(dtype=float)
    fine = np.geomspace(xs[0], xs[-1], _FINE), np.linspace(0.0, len(ys) - 1.0, _FINE)
    fine_ys = np.interp(fine[1], np.arange(len(ys)), ys)
    points = np.stack(np.meshgrid(fine[1], np.log(fine[0]), indexing="ij"), axis=-1)
    logs = {}
    for scheme, grid in grids.items():
        known = grid.reindex(first.index).to_numpy(dtype=float)
        form = RegularGridInterpolator(
            (np.arange(len(ys)), np.log(xs)), np.log(known), bounds_error=False, fill_value=None
        )
        logs[scheme] = np.asarray(form(points), dtype=float)
    return fine[0], fine_ys, logs
