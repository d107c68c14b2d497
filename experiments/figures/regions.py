"""A map of choices: named regions over two axes, and contour lines of their probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.figures.style import legend_below, mark, pale
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt, label

SOLID, PALE = 0.82, 0.34
"""Share of its colour that a region keeps, if its choice is certain and if it is not."""
_SURE_PERCENT = 80
_LEVELS_PERCENT = (50.0, 80.0, 95.0)
_HALO = [patheffects.withStroke(linewidth=3.0, foreground="white", alpha=0.85)]
_LEAST_REGION = 0.012
_LEAST_SIZE, _LARGEST_SIZE = 7.5, 13.0
# Width of a letter of one point, as a share of a panel's width.
_LETTER = 0.0019


@dataclass(frozen=True, slots=True)
class MapAxes:
    """The axes of a map; x is on a logarithmic scale."""

    # Labels of the axes.
    x: str
    y: str
    # Labels of ticks by value.
    x_ticks: Mapping[float, str]
    y_ticks: Mapping[float, str]
    log_y: bool  # Whether y is on a logarithmic scale, too.
    landmarks: tuple[tuple[float, float, str], ...] = ()  # Points with a name: x, y, name.


class Regions:
    """The choice in each cell of a map, as arrays of the shape (y, x)."""

    def __init__(self, cells: pd.DataFrame, looks: Mapping[str, tuple[str, str]]) -> None:
        """Read the cells.

        Parameters
        ----------
        cells : DataFrame
            A row per cell: ``x``, ``y``, the name of the choice (``best``), and the probability
            that it has the least cost (``percent``).
        looks : mapping of str to tuple of str
            Colour and label of each name.
        """
        self.looks = list(looks.values())
        table = cells.assign(best=cells["best"].map(list(looks).index))
        wide = table.pivot(index="y", columns="x", values=["best", "percent"])
        # Index into `looks`.
        self.place, self.percent = wide["best"].to_numpy(int), wide["percent"].to_numpy(float)
        self.xs, self.ys = wide["best"].columns.to_numpy(float), wide.index.to_numpy(float)


def draw_choices(
    axes: Axes, cells: pd.DataFrame, looks: Mapping[str, tuple[str, str]], axis: MapAxes
) -> None:
    """Draw the choice in each cell of a map, and lines of its probability (see `Regions`)."""
    regions = Regions(cells, looks)
    _draw_regions(axes, regions, axis)
    _draw_levels(axes, regions)


def choice_legend(figure: Figure, colour: str) -> None:
    """Explain the shades and lines of `draw_choices` below a figure, in a colour of the map."""
    likely, unlikely = (pale(colour, share) for share in (SOLID, PALE))
    legend_below(
        figure,
        [
            Patch(facecolor=likely, label=f"{_SURE_PERCENT} % likely to be the best"),
            Patch(facecolor=unlikely, label="less likely"),
            mark("its probability", "#222222", linestyle=":", linewidth=1.0),
        ],
        3,
    )


def _draw_regions(axes: Axes, regions: Regions, axis: MapAxes) -> None:
    """Draw named regions in colour, paler if the choice is not certain."""
    colours = [pale(colour, share) for colour, _ in regions.looks for share in (PALE, SOLID)]
    places = 2 * regions.place + (regions.percent >= _SURE_PERCENT)
    x_edges, y_edges = _edges(regions.xs, True), _edges(regions.ys, axis.log_y)
    axes.pcolormesh(
        x_edges, y_edges, places, cmap=ListedColormap(colours), vmin=-0.5, vmax=len(colours) - 0.5,
        rasterized=True,
    )  # fmt: skip
    # White lines between regions.
    look: dict[str, Any] = {"color": "white", "linewidth": 1.8}
    for row, column in np.argwhere(regions.place[:, 1:] != regions.place[:, :-1]):
        axes.plot([x_edges[column + 1]] * 2, y_edges[row : row + 2], **look)
    for row, column in np.argwhere(regions.place[1:] != regions.place[:-1]):
        axes.plot(x_edges[column : column + 2], [y_edges[row + 1]] * 2, **look)
    axes.set_xscale("log")
    axes.set_yscale("log" if axis.log_y else "linear")
    axes.set_xlim(x_edges[0], x_edges[-1])
    axes.set_ylim(y_edges[0], y_edges[-1])
    axes.grid(visible=False)
    axes.minorticks_off()
    axes.set_xticks(list(axis.x_ticks), list(axis.x_ticks.values()))
    axes.set_yticks(list(axis.y_ticks), list(axis.y_ticks.values()))
    axes.set_xlabel(axis.x)
    axes.set_ylabel(axis.y)
    _name_regions(axes, regions, _taken(regions, axis))
    for x, y, text in axis.landmarks:
        axes.plot(
            x, y, marker="*", markersize=13, color="#111111", markeredgecolor="white",
            markeredgewidth=1.0, zorder=7,
        )  # fmt: skip
        axes.annotate(
            text, (x, y), xytext=(8, -3), textcoords="offset points", ha="left", va="top",
            fontsize=8, path_effects=_HALO, zorder=7,
        )  # fmt: skip


def _draw_levels(axes: Axes, regions: Regions) -> None:
    """Draw contour lines of the choice's probability, labelled in percent."""
    if min(regions.percent.shape) < 2:
        return
    lines = axes.contour(
        regions.xs, regions.ys, np.log(regions.percent), levels=np.log(_LEVELS_PERCENT),
        colors="#222222", linewidths=0.7, linestyles=":", negative_linestyles=":",
    )  # fmt: skip
    labels = {np.log(level): f"{level:g} %" for level in _LEVELS_PERCENT}
    texts = axes.clabel(lines, fmt=labels, fontsize=7, inline_spacing=2)
    for text in texts or ():
        text.set_path_effects([patheffects.withStroke(linewidth=2.0, foreground="white")])


def _edges(centres: NDArray[np.float64], log: bool) -> NDArray[np.float64]:
    values = np.log(centres) if log else centres
    halves = np.diff(values) / 2 if len(values) > 1 else np.array([0.5])
    inner = values[:-1] + halves[: len(values) - 1]
    edges = np.concatenate([[values[0] - halves[0]], inner, [values[-1] + halves[-1]]])
    return np.exp(edges) if log else edges


def _taken(regions: Regions, axis: MapAxes) -> NDArray[np.bool_]:
    """Return the cells that landmarks and their labels cover."""
    taken = np.zeros(regions.place.shape, dtype=bool)
    columns, rows = len(regions.xs), len(regions.ys)
    for x, y, _ in axis.landmarks:
        column = int(np.abs(np.log(regions.xs) - np.log(x)).argmin())
        distances = regions.ys - y if not axis.log_y else np.log(regions.ys / y)
        row = int(np.abs(distances).argmin())
        low, last = row - max(1, round(0.08 * rows)), column + round(0.25 * columns)
        taken[max(0, low) : row + 1, column : last + 1] = True
    return taken


def _name_regions(axes: Axes, regions: Regions, taken: NDArray[np.bool_]) -> None:
    for number, (_, name) in enumerate(regions.looks):
        parts, count = label(regions.place == number)
        for part in range(1, count + 1):
            mask = parts == part
            free = mask & ~taken
            if mask.sum() < _LEAST_REGION * mask.size or not free.any():
                continue
            # Names are wide, so the free space should be wide rather than high.
            depth = distance_transform_edt(np.pad(free, 1), sampling=(1.0, 0.45))[1:-1, 1:-1]
            # Of equal places, the one nearest to the middle of the region is best.
            places = np.indices(free.shape)
            apart = places - places[:, free].mean(axis=1)[:, None, None]
            depth -= 1e-3 * np.hypot(*apart)
            row, column = np.unravel_index(int(depth.argmax()), depth.shape)
            room = mask[row].sum() / mask.shape[1]
            size = np.clip(room / (_LETTER * len(name)), _LEAST_SIZE, _LARGEST_SIZE)
            axes.text(
                regions.xs[column], regions.ys[row], name, ha="center", va="center",
                fontsize=float(size), fontweight="bold", color="#111111", path_effects=_HALO,
                zorder=6,
            )  # fmt: skip
