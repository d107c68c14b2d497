"""A metric over a numeric axis: a line a scheme, with a band over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.analysis.selection import successful
from faultline.experiments.figures.palette import LineLook
from faultline.experiments.figures.style import (
    LOG_SPAN,
    figure_style,
    in_order,
    label_outer,
    looks_of,
    make_panels,
    panel_title,
    plain_ticks,
    run_notes,
    write_notes,
    write_title,
)
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

LOG_X_SPAN = 20.0
"""The x axis is logarithmic where its largest value is more than this times its smallest."""


def draw_curves(
    frame: pd.DataFrame,
    x: str,
    metric: str,
    hue: str | None = "strategy.name",
    column: str | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Draw a metric over a numeric axis, a line for each value of `hue`, a panel a `column`.

    Parameters
    ----------
    frame : DataFrame
        A sweep, a row a run. Failed runs are left out and counted in a note; so are points where a
        job completed no step, which have no finite mean. Axes that are not drawn are averaged over,
        seed by seed, and named.
    x : str
        A numeric axis.
    metric : str
        A numeric column.
    hue : str, optional
        The axis whose values are lines; without such a column there is one line.
    column : str, optional
        The axis whose values are panels.
    notes : sequence of str
        Sentences to be written below.

    Returns
    -------
    Figure
        Lines of means; bands are 95 % intervals of the mean over seeds, by Student's t.

    Raises
    ------
    UserError
        If no run gave a record.
    """
    runs = successful(frame)
    hue = hue if hue in frame.columns else None
    keys = [key for key in (column, hue, x) if key is not None]
    table = mean_over_seeds(runs[runs[x].notna()], keys, metric)
    finite = np.isfinite(table["mean"])
    means = run_notes(frame, keys, "Mean and 95 % interval")
    notes = [*notes, *_undrawn(int((~finite).sum())), *means]
    table = table[finite].copy()
    table[["mean", "low", "high"]] *= quantity(metric).scale
    table[x] *= quantity(x).scale
    looks = (
        {None: LineLook("", "#0072B2", "o")} if hue is None else looks_of(hue, in_order(frame[hue]))
    )
    with figure_style():
        figure, panels = make_panels([] if column is None else in_order(frame[column]))
        for value, axis in panels.items():
            mine = table if column is None else table[table[column] == value]
            _draw_lines(axis, mine, x, hue, looks)
            if column is not None:
                axis.set_title(panel_title(column, value))
        scale_axes(list(panels.values()), table, x, metric)
        label_outer(list(panels.values()), quantity(x).with_unit, quantity(metric).with_unit)
        write_title(figure, f"{quantity(metric).label} over {quantity(x).label}")
        write_notes(figure, notes)
        if hue is not None:
            _add_legend(figure, hue, list(looks.values()))
    return figure


def _draw_lines(
    axis: Axes, table: pd.DataFrame, x: str, hue: str | None, looks: dict[Any, LineLook]
) -> None:
    for value, look in looks.items():
        line = table if hue is None else table[table[hue] == value]
        line = line.sort_values(x)
        axis.fill_between(line[x], line["low"], line["high"], color=look.colour, alpha=0.18, lw=0)
        axis.plot(
            line[x],
            line["mean"],
            color=look.colour,
            marker=look.marker,
            linestyle=look.dashes,
            markeredgewidth=0,
        )


def _undrawn(count: int) -> list[str]:
    if not count:
        return []
    points = f"{count} point{'s' if count > 1 else ''}"
    return [f"Not drawn: {points} where a job completed no step."]


def _add_legend(figure: Figure, hue: str, looks: list[LineLook]) -> None:
    handles = [
        Line2D(
            [], [], color=look.colour, marker=look.marker, linestyle=look.dashes,
            markeredgewidth=0, label=look.label,
        )
        for look in looks
    ]  # fmt: skip
    title = None if hue == "strategy.name" else quantity(hue).with_unit
    figure.legend(handles=handles, loc="outside right upper", title=title)


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
    is_share = quantity(metric).shown_unit == "%"
    log_y = not is_share and _spans(table["mean"].to_numpy(), LOG_SPAN)
    for axis in axes:
        if log_x:
            axis.set_xscale("log")
            axis.xaxis.set_minor_locator(NullLocator())
        if log_x or len(places) <= 8:
            axis.xaxis.set_major_locator(FixedLocator(_legible(places, log_x)))
        else:
            whole = bool(np.all(places == np.round(places)))
            axis.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=whole))
        plain_ticks(axis.xaxis, log=False)
        if log_y:
            axis.set_yscale("log")
        plain_ticks(axis.yaxis, log=log_y, numticks=12)
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
        needed = 1.5 + len(f"{value:,.10g}")
        if kept:
            needed = (needed + 1.5 + len(f"{places[kept[-1]]:,.10g}")) / 2
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
