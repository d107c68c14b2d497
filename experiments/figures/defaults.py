"""The usual pictures of a sweep, decided from its axes."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
from faultline.experiments.analysis.best import without_other_knobs
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.analysis.selection import (
    is_knob,
    is_numeric_axis,
    successful,
    varied_axes,
)
from faultline.experiments.figures.badput import draw_badput
from faultline.experiments.figures.best_map import draw_best_map
from faultline.experiments.figures.comparison import draw_comparison
from faultline.experiments.figures.curves import draw_curves
from faultline.experiments.figures.heat_map import draw_heat_map
from faultline.experiments.runs.table import Sweep
from matplotlib.figure import Figure

PANELS_AT_MOST = 9
ROWS_AT_MOST = 16
BARS_AT_MOST = 24
"""Axes with more values than these do not become panels, rows of dots or bars."""

SOONEST = "time_to_train_ratio"
"""What knobs are best in that a picture does not show."""


class Picture(NamedTuple):
    """A figure with the name of its file (without suffix) and what it shows in one line."""

    name: str
    title: str
    figure: Figure


class Axes(NamedTuple):
    """The axes of a sweep, sorted by what they are good for.

    Attributes
    ----------
    schemes : bool
        Whether several schemes were played.
    knobs, conditions : list of str
        Numeric axes: what the user may choose for each scheme, and what is given.
    kinds : list of str
        Other axes, such as the distribution of failures.
    """

    schemes: bool
    knobs: list[str]
    conditions: list[str]
    kinds: list[str]


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
    """Draw the usual figures of a sweep.

    A numeric axis gives curves, two of them a heat map, several schemes a comparison and a map of
    the best; where the time went is always among them. Knobs that a figure does not show are at
    their best. The caller closes the figures.

    Raises
    ------
    UserError
        If no run gave a record.
    """
    frame = sweep.frame
    successful(frame)
    axes = sort_axes(frame)
    settled = without_other_knobs(frame, (), SOONEST)
    return [
        *(picture for knob in axes.knobs for picture in _curves_over_knob(frame, axes, knob)),
        *(picture for x in axes.conditions for picture in _curves(*settled, axes, x)),
        *_maps(frame, axes),
        *_comparison(*settled, axes),
        badput_picture(frame, axes),
    ]


def _curves_over_knob(frame: pd.DataFrame, axes: Axes, knob: str) -> list[Picture]:
    return _curves(*without_other_knobs(frame, {knob}, SOONEST), axes, knob)


def _curves(frame: pd.DataFrame, notes: list[str], axes: Axes, x: str) -> list[Picture]:
    others = [axis for axis in (*axes.kinds, *axes.conditions) if axis != x]
    column = next((axis for axis in others if _count(frame, axis) <= PANELS_AT_MOST), None)
    return [
        Picture(
            f"{short_name(metric)}-over-{short_name(x)}",
            f"{quantity(metric).label} over {quantity(x).label}",
            draw_curves(frame, x, metric, column=column, notes=notes),
        )
        for metric in (SOONEST, "availability")
    ]


def _maps(frame: pd.DataFrame, axes: Axes) -> list[Picture]:
    numeric = [*axes.conditions, *axes.knobs]
    if len(numeric) < 2:
        return []
    x, y = numeric[:2]
    chosen, notes = without_other_knobs(frame, {x, y}, SOONEST)
    where = f"{quantity(x).label} and {quantity(y).label}"
    column = "strategy.name" if axes.schemes else None
    pictures = [
        Picture(
            f"{short_name(SOONEST)}-map",
            f"{quantity(SOONEST).label} over {where}",
            draw_heat_map(chosen, x, y, SOONEST, column, notes),
        )
    ]
    if axes.schemes and y not in axes.knobs:
        best = draw_best_map(frame, x, y, SOONEST)
        pictures.append(Picture("best-scheme-map", f"best scheme over {where}", best))
    return pictures


def _comparison(frame: pd.DataFrame, notes: list[str], axes: Axes) -> list[Picture]:
    if not axes.schemes:
        return []
    settings = _few(frame, [*axes.kinds, *axes.conditions], ROWS_AT_MOST)
    figure = draw_comparison(frame, SOONEST, settings=settings, notes=notes)
    return [Picture("schemes", f"{quantity(SOONEST).label} of each scheme", figure)]


def badput_picture(frame: pd.DataFrame, axes: Axes) -> Picture:
    """Draw where the time went, with no more bars than can be read."""
    schemes = ["strategy.name"] if axes.schemes else []
    if axes.knobs and not axes.conditions:
        by = _few(frame, [*schemes, *axes.knobs, *axes.kinds], BARS_AT_MOST)
    else:
        by = _few(frame, [*schemes, *axes.conditions, *axes.kinds], BARS_AT_MOST)
        # Schemes stand together under each condition.
        by = [*(axis for axis in by if axis not in schemes), *schemes]
    chosen, notes = without_other_knobs(frame, by, SOONEST)
    # Where nothing was varied there is one bar, named after its scheme.
    figure = draw_badput(chosen, by or ["strategy"], notes=notes)
    return Picture("badput", "where the time went", figure)


def _few(frame: pd.DataFrame, axes: list[str], at_most: int) -> list[str]:
    """Return as many of the axes, from the first on, as have no more combinations than that."""
    taken: list[str] = []
    count = 1
    for axis in axes:
        if count * _count(frame, axis) <= at_most:
            taken.append(axis)
            count *= _count(frame, axis)
    return taken


def _count(frame: pd.DataFrame, axis: str) -> int:
    return int(frame[axis].nunique(dropna=False))


def short_name(column: str) -> str:
    """Return what a column is called in the name of a file."""
    return column.replace("time_to_train_", "").replace(".", "-").replace("_", "-")
