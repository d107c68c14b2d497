#!/usr/bin/env python3
"""Draw the published maps of an earlier method, until `make publish ARGS=head-to-head` has run.

.ci/earlier_maps.py

The published table has a row per cell of fine grids, from emulators. A block of cells has the
scheme that most of them have. It ties with the schemes of the blocks around it if it is less than
90 % likely to be the best, and the choice loses less than 1 % of the time: borders are noise there.
"""

from __future__ import annotations

from math import log
from pathlib import Path

import pandas as pd
from faultline.experiments.figures.style import figure_style, save_figure
from faultline.experiments.studies.head_to_head.figures import map_figures
from matplotlib.axes import Axes

PUBLISHED = Path(__file__).resolve().parents[1] / "results" / "published"
_BLOCK = 4
"""Cells of a block, along either axis."""
_LEAST_SHARE = 0.1
"""Of the cells around: schemes that have fewer are left out."""
_SURE, _TIE = 0.9, 0.01
_RATES = {"5 min": 300, "30 min": 1800, "2 h": 7200, "8 h": 28_800, "1 d": 86_400}
_SIZES = {"1k": 1e3, "4k": 4e3, "16k": 16e3, "64k": 64e3, "256k": 256e3, "600k": 6e5}
_RESTARTS = {"10 s": 10, "1 min": 60, "5 min": 300, "15 min": 900, "1 h": 3600, "2 h": 7200}
_STALLS = {"10 s": 10, "30 s": 30, "1 min": 60, "3 min": 180, "5 min": 300, "15 min": 900}


def blocks(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row per block of the maps, with the columns that figures read."""
    rows = []
    for (job, name), of_map in cells.groupby(["job", "map"], sort=False):
        # Numbers of the block of each cell.
        block_of = {
            axis: (of_map[axis].rank(method="dense").astype(int) - 1) // _BLOCK for axis in "xy"
        }
        schemes = of_map["best"].str.partition("/")[0]
        for (x, y), block in of_map.groupby([block_of["x"], block_of["y"]]):
            around = block_of["x"].between(x - 1, x + 1) & block_of["y"].between(y - 1, y + 1)
            shares = schemes[around].value_counts(normalize=True)
            is_tie = block["regret"].mean() < _TIE and block["probability"].mean() < _SURE
            tied = shares[shares >= _LEAST_SHARE].index if is_tie else ()
            found = {
                "best": schemes[block.index].mode()[0],
                "ties": " ".join(tied),
                "cost": block["cost"].mean(),
            }
            rows.append({"job": job, "map": name, **block[["x", "y"]].mean(), **found})
    return pd.DataFrame(rows)


def _tick(axes: Axes, name: str, ticks: dict[str, float]) -> None:
    """Label an axis at some values of its logarithmic scale, whose ends are ticks."""
    values = list(ticks.values())
    low, high = log(values[0]), log(values[-1])
    length = dict(zip("xy", (axes.get_xlim()[1], axes.get_ylim()[1]), strict=True))[name]
    places = [length * (log(value) - low) / (high - low) for value in values]
    axes.set(**{f"{name}ticks": places, f"{name}ticklabels": list(ticks)})


def main() -> None:
    """Draw the figures."""
    table = blocks(pd.read_csv(PUBLISHED / "head-to-head-maps.csv"))
    with figure_style():
        for file, draw in map_figures(table).items():
            figure = draw()
            for axes in figure.axes:
                _tick(axes, "x", _SIZES if "sizes" in file else _RATES)
                if "sizes" in file:
                    top = axes.get_ylim()[1]
                    shares = [top * part / 4 for part in range(5)]
                    axes.set_yticks(shares, [f"{share / top:.0%}" for share in shares])
                else:
                    _tick(axes, "y", _STALLS if "stalls" in file else _RESTARTS)
            save_figure(figure, PUBLISHED / file)


if __name__ == "__main__":
    main()
