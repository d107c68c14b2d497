"""A metric over a numeric axis: a line a scheme, with a band over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.analysis.selection import successful
from faultline.experiments.figures.axis_scales import scale_axes
from faultline.experiments.figures.palette import LineLook
from faultline.experiments.figures.panels import (
    in_order,
    label_outer,
    looks_of,
    make_panels,
    panel_title,
    run_notes,
    write_notes,
    write_title,
)
from faultline.experiments.figures.style import figure_style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D


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
