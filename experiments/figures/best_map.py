"""Which scheme is best where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.best import without_other_knobs
from faultline.experiments.analysis.intervals import half_width
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.analysis.selection import successful
from faultline.experiments.figures.cells import (
    cell_grid,
    cell_text,
    name_ticks,
    panel_size,
)
from faultline.experiments.figures.panels import (
    in_order,
    label_outer,
    looks_of,
    make_panels,
    run_notes,
    write_notes,
    write_title,
)
from faultline.experiments.figures.style import figure_style
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle


def draw_best_map(
    frame: pd.DataFrame, x: str, y: str, metric: str, by: str = "strategy.name"
) -> Figure:
    """Draw which value of `by` is best in each cell of `x` and `y`, and its mean.

    Knobs of the schemes that are not drawn, such as the redundancy, are at their best in each cell;
    other axes are averaged over. A cell is hatched where the best and the second cannot be told
    apart: where the 95 % interval of their difference, paired by seed, holds zero or is unknown.

    Parameters
    ----------
    frame : DataFrame
        A sweep, a row a run; failed runs are left out and counted in a note.
    x, y : str
        Two axes, numeric or not.
    metric : str
        A numeric column that is better the lower, or the higher, it is.
    by : str
        The axis whose best value is sought.

    Raises
    ------
    UserError
        If no run gave a record.
    """
    frame, at_best = without_other_knobs(frame, {x, y, by}, metric)
    table = _winners(successful(frame), x, y, metric, by)
    columns, rows = in_order(frame[x]), in_order(frame[y])
    values = in_order(frame[by])
    looks = looks_of(by, values)
    with figure_style():
        figure, panels = make_panels([], *panel_size(columns, rows))
        axis = panels[None]
        places = table.assign(place=[values.index(value) for value in table[by]])
        axis.pcolormesh(
            cell_grid(places, x, y, "place", columns, rows).to_numpy(dtype=float),
            cmap=ListedColormap([_pale(looks[value].colour) for value in values]),
            vmin=-0.5,
            vmax=len(values) - 0.5,
            edgecolors="white",
            linewidth=1.5,
        )
        for winner in table.to_dict(orient="records"):
            _annotate_winner(axis, winner, columns.index(winner[x]), rows.index(winner[y]))
        name_ticks(axis, x, y, columns, rows)
        label_outer([axis], quantity(x).with_unit, quantity(y).with_unit)
        handles = [
            Patch(color=_pale(looks[value].colour), label=looks[value].label) for value in values
        ]
        unclear = Patch(facecolor="white", edgecolor="#777777", hatch="////", label="not certain")
        figure.legend(handles=[*handles, unclear], loc="outside right upper")
        label = quantity(metric).with_unit
        write_title(figure, f"best {quantity(by).label} by {quantity(metric).label}")
        notes = [
            f"Numbers: its {label}. Hatched: the 95 % interval of the difference "
            "from the second best, paired by seed, holds zero."
        ]
        write_notes(figure, [*notes, *at_best, *run_notes(frame, (x, y, by), "Mean")])
    return figure


def _winners(runs: pd.DataFrame, x: str, y: str, metric: str, by: str) -> pd.DataFrame:
    """Return the best value of `by` a cell, its mean, and whether it surely beats the second."""
    # A row a cell and seed, a column a value of `by`.
    seeds = runs.pivot_table(index=[x, y, "seed"], columns=by, values=metric, aggfunc="mean")
    means = seeds.groupby([x, y]).mean()
    signed = -means if quantity(metric).better == "higher" else means
    order = np.argsort(signed.fillna(np.inf).to_numpy(), axis=1, kind="stable")
    best = pd.Series(means.columns.to_numpy()[order[:, 0]], index=means.index)
    winners = pd.DataFrame({by: best, "mean": _taken(means, order[:, 0]) * quantity(metric).scale})
    winners["certain"] = True
    if len(means.columns) > 1:
        cells = means.index.get_indexer(seeds.index.droplevel("seed"))
        with np.errstate(invalid="ignore"):
            lead = _taken(seeds, order[cells, 1]) - _taken(seeds, order[cells, 0])
        winners["certain"] = _is_clear(pd.Series(lead, seeds.index).groupby([x, y]))
        # Alone in its cell, it has nobody to beat.
        winners.loc[means.notna().sum(axis=1) == 1, "certain"] = True
    return winners.reset_index()


def _taken(table: pd.DataFrame, columns: np.ndarray) -> np.ndarray:
    """Return one value of each row: that of the column named for it by number."""
    values: np.ndarray = table.to_numpy(dtype=float)[np.arange(len(table)), columns]
    return values


def _is_clear(leads: Any) -> pd.Series:
    """Whether the interval of each mean lead, paired by seed, keeps away from zero."""
    table = leads.agg(["mean", "std", "count"])
    half = half_width(table["std"], table["count"])
    clear = (table["mean"].abs() > half) | np.isinf(table["mean"])
    return pd.Series(clear, table.index)


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


def _pale(colour: str) -> tuple[float, float, float]:
    """Return a colour mixed with white, so that black numbers read on it."""
    red, green, blue = colors.to_rgb(colour)
    return (0.45 + 0.55 * red, 0.45 + 0.55 * green, 0.45 + 0.55 * blue)
