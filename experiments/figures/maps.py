"""The map of the best scheme over two axes of a sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import paired_differences
from faultline.experiments.analysis.quantities import counted, heading, quantity, shown_value
from faultline.experiments.analysis.selection import successful, without_other_knobs
from faultline.experiments.figures.curves import RATIO
from faultline.experiments.figures.palette import looks_of_schemes
from faultline.experiments.figures.style import (
    figure_style,
    in_order,
    pale,
    run_notes,
    write_notes,
    write_title,
)
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

_PALE = 0.55
"""Share of colour that keeps black numbers legible."""


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
        width = min(9.0, max(3.0, 1.0 + 0.55 * len(columns)))
        figure = Figure(figsize=(max(6.8, 2.2 + width), 4.4))
        axis = figure.subplots()
        places = table.assign(place=table["scheme"].map(schemes.index))
        grid = places.pivot(index=y, columns=x, values="place").reindex(index=rows, columns=columns)
        axis.pcolormesh(
            grid.to_numpy(dtype=float),
            cmap=ListedColormap(list(shades.values())),
            vmin=-0.5,
            vmax=len(schemes) - 0.5,
            edgecolors="white",
            linewidth=1.5,
        )
        for winner in table.to_dict(orient="records"):
            _annotate_winner(axis, winner, columns.index(winner[x]), rows.index(winner[y]))
        for target, key, values, most in ((axis.xaxis, x, columns, 12), (axis.yaxis, y, rows, 24)):
            shown = range(0, len(values), -(-len(values) // most))
            texts = [shown_value(key, values[place]) for place in shown]
            target.set_ticks([place + 0.5 for place in shown], texts)
            target.set_label_text(heading(key))
        axis.tick_params(length=0)
        axis.grid(visible=False)
        handles = [Patch(color=shades[one], label=looks[one].label) for one in schemes]
        unclear = Patch(facecolor="white", edgecolor="#777777", hatch="////", label="not certain")
        figure.legend(handles=[*handles, unclear], loc="outside right center")
        wins = table["scheme"].value_counts()
        share = f"in {wins.iloc[0]} of {counted(len(table), 'setting')}"
        write_title(figure, f"{looks[wins.index[0]].label} trains soonest {share}")
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
        f"{winner['mean']:.3g}".replace("inf", "∞"),
        ha="center",
        va="center",
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "alpha": 0.75, "linewidth": 0},
    )
