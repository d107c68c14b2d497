"""Pictures of a sweep as asked for: kind, axes, metric."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
from faultline.experiments.analysis.best import without_other_knobs
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.analysis.selection import (
    averaged_axes,
    check_axis,
    check_metric,
    is_numeric_axis,
    successful,
    varied_axes,
)
from faultline.experiments.config.errors import UserError
from faultline.experiments.figures.badput import draw_badput
from faultline.experiments.figures.best_map import draw_best_map
from faultline.experiments.figures.comparison import draw_comparison
from faultline.experiments.figures.curves import draw_curves
from faultline.experiments.figures.defaults import (
    SOONEST,
    Picture,
    badput_picture,
    short_name,
    sort_axes,
)
from faultline.experiments.figures.heat_map import draw_heat_map


class Wanted(NamedTuple):
    """What was asked for; None where it is left open.

    Attributes
    ----------
    kind : str or None
        ``curves``, ``heat-map``, ``best-map``, ``schemes`` or ``badput``; by default curves, or a
        heat map where `y` is given.
    x, y, hue, column : str or None
        Axes.
    metric : str
        Column to be drawn.
    """

    kind: str | None = None
    x: str | None = None
    y: str | None = None
    metric: str = SOONEST
    hue: str | None = None
    column: str | None = None


def chosen_figure(frame: pd.DataFrame, wanted: Wanted) -> Picture:
    """Draw one picture as asked for; knobs that it does not show are where the job trains soonest.

    Raises
    ------
    UserError
        If the sweep lacks an axis or the metric, or the kind cannot show them.
    """
    runs = successful(frame)
    check_metric(runs, wanted.metric, "--metric")
    for option in ("x", "y", "hue", "column"):
        key = getattr(wanted, option)
        if key is not None:
            check_axis(frame, key, f"--{option}")
    _check_legible(frame, [key for key in (wanted.hue,) if key], "lines", 25)
    _check_legible(frame, [key for key in (wanted.column,) if key], "panels", 25)
    kind = wanted.kind or ("heat-map" if wanted.y else "curves")
    draw = {
        "curves": _curves,
        "heat-map": _heat_map,
        "best-map": _best_map,
        "schemes": _schemes,
        "badput": _badput,
    }[kind]
    return draw(frame, wanted)


def _curves(frame: pd.DataFrame, wanted: Wanted) -> Picture:
    metric = wanted.metric
    hue = wanted.hue or "strategy.name"
    x = wanted.x or _numeric(frame, {hue, wanted.column}, "--x")
    if not is_numeric_axis(frame, x):
        raise UserError(f"--x {x}: its values are no numbers; curves need a numeric axis")
    chosen, notes = without_other_knobs(frame, {x, hue, wanted.column}, SOONEST)
    figure = draw_curves(chosen, x, metric, hue, wanted.column, notes)
    return Picture(
        f"{short_name(metric)}-over-{short_name(x)}",
        f"{quantity(metric).label} over {quantity(x).label}",
        figure,
    )


def _pair(frame: pd.DataFrame, wanted: Wanted) -> tuple[str, str]:
    x = wanted.x or _numeric(frame, {wanted.y, wanted.column}, "--x")
    y = wanted.y or _numeric(frame, {x, wanted.column}, "--y")
    if x == y:
        raise UserError(f"--x {x}, --y {y}: a map needs two different axes")
    return x, y


def _heat_map(frame: pd.DataFrame, wanted: Wanted) -> Picture:
    metric = wanted.metric
    x, y = _pair(frame, wanted)
    column = wanted.column
    if column is None and "strategy.name" in set(varied_axes(frame)) - {x, y}:
        column = "strategy.name"
    chosen, notes = without_other_knobs(frame, {x, y, column}, SOONEST)
    return Picture(
        f"{short_name(metric)}-map",
        f"{quantity(metric).label} over {quantity(x).label} and {quantity(y).label}",
        draw_heat_map(chosen, x, y, metric, column, notes),
    )


def _best_map(frame: pd.DataFrame, wanted: Wanted) -> Picture:
    metric = wanted.metric
    x, y = _pair(frame, wanted)
    by = wanted.hue or "strategy.name"
    check_axis(frame, by, "--hue")
    if quantity(metric).better is None:
        raise UserError(f"--metric {metric}: neither more nor less of it is better")
    if by in {x, y}:
        raise UserError(f"--x {x}, --y {y}, --hue {by}: this map needs three different axes")
    return Picture(
        f"best-{short_name(by)}-map",
        f"best {quantity(by).label} over {quantity(x).label} and {quantity(y).label}",
        draw_best_map(frame, x, y, metric, by),
    )


def _schemes(frame: pd.DataFrame, wanted: Wanted) -> Picture:
    metric = wanted.metric
    by = wanted.hue or "strategy.name"
    check_axis(frame, by, "--hue")
    rows = [axis for axis in (wanted.x, wanted.y) if axis is not None]
    chosen, notes = without_other_knobs(frame, {by, *rows}, SOONEST)
    rows = rows or averaged_axes(chosen, [by])
    _check_legible(chosen, rows, "rows", 100)
    figure = draw_comparison(chosen, metric, by, rows, notes)
    return Picture("schemes", f"{quantity(metric).label} by {quantity(by).label}", figure)


def _badput(frame: pd.DataFrame, wanted: Wanted) -> Picture:
    by = [axis for axis in (wanted.x, wanted.y, wanted.hue) if axis is not None]
    if not by:
        return badput_picture(frame, sort_axes(frame))
    _check_legible(frame, by, "bars", 100)
    chosen, notes = without_other_knobs(frame, by, SOONEST)
    return Picture("badput", "where the time went", draw_badput(chosen, by, notes=notes))


def _check_legible(frame: pd.DataFrame, axes: list[str], what: str, at_most: int) -> None:
    """Refuse a picture of so many parts that nobody could read it."""
    count = len(frame[axes].drop_duplicates()) if axes else 0
    if count > at_most:
        raise UserError(
            f"{', '.join(axes)}: that makes {count} {what}; name axes with at most {at_most} values"
        )


def _numeric(frame: pd.DataFrame, taken: set[str | None], option: str) -> str:
    for axis in varied_axes(frame):
        if axis not in taken and is_numeric_axis(frame, axis):
            return axis
    raise UserError(f"{option}: the sweep has no other numeric axis; try --kind schemes or badput")
