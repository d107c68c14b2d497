"""Schemes side by side: a dot and its interval for each, a row a setting."""

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
    LOG_SPAN,
    figure_style,
    in_order,
    looks_of,
    plain_ticks,
    run_notes,
    write_notes,
    write_title,
)
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D


def draw_comparison(
    frame: pd.DataFrame,
    metric: str,
    by: str = "strategy.name",
    settings: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Figure:
    """Draw the mean and its 95 % interval for each value of `by`, a row a setting.

    Parameters
    ----------
    frame : DataFrame
        A sweep, a row a run; failed runs are left out and counted in a note. Means that are
        infinite are written at the right end.
    metric : str
        A numeric column.
    by : str
        The axis whose values are compared.
    settings : sequence of str
        The axes whose combinations are rows; others are averaged over.
    notes : sequence of str
        Sentences to be written below.

    Raises
    ------
    UserError
        If no run gave a record.
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
        axis.set_yticks(range(len(rows)), rows if settings else [""])
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.tick_params(axis="y", length=0)
        axis.grid(visible=False, axis="y")
        axis.grid(visible=True, axis="x")
        _scale(axis, table, metric)
        axis.set_xlabel(quantity(metric).with_unit)
        figure.legend(handles=_legend(looks), loc="outside right upper")
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
    log = means.min() > 0 and means.max() > LOG_SPAN * means.min()
    if log:
        axis.set_xscale("log")
        axis.set_xlim(means.min() / 1.3)
    elif means.min() >= 0:
        axis.set_xlim(0)
    plain_ticks(axis.xaxis, log=bool(log))


def _legend(looks: dict[Any, LineLook]) -> list[Line2D]:
    return [
        Line2D([], [], color=look.colour, marker=look.marker, label=look.label)
        for look in looks.values()
    ]
