"""Curves of the time-to-train ratio over a numeric axis, a line per scheme, a band over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.analysis.selection import successful
from faultline.experiments.figures.palette import looks_of_schemes
from faultline.experiments.figures.style import (
    add_legend,
    draw_band,
    figure_style,
    in_order,
    label_outer,
    panels_by,
    plain_ticks,
    run_notes,
    spans,
    write_notes,
    write_title,
)
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

RATIO = "time_to_train_ratio"
LOG_X_SPAN = 20.0
"""The x axis is logarithmic if its values span more than this ratio."""
_MOST_TICKS = 6


def draw_curves(
    frame: pd.DataFrame, x: str, column: str | None = None, notes: Sequence[str] = ()
) -> Figure:
    """Draw the time-to-train ratio over a numeric axis, with a line per scheme.

    Lines are means, bands are 95 % intervals over seeds, by Student's t. A note below counts failed
    runs, and points without a finite mean because a job completed no step. Another names the axes
    that are averaged over.

    Parameters
    ----------
    frame : DataFrame
        Runs of a sweep.
    x : str
        Column of the x axis.
    column : str, optional
        Axis with a panel per value.
    notes : sequence of str
        More notes below the figure.

    Raises
    ------
    UserError
        If all runs failed.
    """
    runs = successful(frame)
    keys = [key for key in (column, "strategy", x) if key is not None]
    table = mean_over_seeds(runs[runs[x].notna()], keys, RATIO)
    finite = np.isfinite(table["mean"])
    drawn = [key for key in (*keys, "strategy.name") if key in frame]
    means = run_notes(frame, drawn, "Mean and 95 % interval")
    notes = [*notes, *_undrawn(int((~finite).sum())), *means]
    table = table[finite].copy()
    table[x] *= quantity(x).scale
    looks = looks_of_schemes(in_order(runs["strategy"]))
    with figure_style():
        figure, panels = panels_by(frame, table, column)
        axes = [axis for axis, _ in panels]
        for axis, mine in panels:
            for scheme, look in looks.items():
                line = mine[mine["strategy"] == scheme].sort_values(x)
                draw_band(axis, line[x], line, look.colour)
                axis.plot(line[x], line["mean"], **look.line, markeredgewidth=0)
        _scale_axes(axes, table, x)
        label_outer(axes, quantity(x).with_unit, quantity(RATIO).label)
        write_title(figure, f"{quantity(RATIO).label} over {quantity(x).label}")
        write_notes(figure, notes)
        add_legend(figure, looks.values(), markeredgewidth=0)
    return figure


def _undrawn(count: int) -> list[str]:
    if not count:
        return []
    points = f"{count} point{'s' if count > 1 else ''}"
    return [f"Not drawn: {points} at which a job completed no step."]


def _scale_axes(axes: list[Axes], table: pd.DataFrame, x: str) -> None:
    """Choose the scales of panels that share their axes, and label their ticks."""
    places = np.sort(table[x].unique())
    log_x, log_y = spans(places, LOG_X_SPAN), spans(table["mean"])
    for axis in axes:
        if log_x:
            axis.set_xscale("log")
        if log_y:
            axis.set_yscale("log")
        plain_ticks(axis.xaxis, log=log_x)
        plain_ticks(axis.yaxis, log=log_y, numticks=12)
        if len(places) <= _MOST_TICKS:
            axis.xaxis.set_major_locator(FixedLocator(places.tolist()))
            axis.xaxis.set_minor_locator(NullLocator())
        elif not log_x:
            whole = bool(np.all(places == np.round(places)))
            axis.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=whole))
    if not log_y:
        # An axis from zero shows true proportions, and here wastes at most a third of the height.
        low, high = axes[0].get_ylim()
        if low < high / 3:
            axes[0].set_ylim(0, high)
