"""Pictures made of cells: a value for each pair of values of two axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.quantities import shown_value
from matplotlib.axes import Axes


def cell_grid(
    table: pd.DataFrame, x: str, y: str, value: str, columns: list[Any], rows: list[Any]
) -> pd.DataFrame:
    """Return a column of a tidy table as a grid; cells without a value are NaN."""
    return table.pivot(index=y, columns=x, values=value).reindex(index=rows, columns=columns)


def cell_text(value: float) -> str:
    """Return the number in a cell, with three significant digits."""
    if np.isnan(value):
        return ""
    if np.isinf(value):
        return "∞"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def panel_size(columns: list[Any], rows: list[Any]) -> tuple[float, float]:
    """Return width and height of a panel in inches, so that numbers fit into its cells."""
    width = min(9.0, max(3.0, 1.0 + 0.55 * len(columns)))
    return width, min(9.0, max(2.8, 1.0 + 0.42 * len(rows)))


def name_ticks(axis: Axes, x: str, y: str, columns: list[Any], rows: list[Any]) -> None:
    """Write the values of both axes beside the middle of their cells, as many as have room."""
    for target, key, values, most in (
        (axis.xaxis, x, columns, 12),
        (axis.yaxis, y, rows, 24),
    ):
        step = -(-len(values) // most)
        shown = range(0, len(values), step)
        target.set_ticks(
            [place + 0.5 for place in shown], [shown_value(key, values[place]) for place in shown]
        )
    axis.tick_params(axis="x", rotation=0, length=0)
    axis.tick_params(axis="y", rotation=0, length=0)
    axis.grid(visible=False)
