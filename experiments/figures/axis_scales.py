"""Linear or logarithmic, and ticks that read as numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
from faultline.experiments.analysis.quantities import quantity
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

LOG_X_SPAN = 20.0
LOG_Y_SPAN = 8.0
"""An axis is logarithmic where its largest value is more than this many times its smallest."""

_PLAIN = FuncFormatter(lambda value, _: f"{value:,.10g}")


def scale_axes(axes: list[Axes], table: pd.DataFrame, x: str, metric: str) -> None:
    """Choose the scales for panels that share their axes, and name their ticks.

    Parameters
    ----------
    axes : list of Axes
        The panels.
    table : DataFrame
        What is drawn in all of them, in shown units: columns `x`, ``mean``, ``low``, ``high``.
    x, metric : str
        The columns drawn.
    """
    places = np.sort(table[x].unique())
    log_x = _spans(places, LOG_X_SPAN)
    is_share = quantity(metric).unit == "%"
    log_y = not is_share and _spans(table["mean"].to_numpy(), LOG_Y_SPAN)
    for axis in axes:
        if log_x:
            axis.set_xscale("log")
            axis.xaxis.set_minor_locator(NullLocator())
        if log_x or len(places) <= 8:
            axis.xaxis.set_major_locator(FixedLocator(_legible(places, log_x)))
        else:
            whole = bool(np.all(places == np.round(places)))
            axis.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=whole))
        axis.xaxis.set_major_formatter(_PLAIN)
        if log_y:
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
            axis.yaxis.set_minor_formatter(NullFormatter())
        axis.yaxis.set_major_formatter(_PLAIN)
    if is_share and len(table) and table["low"].min() >= 0 and table["mean"].min() < 80:
        axes[0].set_ylim(0, 104)
    elif not log_y and len(table) and table["mean"].min() >= 0:
        _show_zero_where_near(axes[0])


def _legible(places: np.ndarray, log: bool) -> list[float]:
    """Return those of the drawn values whose labels have room beside each other."""
    positions = np.log(places) if log else places.astype(float)
    extent = positions[-1] - positions[0] if len(places) > 1 else 1.0
    kept: list[int] = []
    for place, value in enumerate(places):
        # A panel is about 38 letters wide.
        needed = 1.5 + len(_PLAIN(value))
        if kept:
            needed = (needed + 1.5 + len(_PLAIN(places[kept[-1]]))) / 2
        if not kept or (positions[place] - positions[kept[-1]]) / extent * 38 >= needed:
            kept.append(place)
    return [float(places[place]) for place in kept]


def _spans(values: np.ndarray, span: float) -> bool:
    return bool(len(values) and values.min() > 0 and values.max() > span * values.min())


def _show_zero_where_near(axis: Axes) -> None:
    # From a third of the height on, starting at zero costs little and shows true proportions.
    low, high = axis.get_ylim()
    if low < high / 3:
        axis.set_ylim(0, high)
