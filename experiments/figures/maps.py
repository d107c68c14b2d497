"""Maps of cells over two axes: the mean of a metric, and the best scheme."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds, paired_differences
from faultline.experiments.analysis.quantities import quantity, shown_value
from faultline.experiments.analysis.selection import successful, without_other_knobs
from faultline.experiments.figures.curves import RATIO
from faultline.experiments.figures.palette import looks_of_schemes
from faultline.experiments.figures.style import (
    figure_style,
    in_order,
    label_outer,
    make_panels,
    pale,
    panels_by,
    plain_ticks,
    run_notes,
    spans,
    write_notes,
    write_title,
)
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

_PALE = 0.55
"""Share of colour that keeps black numbers legible."""

CELLS_ANNOTATED = 150
"""Largest number of cells of a panel with numbers."""

_COLOURS = "cividis_r"
_LEAST_SPREAD = 0.05
"""The scale of colours spans at least this share of its middle."""


def cell_grid(
    table: pd.DataFrame, x: str, y: str, value: str, columns: list[Any], rows: list[Any]
) -> pd.DataFrame:
    """Return a column of a tidy table as a grid; cells without a value are NaN."""
    return table.pivot(index=y, columns=x, values=value).reindex(index=rows, columns=columns)


def cell_text(value: float) -> str:
    """Return the number in a cell, with three significant digits; near 1 with four."""
    if np.isnan(value):
        return ""
    if np.isinf(value):
        return "∞"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.4g}" if 0.9 < abs(value) < 1.1 else f"{value:.3g}"


def panel_size(columns: list[Any], rows: list[Any]) -> tuple[float, float]:
    """Return width and height of a panel in inches, so that numbers fit into its cells."""
    width = min(9.0, max(3.0, 1.0 + 0.55 * len(columns)))
    return width, min(9.0, max(2.8, 1.0 + 0.42 * len(rows)))


def name_ticks(axis: Axes, x: str, y: str, columns: list[Any], rows: list[Any]) -> None:
    """Label the cells of both axes, as far as there is room."""
    for target, key, values, most in (
        (axis.xaxis, x, columns, 12),
        (axis.yaxis, y, rows, 24),
    ):
        step = -(-len(values) // most)
        shown = range(0, len(values), step)
        target.set_ticks(
            [place + 0.5 for place in shown], [shown_value(key, values[place]) for place in shown]
        )
    axis.tick_params(axis="x", rotation=0, length=0)
    axis.tick_params(axis="y", rotation=0, length=0)
    axis.grid(visible=False)


def draw_heat_map(
    frame: pd.DataFrame, x: str, y: str, column: str, notes: Sequence[str] = ()
) -> Figure:
    """Draw the mean ratio over seeds, with a cell per `x` and `y` and a panel per `column`.

    Both axes may be numeric or not. Cells with an infinite mean have the mark ∞. All panels share
    one scale of colours, in which better values are lighter. The other arguments are those of
    `curves.draw_curves`.
    """
    table = mean_over_seeds(successful(frame), [column, x, y], RATIO)
    norm = _norm(table["mean"])
    columns, rows = in_order(frame[x]), in_order(frame[y])
    with figure_style():
        figure, panels = panels_by(frame, table, column, *panel_size(columns, rows))
        for axis, mine in panels:
            _draw_cells(axis, cell_grid(mine, x, y, "mean", columns, rows), norm)
            name_ticks(axis, x, y, columns, rows)
        axes = [axis for axis, _ in panels]
        label_outer(axes, quantity(x).with_unit, quantity(y).with_unit)
        bar = figure.colorbar(ScalarMappable(norm, _COLOURS), ax=axes, label=quantity(RATIO).label)
        plain_ticks(bar.ax.yaxis, log=isinstance(norm, LogNorm), digits=6)
        bar.outline.set_visible(False)
        write_title(figure, f"{quantity(RATIO).label}, mean over seeds")
        write_notes(figure, [*notes, *run_notes(frame, (x, y, column), "Mean")])
    return figure


def _draw_cells(axis: Axes, cells: pd.DataFrame, norm: Normalize) -> None:
    annotated = cells.size <= CELLS_ANNOTATED
    values = cells.to_numpy(dtype=float)
    axis.set_facecolor("#EEEEEE")
    axis.pcolormesh(
        np.ma.masked_invalid(values),
        norm=norm,
        cmap=_COLOURS,
        edgecolors="white" if annotated else "none",
        linewidth=1.0 if annotated else 0.0,
    )
    for (row, column), value in np.ndenumerate(values):
        # An infinite mean always has its mark, to distinguish it from a missing one.
        if annotated or np.isinf(value):
            shade = (
                _text_colour(colormaps[_COLOURS](norm(value))) if np.isfinite(value) else "black"
            )
            axis.text(
                column + 0.5, row + 0.5, cell_text(value), ha="center", va="center", color=shade
            )


def _text_colour(background: tuple[float, float, float, float]) -> str:
    """Return black or white, whichever has more contrast (WCAG 2 relative luminance)."""
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in background[:3]
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if luminance > 0.179 else "white"


def _norm(means: pd.Series) -> Normalize:
    finite = means[np.isfinite(means)]
    if finite.empty:
        return Normalize(0, 1)
    low, high = float(finite.min()), float(finite.max())
    # Negligible differences must not span the whole scale of colours.
    widened = max(0.0, _LEAST_SPREAD * (high + low) / 2 - (high - low)) / 2
    # The ratio of a job without failures is 1.
    bottom = min(low, max(1.0, low - widened))
    return (LogNorm if spans(finite) else Normalize)(bottom, high + widened)


def draw_best_map(frame: pd.DataFrame, x: str, y: str) -> Figure:
    """Draw the scheme with the least time-to-train ratio in each cell of `x` and `y`, and its mean.

    Knobs of the schemes, such as the redundancy, are at their best in each cell; other axes are
    averaged over. A cell is hatched if the lead over the second best is not significant: the 95 %
    interval of the difference, paired by seed, contains zero or is unknown.
    """
    drawn = (x, y, "strategy.name")
    frame, at_best = without_other_knobs(frame, drawn, RATIO)
    table = _winners(successful(frame), x, y)
    columns, rows = in_order(frame[x]), in_order(frame[y])
    schemes = in_order(frame["strategy.name"])
    looks = looks_of_schemes(schemes)
    shades = {scheme: pale(look.colour, _PALE) for scheme, look in looks.items()}
    with figure_style():
        figure, panels = make_panels([], *panel_size(columns, rows))
        axis = panels[None]
        places = table.assign(place=table["scheme"].map(schemes.index))
        axis.pcolormesh(
            cell_grid(places, x, y, "place", columns, rows).to_numpy(dtype=float),
            cmap=ListedColormap(list(shades.values())),
            vmin=-0.5,
            vmax=len(schemes) - 0.5,
            edgecolors="white",
            linewidth=1.5,
        )
        for winner in table.to_dict(orient="records"):
            _annotate_winner(axis, winner, columns.index(winner[x]), rows.index(winner[y]))
        name_ticks(axis, x, y, columns, rows)
        label_outer([axis], quantity(x).with_unit, quantity(y).with_unit)
        handles = [Patch(color=shades[one], label=looks[one].label) for one in schemes]
        unclear = Patch(facecolor="white", edgecolor="#777777", hatch="////", label="not certain")
        figure.legend(handles=[*handles, unclear], loc="outside right upper")
        write_title(figure, f"best scheme by {quantity(RATIO).label}")
        note = (
            f"Numbers: its {quantity(RATIO).label}. Hatched: the 95 % interval of the difference "
            "from the second best, paired by seed, contains zero."
        )
        write_notes(figure, [note, *at_best, *run_notes(frame, drawn, "Mean")])
    return figure


def _winners(runs: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """Return the best ``scheme`` per cell, its ``mean``, and whether its lead is ``certain``."""
    # A row per cell and seed, a column per scheme.
    seeds = runs.pivot_table(index=[x, y, "seed"], columns="strategy.name", values=RATIO)
    means = seeds.groupby([x, y]).mean()
    order = np.argsort(means.fillna(np.inf).to_numpy(), axis=1, kind="stable")
    winners = pd.DataFrame(
        {"scheme": means.columns.to_numpy()[order[:, 0]], "mean": _taken(means, order[:, 0])},
        means.index,
    )
    winners["certain"] = True
    if len(means.columns) > 1:
        cells = means.index.get_indexer(seeds.index.droplevel("seed"))
        leads = {"ours": _taken(seeds, order[cells, 1]), "theirs": _taken(seeds, order[cells, 0])}
        pairs = pd.DataFrame(leads, seeds.index).dropna().reset_index()
        lead = paired_differences(pairs, [x, y]).set_index([x, y])
        clear = (lead["low"] > 0) | np.isinf(lead["difference"])
        winners["certain"] = clear.reindex(winners.index, fill_value=False)
        # A single scheme in a cell has no rival.
        winners.loc[means.notna().sum(axis=1) == 1, "certain"] = True
    return winners.reset_index()


def _taken(table: pd.DataFrame, columns: np.ndarray) -> np.ndarray:
    """Return one value of each row: that of the column with the given number."""
    values: np.ndarray = table.to_numpy(dtype=float)[np.arange(len(table)), columns]
    return values


def _annotate_winner(axis: Axes, winner: dict[Any, Any], column: int, row: int) -> None:
    if not winner["certain"]:
        axis.add_patch(
            Rectangle(
                (column, row), 1, 1, fill=False, hatch="////", edgecolor="#777777", linewidth=0
            )
        )
    axis.text(
        column + 0.5,
        row + 0.5,
        cell_text(winner["mean"]),
        ha="center",
        va="center",
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "alpha": 0.75, "linewidth": 0},
    )
