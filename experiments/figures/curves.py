"""Curves of a metric over a numeric axis, and comparisons of schemes.

Curves have a line per scheme, with a band over seeds. Comparisons have a dot with its interval per
scheme, and a row per setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.analysis.quantities import quantity, setting_text
from faultline.experiments.analysis.selection import successful
from faultline.experiments.figures.palette import LineLook
from faultline.experiments.figures.style import (
    add_legend,
    figure_style,
    in_order,
    label_outer,
    looks_of,
    name_rows,
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

LOG_X_SPAN = 20.0
"""The x axis is logarithmic if its values span more than this ratio."""


def draw_curves(
    frame: pd.DataFrame,
    x: str,
    metric: str,
    hue: str | None = "strategy.name",
    column: str | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Draw a metric over a numeric axis, with a line per `hue` and a panel per `column`.

    Lines are means, bands are 95 % intervals over seeds, by Student's t. A note below counts failed
    runs, and points without a finite mean because a job completed no step. Another names the axes
    that are averaged over.

    Parameters
    ----------
    frame : DataFrame
        Runs of a sweep.
    x, metric : str
        Columns of the x axis and the y axis.
    hue : str, optional
        Axis with a line per value; one line if the frame lacks it.
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
        figure, panels = panels_by(frame, table, column)
        for axis, mine in panels:
            _draw_lines(axis, mine, x, hue, looks)
        axes = [axis for axis, _ in panels]
        scale_axes(axes, table, x, metric)
        label_outer(axes, quantity(x).with_unit, quantity(metric).with_unit)
        write_title(figure, f"{quantity(metric).label} over {quantity(x).label}")
        write_notes(figure, notes)
        if hue is not None:
            title = None if hue == "strategy.name" else quantity(hue).with_unit
            add_legend(figure, looks.values(), title, markeredgewidth=0)
    return figure


def _draw_lines(
    axis: Axes, table: pd.DataFrame, x: str, hue: str | None, looks: dict[Any, LineLook]
) -> None:
    for value, look in looks.items():
        line = table if hue is None else table[table[hue] == value]
        line = line.sort_values(x)
        axis.fill_between(line[x], line["low"], line["high"], color=look.colour, alpha=0.18, lw=0)
        axis.plot(line[x], line["mean"], **look.line, markeredgewidth=0)


def _undrawn(count: int) -> list[str]:
    if not count:
        return []
    points = f"{count} point{'s' if count > 1 else ''}"
    return [f"Not drawn: {points} at which a job completed no step."]


def scale_axes(axes: list[Axes], table: pd.DataFrame, x: str, metric: str) -> None:
    """Choose the scales of panels that share their axes, and label their ticks.

    The table has the drawn values of all panels, in shown units: columns `x`, ``mean``, ``low``,
    ``high``.
    """
    places = np.sort(table[x].unique())
    log_x = spans(places, LOG_X_SPAN)
    is_share = quantity(metric).shown_unit == "%"
    log_y = not is_share and spans(table["mean"])
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
        # An axis from zero shows true proportions, and here wastes at most a third of the height.
        low, high = axes[0].get_ylim()
        if low < high / 3:
            axes[0].set_ylim(0, high)


def _legible(places: np.ndarray, log: bool) -> list[float]:
    """Return the values whose tick labels do not overlap."""
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


def draw_comparison(
    frame: pd.DataFrame,
    metric: str,
    by: str = "strategy.name",
    settings: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Figure:
    """Draw the mean and its 95 % interval for each value of `by`, with a row per setting.

    Rows are combinations of the axes `settings`; other axes are averaged over. Infinite means are
    noted at the right end. The other arguments are those of `draw_curves`.
    """
    runs = successful(frame)
    table = mean_over_seeds(runs, [*settings, by], metric)
    table[["mean", "low", "high"]] *= quantity(metric).scale
    labels = [setting_text(row) for row in table[list(settings)].to_dict(orient="records")]
    rows = list(dict.fromkeys(labels))
    table["row"] = [rows.index(label) for label in labels]
    values = in_order(frame[by])
    looks = looks_of(by, values)
    with figure_style():
        figure = Figure(figsize=(8.6, 1.7 + 0.16 * len(rows) * (len(values) + 1)))
        axis = figure.subplots()
        for place, value in enumerate(values):
            offset = 0.7 * ((place + 0.5) / len(values) - 0.5)
            _draw_dots(axis, table[table[by] == value], looks[value], offset)
        name_rows(axis, range(len(rows)), rows if settings else [""])
        _scale(axis, table, metric)
        axis.set_xlabel(quantity(metric).with_unit)
        add_legend(figure, looks.values(), linestyle="-")
        write_title(figure, f"{quantity(metric).label} by {quantity(by).label}")
        means = run_notes(frame, [*settings, by], "Mean and 95 % interval")
        write_notes(figure, [*notes, *means])
    return figure


def _draw_dots(axis: Axes, table: pd.DataFrame, look: LineLook, offset: float) -> None:
    finite = table[np.isfinite(table["mean"])]
    axis.errorbar(
        finite["mean"],
        finite["row"] + offset,
        xerr=[finite["mean"] - finite["low"], finite["high"] - finite["mean"]],
        fmt=look.marker,
        color=look.colour,
        markersize=6,
        elinewidth=1.4,
        capsize=2.5,
    )
    for row in table.loc[np.isinf(table["mean"]), "row"]:
        axis.annotate(
            "∞ completed no step", (1, row + offset), xycoords=("axes fraction", "data"),
            ha="right", va="center", fontsize=8, color=look.colour,
        )  # fmt: skip


def _scale(axis: Axes, table: pd.DataFrame, metric: str) -> None:
    means = table.loc[np.isfinite(table["mean"]), "mean"]
    if quantity(metric).shown_unit == "%" or means.empty:
        return
    log = spans(means)
    if log:
        axis.set_xscale("log")
        axis.set_xlim(means.min() / 1.3)
    elif means.min() >= 0:
        axis.set_xlim(0)
    plain_ticks(axis.xaxis, log=log)
