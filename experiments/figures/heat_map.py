"""The mean of a metric over two axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.analysis.selection import successful
from faultline.experiments.figures.cells import (
    cell_grid,
    cell_text,
    name_ticks,
    panel_size,
)
from faultline.experiments.figures.panels import (
    in_order,
    label_outer,
    make_panels,
    panel_title,
    run_notes,
    write_notes,
    write_title,
)
from faultline.experiments.figures.style import figure_style
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

CELLS_ANNOTATED = 150
"""Up to so many cells in a panel carry their number."""

_LOG_SPAN = 8.0


def draw_heat_map(
    frame: pd.DataFrame,
    x: str,
    y: str,
    metric: str,
    column: str | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Draw the mean of a metric over seeds, a cell for each `x` and `y`, a panel a `column`.

    Parameters
    ----------
    frame : DataFrame
        A sweep, a row a run. Failed runs are left out and counted in a note; axes that are not
        drawn are averaged over and named.
    x, y : str
        Two axes, numeric or not.
    metric : str
        A numeric column; cells whose mean is infinite are marked with ∞.
    column : str, optional
        The axis whose values are panels; all share one scale of colours.
    notes : sequence of str
        Sentences to be written below.

    Raises
    ------
    UserError
        If no run gave a record.
    """
    runs = successful(frame)
    keys = [key for key in (column, x, y) if key is not None]
    table = mean_over_seeds(runs, keys, metric)
    table["mean"] *= quantity(metric).scale
    norm = _norm(table["mean"], metric)
    columns, rows = in_order(frame[x]), in_order(frame[y])
    with figure_style():
        values = [] if column is None else in_order(frame[column])
        figure, panels = make_panels(values, *panel_size(columns, rows))
        for value, axis in panels.items():
            mine = table if column is None else table[table[column] == value]
            cells = cell_grid(mine, x, y, "mean", columns, rows)
            _draw_cells(axis, cells, norm, _colours(metric))
            name_ticks(axis, x, y, columns, rows)
            if column is not None:
                axis.set_title(panel_title(column, value))
        label_outer(list(panels.values()), quantity(x).with_unit, quantity(y).with_unit)
        bar = figure.colorbar(
            ScalarMappable(norm, _colours(metric)),
            ax=list(panels.values()),
            label=quantity(metric).with_unit,
        )
        _plain_ticks(bar, norm)
        write_title(figure, f"{quantity(metric).label}, mean over seeds")
        write_notes(figure, [*notes, *run_notes(frame, (x, y, column), "Mean")])
    return figure


def _draw_cells(axis: Axes, cells: pd.DataFrame, norm: Normalize, colours: str) -> None:
    annotated = cells.size <= CELLS_ANNOTATED
    values = cells.to_numpy(dtype=float)
    axis.set_facecolor("#EEEEEE")
    axis.pcolormesh(
        np.ma.masked_invalid(values),
        norm=norm,
        cmap=colours,
        edgecolors="white" if annotated else "none",
        linewidth=1.0 if annotated else 0.0,
    )
    for (row, column), value in np.ndenumerate(values):
        # An infinite mean is no missing one: it is told in any case.
        if annotated or np.isinf(value):
            shade = _text_colour(colormaps[colours](norm(value))) if np.isfinite(value) else "black"
            axis.text(
                column + 0.5, row + 0.5, cell_text(value), ha="center", va="center", color=shade
            )


def _text_colour(background: tuple[float, float, float, float]) -> str:
    """Return black or white, whichever has more contrast (WCAG 2 relative luminance)."""
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in background[:3]
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if luminance > 0.179 else "white"


def _norm(means: pd.Series, metric: str) -> Normalize:
    finite = means[np.isfinite(means)]
    if finite.empty:
        return Normalize(0, 1)
    low, high = float(finite.min()), float(finite.max())
    if quantity(metric).unit != "%" and low > 0 and high > _LOG_SPAN * low:
        return LogNorm(low, high)
    return Normalize(low, high)


def _colours(metric: str) -> str:
    """Return the colour map in which good is light."""
    return "cividis" if quantity(metric).better == "higher" else "cividis_r"


def _plain_ticks(bar: Colorbar, norm: Normalize) -> None:
    if isinstance(norm, LogNorm):
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    bar.outline.set_visible(False)
