"""The figures of a sweep: the usual ones, chosen by its axes, and requested ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.analysis.selection import (
    averaged_axes,
    check_axis,
    check_metric,
    is_knob,
    is_numeric_axis,
    successful,
    varied_axes,
    without_other_knobs,
)
from faultline.experiments.config.errors import UserError
from faultline.experiments.figures.badput import draw_badput
from faultline.experiments.figures.curves import draw_comparison, draw_curves
from faultline.experiments.figures.maps import draw_best_map, draw_heat_map
from faultline.experiments.runs.table import Sweep
from matplotlib.figure import Figure

PANELS_AT_MOST = 9
ROWS_AT_MOST = 16
BARS_AT_MOST = 24
"""Limits to the number of panels, rows of dots and bars."""

SOONEST = "time_to_train_ratio"
"""The metric that selects the knobs that a figure does not show."""


class Picture(NamedTuple):
    """A figure with the name of its file (without suffix) and a title."""

    name: str
    title: str
    figure: Figure


class Axes(NamedTuple):
    """The axes of a sweep, by their role."""

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
    """Draw the usual figures of a sweep.

    A numeric axis leads to curves, two of them to a heat map, and several schemes to a comparison
    and a map of the best. Badput is always drawn. Knobs that a figure does not show have their best
    values. The caller closes the figures.

    Raises
    ------
    UserError
        If all runs failed.
    """
    frame = sweep.frame
    successful(frame)
    axes = sort_axes(frame)
    settled = without_other_knobs(frame, (), SOONEST)
    return [
        *(
            picture
            for knob in axes.knobs
            for picture in _usual_curves(*without_other_knobs(frame, {knob}, SOONEST), axes, knob)
        ),
        *(picture for x in axes.conditions for picture in _usual_curves(*settled, axes, x)),
        *_usual_maps(frame, axes),
        *_comparison(*settled, axes),
        badput_picture(frame, axes),
    ]


def _usual_curves(frame: pd.DataFrame, notes: list[str], axes: Axes, x: str) -> list[Picture]:
    others = [axis for axis in (*axes.kinds, *axes.conditions) if axis != x]
    column = next((axis for axis in others if _count(frame, axis) <= PANELS_AT_MOST), None)
    metrics = ("goodput", SOONEST)
    return [_curves(frame, x, metric, "strategy.name", column, notes) for metric in metrics]


def _curves(
    frame: pd.DataFrame, x: str, metric: str, hue: str, column: str | None, notes: Sequence[str]
) -> Picture:
    return Picture(
        f"{short_name(metric)}-over-{short_name(x)}",
        f"{quantity(metric).label} over {quantity(x).label}",
        draw_curves(frame, x, metric, hue, column, notes),
    )


def _usual_maps(frame: pd.DataFrame, axes: Axes) -> list[Picture]:
    numeric = [*axes.conditions, *axes.knobs]
    if len(numeric) < 2:
        return []
    x, y = numeric[:2]
    pictures = [_heat_map(frame, x, y, SOONEST, "strategy.name" if axes.schemes else None)]
    if axes.schemes and y not in axes.knobs:
        best = _best_map(frame, x, y, SOONEST, "strategy.name")
        pictures.append(best._replace(name="best-scheme-map"))
    return pictures


def _heat_map(frame: pd.DataFrame, x: str, y: str, metric: str, column: str | None) -> Picture:
    chosen, notes = without_other_knobs(frame, {x, y, column}, SOONEST)
    return Picture(
        f"{short_name(metric)}-map",
        f"{quantity(metric).label} over {quantity(x).label} and {quantity(y).label}",
        draw_heat_map(chosen, x, y, metric, column, notes),
    )


def _best_map(frame: pd.DataFrame, x: str, y: str, metric: str, by: str) -> Picture:
    return Picture(
        f"best-{short_name(by)}-map",
        f"best {quantity(by).label} over {quantity(x).label} and {quantity(y).label}",
        draw_best_map(frame, x, y, metric, by),
    )


def _comparison(frame: pd.DataFrame, notes: list[str], axes: Axes) -> list[Picture]:
    if not axes.schemes:
        return []
    settings = _few(frame, [*axes.kinds, *axes.conditions], ROWS_AT_MOST)
    figure = draw_comparison(frame, SOONEST, settings=settings, notes=notes)
    return [Picture("schemes", f"{quantity(SOONEST).label} of each scheme", figure)]


def badput_picture(frame: pd.DataFrame, axes: Axes) -> Picture:
    """Draw badput, with a legible number of bars."""
    schemes = ["strategy.name"] if axes.schemes else []
    if axes.knobs and not axes.conditions:
        by = _few(frame, [*schemes, *axes.knobs, *axes.kinds], BARS_AT_MOST)
    else:
        by = _few(frame, [*schemes, *axes.conditions, *axes.kinds], BARS_AT_MOST)
        # Bars of schemes are adjacent under each condition.
        by = [*(axis for axis in by if axis not in schemes), *schemes]
    chosen, notes = without_other_knobs(frame, by, SOONEST)
    # Without varied keys there is one bar, named after its scheme.
    figure = draw_badput(chosen, by or ["strategy"], notes=notes)
    return Picture("badput", "simulated time by cause", figure)


def _few(frame: pd.DataFrame, axes: list[str], at_most: int) -> list[str]:
    """Return axes, in order, with at most `at_most` combinations of values."""
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
    """Return the short name of a column in names of files."""
    return column.replace("time_to_train_", "").replace(".", "-").replace("_", "-")


class Wanted(NamedTuple):
    """A requested figure; None leaves a choice open."""

    # ``curves``, ``heat-map``, ``best-map``, ``schemes`` or ``badput``; by default curves, or a
    # heat map if there is a `y`.
    kind: str | None = None
    x: str | None = None  # An axis.
    y: str | None = None  # An axis.
    metric: str = SOONEST  # The drawn column.
    by: str | None = None  # An axis.


_IDLE = {
    "curves": ("y",),
    "heat-map": ("by",),
    "badput": ("metric",),
}
"""Options that have no effect on a kind of figure."""


def chosen_figure(frame: pd.DataFrame, wanted: Wanted) -> Picture:
    """Draw one requested figure; knobs that it does not show have their best values.

    Raises
    ------
    UserError
        If the sweep lacks an axis or the metric, or the kind of figure cannot show them.
    """
    runs = successful(frame)
    check_metric(runs, wanted.metric)
    for option in ("x", "y", "by"):
        key = getattr(wanted, option)
        if key is not None:
            check_axis(frame, key, f"--{option}")
    _check_legible(frame, [key for key in (wanted.by,) if key], "lines", 25)
    kind = wanted.kind or ("heat-map" if wanted.y else "curves")
    for option in _IDLE.get(kind, ()):
        if getattr(wanted, option) != Wanted._field_defaults[option]:
            raise UserError(f"--{option}: has no effect on a figure of kind {kind}; leave it out")
    draw = {
        "curves": _chosen_curves,
        "heat-map": _chosen_heat_map,
        "best-map": _chosen_best_map,
        "schemes": _chosen_schemes,
        "badput": _chosen_badput,
    }[kind]
    return draw(frame, wanted)


def _chosen_curves(frame: pd.DataFrame, wanted: Wanted) -> Picture:
    by = wanted.by or "strategy.name"
    x = wanted.x or _numeric(frame, {by}, "--x")
    if not is_numeric_axis(frame, x):
        raise UserError(f"--x {x}: its values are not numbers; curves need a numeric axis")
    chosen, notes = without_other_knobs(frame, {x, by}, SOONEST)
    return _curves(chosen, x, wanted.metric, by, None, notes)


def _pair(frame: pd.DataFrame, wanted: Wanted) -> tuple[str, str]:
    x = wanted.x or _numeric(frame, {wanted.y}, "--x")
    y = wanted.y or _numeric(frame, {x}, "--y")
    if x == y:
        raise UserError(f"--x {x}, --y {y}: a map needs two different axes")
    return x, y


def _chosen_heat_map(frame: pd.DataFrame, wanted: Wanted) -> Picture:
    x, y = _pair(frame, wanted)
    several = "strategy.name" in set(varied_axes(frame)) - {x, y}
    column = "strategy.name" if several else None
    return _heat_map(frame, x, y, wanted.metric, column)


def _chosen_best_map(frame: pd.DataFrame, wanted: Wanted) -> Picture:
    x, y = _pair(frame, wanted)
    by = wanted.by or "strategy.name"
    check_axis(frame, by, "--by")
    if quantity(wanted.metric).better is None:
        raise UserError(f"--metric {wanted.metric}: neither higher nor lower is better")
    if by in {x, y}:
        raise UserError(f"--x {x}, --y {y}, --by {by}: this map needs three different axes")
    return _best_map(frame, x, y, wanted.metric, by)


def _chosen_schemes(frame: pd.DataFrame, wanted: Wanted) -> Picture:
    metric = wanted.metric
    by = wanted.by or "strategy.name"
    check_axis(frame, by, "--by")
    rows = [axis for axis in (wanted.x, wanted.y) if axis is not None]
    chosen, notes = without_other_knobs(frame, {by, *rows}, SOONEST)
    rows = rows or averaged_axes(chosen, [by])
    _check_legible(chosen, rows, "rows", 100)
    figure = draw_comparison(chosen, metric, by, rows, notes)
    return Picture("schemes", f"{quantity(metric).label} by {quantity(by).label}", figure)


def _chosen_badput(frame: pd.DataFrame, wanted: Wanted) -> Picture:
    by = [axis for axis in (wanted.x, wanted.y, wanted.by) if axis is not None]
    if not by:
        return badput_picture(frame, sort_axes(frame))
    _check_legible(frame, by, "bars", 100)
    chosen, notes = without_other_knobs(frame, by, SOONEST)
    return Picture("badput", "simulated time by cause", draw_badput(chosen, by, notes=notes))


def _check_legible(frame: pd.DataFrame, axes: list[str], parts: str, at_most: int) -> None:
    """Refuse a figure with too many parts to be legible."""
    count = len(frame[axes].drop_duplicates()) if axes else 0
    if count > at_most:
        raise UserError(
            f"{', '.join(axes)}: {count} {parts} do not fit into a figure; use axes with at most "
            f"{at_most} values"
        )


def _numeric(frame: pd.DataFrame, taken: set[str | None], option: str) -> str:
    for axis in varied_axes(frame):
        if axis not in taken and is_numeric_axis(frame, axis):
            return axis
    raise UserError(f"{option}: the sweep has no other numeric axis; try --kind schemes or badput")
