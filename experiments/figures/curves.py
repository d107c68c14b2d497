"""Curves of the time-to-train ratio over a numeric axis, a line per scheme, a band over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.analysis.quantities import duration_text, heading, quantity, setting_text
from faultline.experiments.analysis.selection import is_knob, successful
from faultline.experiments.figures.palette import LineLook, look_of, looks_of_schemes
from faultline.experiments.figures.style import (
    draw_band,
    figure_style,
    in_order,
    run_notes,
    spans,
    write_notes,
    write_title,
)
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

RATIO = "time_to_train_ratio"
LOG_X_SPAN = 20.0
"""The x axis is logarithmic if its values span more than this ratio."""
_MOST_TICKS = 6
_PANELS_A_ROW = 3


def draw_curves(
    frame: pd.DataFrame, x: str, column: str | None = None, notes: Sequence[str] = ()
) -> Figure:
    """Draw the time-to-train ratio over a numeric axis, with a line per scheme.

    Lines are means, bands are 95 % intervals over seeds, by Student's t. A note below counts failed
    runs, and points without a finite mean because a job completed no step. Another names the axes
    that are averaged over; `notes` precede these. `column` is an axis with a panel per value. It is
    a UserError if all runs failed.
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
    values = [None] if column is None else in_order(frame[column])
    across = min(_PANELS_A_ROW, len(values))
    down = -(-len(values) // across)
    height = 4.4 if len(values) == 1 else 0.9 + 3.4 * down
    with figure_style():
        figure = Figure(figsize=(max(6.8, 2.2 + 3.3 * across), height))
        axes = list(figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).flat)
        for unused in axes[len(values) :]:
            unused.remove()
        axes = axes[: len(values)]
        for axis, value in zip(axes, values, strict=True):
            panel = table if column is None else table[table[column] == value]
            if column is not None:
                axis.set_title(setting_text({column: value}))
            _draw_lines(axis, panel, x, looks)
        _scale_axes(axes, table, x)
        for axis in axes[::across]:
            axis.set_ylabel(quantity(RATIO).label)
        figure.legend(handles=axes[0].get_lines(), loc="outside right center")
        write_title(figure, _message(table, x, column))
        write_notes(figure, notes)
    return figure


def _message(table: pd.DataFrame, x: str, column: str | None) -> str:
    """Return which scheme trains soonest, at each value of `x` or at its own best one."""
    label = quantity(x).label
    if table["strategy"].nunique() < 2:
        return f"{quantity(RATIO).label} over {label}"
    places = [] if column is None else [column]
    if not is_knob(x):
        places.append(x)
    rows = table.groupby(places)["mean"].idxmin() if places else [table["mean"].idxmin()]
    first = list(dict.fromkeys(table.loc[rows, "strategy"]))
    where = f"each at its best {label}" if is_knob(x) else f"at each {label}"
    if len(first) == 1:
        return f"{look_of(first[0]).label} trains soonest, {where}"
    names = " or ".join(look_of(scheme).label for scheme in first)
    decisive = " and ".join(quantity(one).label for one in places)
    return f"{names} trains soonest, depending on {decisive}"


def _draw_lines(axis: Axes, panel: pd.DataFrame, x: str, looks: Mapping[str, LineLook]) -> None:
    for scheme, look in looks.items():
        line = panel[panel["strategy"] == scheme].sort_values(x)
        draw_band(axis, line[x], line, look.colour)
        axis.plot(line[x], line["mean"], **look.line, markeredgewidth=0)
    axis.set_xlabel(heading(x))
    axis.tick_params(labelbottom=True)


def _undrawn(count: int) -> list[str]:
    if not count:
        return []
    points = f"{count} point{'s' if count > 1 else ''}"
    return [f"Not drawn: {points} at which a job completed no step."]


def _scale_axes(axes: list[Axes], table: pd.DataFrame, x: str) -> None:
    """Choose the scales of panels that share their axes, and label their ticks as plain numbers."""
    places = np.sort(table[x].unique())
    log_x, log_y = spans(places, LOG_X_SPAN), spans(table["mean"])
    for axis in axes:
        axis.set_xscale("log" if log_x else "linear")
        axis.set_yscale("log" if log_y else "linear")
        is_time = quantity(x).shown_unit == "s"
        if len(places) <= _MOST_TICKS or is_time:
            shown = places[:: -(-len(places) // _MOST_TICKS)]
            axis.set_xticks(shown.tolist())
            axis.xaxis.set_minor_locator(NullLocator())
        if log_y:
            axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        for one in (axis.xaxis, axis.yaxis):
            one.set_major_formatter("{x:,.10g}")
            one.set_minor_formatter(NullFormatter())
        if is_time:
            axis.xaxis.set_major_formatter(lambda time_s, _: duration_text(time_s))
    if not log_y:
        # An axis from zero shows true proportions, and here wastes at most a third of the height.
        low, high = axes[0].get_ylim()
        if low < high / 3:
            axes[0].set_ylim(0, high)
