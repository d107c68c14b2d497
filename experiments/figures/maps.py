"""Maps of the best scheme: each cell has the colours of its soonest schemes, and their time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import paired_differences
from faultline.experiments.analysis.quantities import counted, heading, quantity, shown_value
from faultline.experiments.analysis.selection import successful, without_other_knobs
from faultline.experiments.figures.curves import RATIO
from faultline.experiments.figures.palette import look_of
from faultline.experiments.figures.style import (
    figure_style,
    in_order,
    legend_below,
    pale,
    run_notes,
    write_notes,
    write_title,
)
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

MOST_STRIPES = 3
"""Schemes that tie in a cell have a stripe each; more of them have one neutral colour."""

_STRIPES = 6
"""Columns of pixels of a cell: a multiple of 1, 2 and 3."""

_NEUTRAL, _PALE = "#ececec", 0.6
_MOST_NUMBERS = 16
"""Cells of maps with more columns or rows have no room for a number."""

_SCHEME = "strategy.name"


def colours_of(schemes: Sequence[str]) -> list[str]:
    """Return the colours of a cell, in which some schemes tie."""
    if len(schemes) > MOST_STRIPES:
        return [_NEUTRAL]
    return [pale(look_of(scheme).colour, _PALE) for scheme in schemes]


def draw_cells(
    panel: Axes, cells: pd.DataFrame, columns: Mapping[Any, str], rows: Mapping[Any, str]
) -> None:
    """Draw the cells of a map: a stripe per scheme, and a number.

    Parameters
    ----------
    panel : Axes
        Where to draw.
    cells : DataFrame
        A row per cell: ``x``, ``y``, ``schemes`` (a sequence of the soonest one and those that tie
        with it) and the number ``cost``.
    columns, rows : mapping of value to str
        All values of ``x`` and ``y`` in order, with their texts.
    """
    pixels = np.ones((len(rows), _STRIPES * len(columns), 3))
    halo = [patheffects.withStroke(linewidth=2.5, foreground="white")]
    for cell in cells.to_dict("records"):
        column, row = list(columns).index(cell["x"]), list(rows).index(cell["y"])
        stripes = [to_rgb(colour) for colour in colours_of(cell["schemes"])]
        of_cell = slice(_STRIPES * column, _STRIPES * (column + 1))
        pixels[row, of_cell] = np.repeat(stripes, _STRIPES // len(stripes), axis=0)
        if max(len(columns), len(rows)) <= _MOST_NUMBERS:
            panel.text(
                column + 0.5, row + 0.5, f"{cell['cost']:#.3g}".replace("inf", "∞"), fontsize=8,
                ha="center", va="center", path_effects=halo,
            )  # fmt: skip
    panel.imshow(
        pixels, extent=(0, len(columns), 0, len(rows)), origin="lower", aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    panel.vlines(range(1, len(columns)), 0, len(rows), color="white", linewidth=1.5)
    panel.hlines(range(1, len(rows)), 0, len(columns), color="white", linewidth=1.5)
    for axis, texts, most in ((panel.xaxis, columns, 12), (panel.yaxis, rows, 24)):
        shown = slice(None, None, ceil(len(texts) / most))
        places = [place + 0.5 for place in range(len(texts))]
        axis.set_ticks(places[shown], list(texts.values())[shown])
    panel.tick_params(length=0, labelsize=8)
    panel.grid(visible=False)


def legend_of_cells(figure: Figure, cells: pd.DataFrame, name: Callable[[str], str]) -> None:
    """Add a legend of all colours in some cells; `name` gives the labels of schemes."""
    drawn = {one for tied in cells["schemes"] if len(tied) <= MOST_STRIPES for one in tied}
    entries = [
        Patch(facecolor=colours_of([scheme])[0], label=name(scheme)) for scheme in sorted(drawn)
    ]
    if (cells["schemes"].map(len) > MOST_STRIPES).any():
        entries.append(Patch(facecolor=_NEUTRAL, label=f"more than {MOST_STRIPES} tie"))
    entry_inches = 0.7 + 0.07 * max(len(str(entry.get_label())) for entry in entries)
    lines = ceil(len(entries) / max(1, figure.get_figwidth() // entry_inches))
    legend_below(figure, entries, ceil(len(entries) / lines))


def draw_best_map(frame: pd.DataFrame, x: str, y: str) -> Figure:
    """Draw the schemes of the least time-to-train ratio over two axes of a sweep, and its mean.

    Knobs of the schemes, such as the redundancy, are at their best in each cell; other axes are
    averaged over.
    """
    drawn = (x, y, _SCHEME)
    frame, at_best = without_other_knobs(frame, drawn, RATIO)
    runs = successful(frame)
    cells, has_pairs = _soonest(runs.rename(columns={x: "x", y: "y"})), runs["seed"].nunique() > 1
    columns, rows = (
        {value: shown_value(key, value) for value in in_order(frame[key])} for key in (x, y)
    )
    ties = "stripes: schemes that tie (the paired 95 % interval of the difference contains zero)"
    with figure_style():
        figure = Figure(figsize=(min(11.0, max(7.6, 1.6 + 0.6 * len(columns))), 4.8))
        panel = figure.subplots()
        draw_cells(panel, cells, columns, rows)
        panel.set(xlabel=heading(x), ylabel=heading(y))
        legend_of_cells(figure, cells, lambda scheme: look_of(scheme).label)
        write_title(figure, _title(cells, "trains" if has_pairs else "looks"))
        notes = [
            f"Colour: the scheme that trains soonest; {ties if has_pairs else 'ties are unknown'}.",
            f"Number: its {quantity(RATIO).label}." if panel.texts else "",
            "Empty: no result." if len(cells) < len(columns) * len(rows) else "",
        ]
        write_notes(figure, [*filter(None, notes), *at_best, *run_notes(frame, drawn, "Mean")])
    return figure


def _soonest(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cell: ``x``, ``y``, the best mean ``cost``, and ``schemes``.

    These are the best scheme and those that are not surely later by pairs of runs with one seed.
    With a single seed, it is the best scheme alone.
    """
    cell, scheme = ["x", "y"], ["x", "y", _SCHEME]
    runs = runs.groupby([*scheme, "seed"], as_index=False)[RATIO].mean()
    means = runs.groupby(scheme, as_index=False)[RATIO].mean()
    best = means.loc[means.groupby(cell)[RATIO].idxmin()]
    tied = best
    if runs["seed"].nunique() > 1:
        theirs = runs.merge(best[scheme]).drop(columns=_SCHEME).rename(columns={RATIO: "theirs"})
        pairs = runs.rename(columns={RATIO: "ours"}).merge(theirs, on=[*cell, "seed"])
        leads = paired_differences(pairs, scheme).set_index(scheme)
        later = leads.index[(leads["low"] > 0) | np.isinf(leads["difference"])]
        tied = means[~means.set_index(scheme).index.isin(later)]
    schemes = tied.groupby(cell)[_SCHEME].agg(tuple)
    return best.set_index(cell).assign(schemes=schemes, cost=best[RATIO].to_numpy()).reset_index()


def _title(cells: pd.DataFrame, verb: str) -> str:
    """Say where the most frequent scheme is alone the soonest, or that there is none."""
    count = counted(len(cells), "setting")
    is_alone = (cells["schemes"].map(len) == 1) & np.isfinite(cells["cost"])
    alone = cells.loc[is_alone, "schemes"].str[0].value_counts()
    if alone.empty:
        return f"Schemes tie in {count}"
    share = "all" if alone.iloc[0] == len(cells) else f"{alone.iloc[0]} of"
    ties = f"; schemes tie in {len(cells) - alone.sum()}" if alone.sum() < len(cells) else ""
    return f"{look_of(alone.index[0]).label} {verb} soonest in {share} {count}{ties}"
