"""A map of winners: named regions over two axes, and contour lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.figures.style import pale
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt, label

SOLID, PALE = 0.82, 0.34
"""Share of its colour that a region keeps, if its winner is certain and if it is not."""
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
    """The winner of each cell, as arrays of the shape (y, x)."""

    def __init__(
        self,
        cells: pd.DataFrame,
        won: pd.DataFrame,
        columns: tuple[str, str, str],
        names: Sequence[str],
        looks: Mapping[str, tuple[str, str]],
    ) -> None:
        """Enter winners: `names` in order, with `looks`, the colour and the label of each.

        All `cells`, and those `won`, have columns ``x`` and ``y``; `columns` of the latter are the
        winner, its value, and whether it is certain.
        """
        winner, value, sure = columns
        self.names, self.looks = names, looks
        self.xs = np.array(sorted(cells["x"].unique()))
        self.ys = np.array(sorted(cells["y"].unique()))
        shape = (len(self.ys), len(self.xs))
        # Index into the names, -1 without a winner; the value there is NaN.
        self.place, self.value = np.full(shape, -1), np.full(shape, np.nan)
        self.sure = np.zeros(shape, dtype=bool)
        at = np.searchsorted(self.ys, won["y"]), np.searchsorted(self.xs, won["x"])
        self.place[at] = won[winner].map(list(names).index)
        self.sure[at], self.value[at] = won[sure], won[value]


def draw_regions(axes: Axes, regions: Regions, axis: MapAxes) -> None:
    """Draw named regions in colour, paler if the winner is not certain."""
    colours = ["#FFFFFF"]
    for name in regions.names:
        colours += [pale(regions.looks[name][0], share) for share in (PALE, SOLID)]
    places = np.where(regions.place < 0, 0, 1 + 2 * regions.place + regions.sure)
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


def draw_levels(axes: Axes, regions: Regions, levels: Sequence[float], unit: str = "×") -> None:
    """Draw contour lines of the winner's value, labelled with the level and its unit."""
    if min(regions.value.shape) < 2:
        return
    filled = np.where(np.isfinite(regions.value), regions.value, np.nanmax(regions.value))
    lines = axes.contour(
        regions.xs, regions.ys, np.log(filled), levels=np.log(levels), colors="#222222",
        linewidths=0.7, linestyles=":", negative_linestyles=":",
    )  # fmt: skip
    written = {np.log(level): f"{level:g}{unit}" for level in levels}
    texts = axes.clabel(lines, fmt=written, fontsize=7, inline_spacing=2)
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
    for number, key in enumerate(regions.names):
        name = regions.looks[key][1]
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
