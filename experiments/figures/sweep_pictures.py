"""The figures of a sweep, chosen by its axes."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.analysis.selection import (
    is_knob,
    is_numeric_axis,
    successful,
    varied_axes,
    without_other_knobs,
)
from faultline.experiments.figures.badput import draw_badput
from faultline.experiments.figures.curves import RATIO, draw_curves
from faultline.experiments.figures.maps import draw_best_map
from faultline.experiments.runs.table import Sweep
from matplotlib.figure import Figure

PANELS_AT_MOST = 9
BARS_AT_MOST = 24
"""Limits to the number of panels and bars."""


class Picture(NamedTuple):
    """A figure with the name of its file (without suffix) and a title."""

    name: str
    title: str
    figure: Figure


class Axes(NamedTuple):
    """The axes of a sweep that have more than one value, by their role."""

    schemes: bool  # Whether the sweep has several schemes.
    knobs: list[str]  # Numeric axes that users may choose for each scheme.
    conditions: list[str]  # Other numeric axes.
    kinds: list[str]  # Axes that are not numeric, such as the distribution of failures.


def sort_axes(frame: pd.DataFrame) -> Axes:
    """Sort the axes of a sweep that have more than one value."""
    varied = varied_axes(frame)
    numeric = [axis for axis in varied if is_numeric_axis(frame, axis)]
    return Axes(
        "strategy.name" in varied,
        [axis for axis in numeric if is_knob(axis)],
        [axis for axis in numeric if not is_knob(axis)],
        [axis for axis in varied if axis not in numeric and axis != "strategy.name"],
    )


def usual_figures(sweep: Sweep) -> list[Picture]:
    """Draw the figures of a sweep.

    Each numeric axis leads to curves; two conditions and several schemes lead to a map of the best.
    Badput is always drawn. Knobs that a figure does not show have their best values. The caller
    closes the figures. It is a UserError if all runs failed.
    """
    frame = sweep.frame
    successful(frame)
    axes = sort_axes(frame)
    pictures = [_curves(frame, axes, x) for x in (*axes.knobs, *axes.conditions)]
    if axes.schemes and len(axes.conditions) > 1:
        best = draw_best_map(frame, *axes.conditions[:2])
        pictures.append(Picture("best-scheme-map", "best scheme", best))
    return [*pictures, _badput(frame, axes)]


def _curves(frame: pd.DataFrame, axes: Axes, x: str) -> Picture:
    others = [axis for axis in (*axes.kinds, *axes.conditions) if axis != x]
    column = next((axis for axis in others if _count(frame, axis) <= PANELS_AT_MOST), None)
    chosen, notes = without_other_knobs(frame, {x, column}, RATIO)
    name = x.replace(".", "-").replace("_", "-")
    title = f"{quantity(RATIO).label} over {quantity(x).label}"
    return Picture(f"ratio-over-{name}", title, draw_curves(chosen, x, column, notes))


def _badput(frame: pd.DataFrame, axes: Axes) -> Picture:
    """Draw badput, with a legible number of bars."""
    schemes = ["strategy.name"] if axes.schemes else []
    if axes.knobs and not axes.conditions:
        by = _few(frame, [*schemes, *axes.knobs, *axes.kinds])
    else:
        by = _few(frame, [*schemes, *axes.conditions, *axes.kinds])
        # Bars of schemes are adjacent under each condition.
        by = [*(axis for axis in by if axis not in schemes), *schemes]
    chosen, notes = without_other_knobs(frame, by, RATIO)
    # Without varied keys there is one bar, named after its scheme.
    figure = draw_badput(chosen, by or ["strategy"], notes=notes)
    return Picture("badput", "simulated time by cause", figure)


def _few(frame: pd.DataFrame, axes: list[str]) -> list[str]:
    """Return axes, in order, with at most `BARS_AT_MOST` combinations of values."""
    taken: list[str] = []
    count = 1
    for axis in axes:
        if count * _count(frame, axis) <= BARS_AT_MOST:
            taken.append(axis)
            count *= _count(frame, axis)
    return taken


def _count(frame: pd.DataFrame, axis: str) -> int:
    return int(frame[axis].nunique(dropna=False))
