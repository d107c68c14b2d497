"""The figures: which scheme trains soonest or with the fewest GPU-hours, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.style import (
    legend_below,
    mark,
    name_rows,
    pale,
    ticks_at,
    write_notes,
    write_title,
)
from faultline.experiments.studies.head_to_head.playing import winners
from faultline.experiments.studies.head_to_head.setting import APPROXIMATE, FACTS, SETTINGS
from matplotlib import patheffects
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt, label

_SOLID, _PALE = 0.82, 0.34
_HALO = [patheffects.withStroke(linewidth=3.0, foreground="white", alpha=0.85)]
_LEAST_REGION = 0.012
_LEAST_SIZE, _LARGEST_SIZE = 7.5, 13.0
# Width of a letter of one point, as a part of a panel's.
_LETTER = 0.0019


@dataclass(frozen=True, slots=True)
class Axis2D:
    """What the axes of a plane are."""

    # Their labels.
    x: str
    y: str
    # Where and what.
    x_ticks: Mapping[float, str]
    y_ticks: Mapping[float, str]
    log_y: bool  # Whether y is on a logarithmic scale, as x always is.
    # Places that readers know, to be named: where, and what.
    landmarks: tuple[tuple[float, float, str], ...] = ()


_RESTART = Axis2D(
    "mean time between failures of the whole job",
    "time of a restart",
    {60: "1 min", 300: "5 min", 1800: "30 min", 7200: "2 h", 28_800: "8 h", 86_400: "1 d"},
    {10: "10 s", 60: "1 min", 300: "5 min", 900: "15 min", 3600: "1 h", 7200: "2 h"},
    True,
    (
        (5556, 908, "today: failures as of Llama 3,\nrestart as of ByteRobust"),
        (300, 3600, "600,000 GPUs as\nforeseen by SPARe"),
    ),
)
_DOMAINS = Axis2D(
    "GPUs of the job",
    "failures that break a whole scale-up domain",
    {1024: "1k", 4096: "4k", 16_384: "16k", 65_536: "64k", 262_144: "256k", 600_064: "600k"},
    {share / 100: f"{share} %" for share in range(0, 101, 20)},
    False,
)
_KEPT = {"reft": "REFT", "gemini": "Gemini", "just-in-time": "just in time"}
_LEVELS = (1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0)
_TITLES = {"time": "trains soonest", "gpu_hours": "needs the fewest GPU-hours"}

_APPROXIMATE = "* Trains on approximate gradients while a node works for two, which is not charged."
_ABOUT = (
    "Above: 64 groups of 512 B300, 32,768 GPUs; below: as many groups of 512 as there are GPUs.",
    "A dense model of 4T parameters, scale-up domains of 32 GPUs; all-reduce, checkpoints and "
    "loading take what SimGrid measures on the platform.",
    "All schemes meet the same failures. Repairs take 3 to 5 days (78 %: hardware) or 3 h.",
    "Where a restart finds new hardware, spares stand by and count as GPU-hours, and take the "
    "places of dropped groups after a restart's time; other schemes go on without what is broken.",
    "Each scheme at the redundancy and checkpoint interval that its closed forms advise, over "
    "in-memory checkpoints (REFT) where that suits it. Ratios are to a run without failures.",
)

_ORDER = (
    "checkpoint", "replication", "spare", "dp-drop", "ntp", "ntp-pw", "mecefo", "bamboo", "oobleck",
    "recycle", "varuna", "warm-standby", "replica-drop",
)  # fmt: skip


def colour_of(scheme: str) -> str:
    """Return the colour of a scheme's region."""
    return look_of(scheme).colour


def name_of(scheme: str) -> str:
    """Return a scheme's name as its authors write it; with a star if it is approximate."""
    return title_of(scheme, star=True)


def order_of(scheme: str) -> tuple[int, str]:
    """Return what sorts schemes: those that are shipped in their order, then all others."""
    return (_ORDER.index(scheme) if scheme in _ORDER else len(_ORDER), scheme)


def draw_phase_diagram(table: pd.DataFrame) -> Figure:
    """Draw both planes, by time and by GPU-hours."""
    figure, panels = plt.subplots(2, 2, figsize=(13.5, 10.6), layout="constrained")
    for row, (plane, axis) in enumerate((("restart", _RESTART), ("domains", _DOMAINS))):
        for panel, name in zip(panels[row], _TITLES, strict=True):
            region = Region(table, plane, name)
            draw_phase(panel, region, axis)
            draw_levels(panel, region)
    for panel, title in zip(panels[0], _TITLES.values(), strict=True):
        panel.set_title(f"Which scheme {title}?", fontsize=14)
    # What explains the map; the regions are named on it.
    handles: list[Patch | Line2D] = [
        Patch(facecolor=pale("#0072B2", _SOLID), label="surely the best"),
        Patch(facecolor=pale("#0072B2", _PALE), label="the next is within the seeds' noise"),
        mark("the best's ratio", "#222222", linestyle=":", linewidth=1.0),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=10)
    approximate = set(APPROXIMATE) & set(table["scheme"])
    notes = [*_ABOUT, *([_APPROXIMATE] if approximate else []), *_too_large(table)]
    write_notes(figure, notes)
    return figure


def _too_large(table: pd.DataFrame) -> list[str]:
    """Return a note of the schemes that a GPU's memory does not do for in some cell."""
    played = table[table["seeds"] > 0]
    schemes = played.loc[~played["fits_memory"].astype(bool), "scheme"].unique()
    if not len(schemes):
        return []
    names = ", ".join(name_of(scheme) for scheme in sorted(schemes, key=order_of))
    return [f"Played as if their states fitted a GPU's memory, in some cells or all: {names}."]


def draw_settings(table: pd.DataFrame) -> Figure:
    """Draw each candidate's time to train, a panel a setting, with 95 % intervals.

    All panels have the candidates in one order: that of the mean ratio over the settings.
    """
    mine = table[(table["plane"] == "settings") & (table["seeds"] > 0)]
    mine = mine[np.isfinite(mine["ratio"])]
    logarithms = np.log(mine["ratio"]).groupby([mine["scheme"], mine["protection"]]).mean()
    order = {pair: place for place, pair in enumerate(logarithms.sort_values().index)}
    figure, panels = plt.subplots(
        1, len(SETTINGS), figsize=(9.4, 0.36 * len(order) + 1.8), sharey=True
    )
    for place, (panel, (setting, mtbf_s)) in enumerate(zip(panels, SETTINGS.items(), strict=True)):
        here = mine[mine["x"] == place]
        _dots(panel, here, order)
        panel.set_title(f"{setting}: a failure\nevery {_time(mtbf_s)}")
        panel.set_xlabel("time to train (log)")
    names = [f"{name_of(scheme)} · {_KEPT.get(kept, kept)}" for scheme, kept in order]
    name_rows(panels[0], range(len(order)), names)
    handles = [
        mark(f"machines: {fact}", linestyle="none", **look)
        for fact, look in zip(FACTS, _FACT_LOOKS, strict=True)
    ]
    legend_below(figure, handles, 2)
    soonest = set(mine.loc[mine.groupby(["x", "y"])["ratio"].idxmin(), "scheme"])
    title = "Time to train, in the order of the mean over all settings"
    if len(soonest) == 1:
        title = f"{name_of(soonest.pop())} trains soonest in every setting"
    write_title(figure, title)
    standby = mine[(mine["y"] == 1) & (mine["spare_gpus"] > 0)]
    extra = (standby["gpu_ratio"] / standby["ratio"] - 1).groupby(standby["x"]).max()
    told = ", ".join(f"{extra[place]:.1%} ({name})" for place, name in enumerate(SETTINGS)
                     if place in extra)  # fmt: skip
    notes = [f"Standbys add up to these GPU-hours: {told}."] if told else []
    about = "Time over that of a run without failures, with 95 % intervals."
    write_notes(figure, [about, *notes, _APPROXIMATE])
    return figure


_FACT_LOOKS: tuple[Mapping[str, Any], ...] = (
    {"marker": "o"},
    {"marker": "s", "markerfacecolor": "white"},
)
"""How marks look by where machines come from, in the order of `FACTS`."""


def _dots(panel: Axes, here: pd.DataFrame, order: Mapping[tuple[str, str], int]) -> None:
    for row in here.itertuples(index=False):
        # The colour of a region is too pale for a mark.
        colour = colour_of(row.scheme)
        # One above the other, so that neither hides the other.
        place = order[row.scheme, row.protection] + (0.18 if row.y else -0.18)
        panel.errorbar(
            row.ratio, place, xerr=[[row.ratio - row.ratio_low], [row.ratio_high - row.ratio]],
            color=colour, markersize=5, elinewidth=1.2, **_FACT_LOOKS[int(row.y)],
        )  # fmt: skip
    panel.set_xscale("log")
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x")
    panel.grid(axis="y", visible=False)
    # Bands of every second candidate lead the eye from the name.
    for place in range(0, len(order), 2):
        panel.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
    far = here["ratio"].max() > 4.0
    ticks_at(panel.xaxis, [1, 2, 5, 10] if far else [1, 1.2, 1.5, 2, 3])
    panel.set_xlim(0.97, 1.06 * here["ratio_high"].max())


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 3600 else f"{seconds / 60:.3g} min"


class Region:
    """Who wins where in a plane, as arrays of the shape (y, x)."""

    def __init__(self, table: pd.DataFrame, plane: str, name: str) -> None:
        mine = table[table["plane"] == plane]
        won = winners(table, plane, name)
        metric = "ratio" if name == "time" else "gpu_ratio"
        self.xs = np.array(sorted(mine["x"].unique()))
        self.ys = np.array(sorted(mine["y"].unique()))
        self.schemes = sorted(won["scheme"].unique(), key=order_of)
        shape = (len(self.ys), len(self.xs))
        self.place, self.ratio = np.full(shape, -1), np.full(shape, np.nan)
        self.sure = np.zeros(shape, dtype=bool)
        at = np.searchsorted(self.ys, won["y"]), np.searchsorted(self.xs, won["x"])
        self.place[at] = won["scheme"].map(self.schemes.index)
        self.sure[at], self.ratio[at] = won[f"sure_{name}"], won[metric]


def draw_phase(axes: Axes, region: Region, axis: Axis2D) -> None:
    """Draw a plane: regions in colour, paler where seeds do not decide, with their names inside."""
    colours = ["#FFFFFF"]
    for scheme in region.schemes:
        colours += [pale(colour_of(scheme), _PALE), pale(colour_of(scheme), _SOLID)]
    places = np.where(region.place < 0, 0, 1 + 2 * region.place + region.sure)
    x_edges, y_edges = _edges(region.xs, True), _edges(region.ys, axis.log_y)
    axes.pcolormesh(
        x_edges, y_edges, places, cmap=ListedColormap(colours), vmin=-0.5, vmax=len(colours) - 0.5,
        rasterized=True,
    )  # fmt: skip
    # White lines between regions.
    look: dict[str, Any] = {"color": "white", "linewidth": 1.8}
    for row, column in np.argwhere(region.place[:, 1:] != region.place[:, :-1]):
        axes.plot([x_edges[column + 1]] * 2, y_edges[row : row + 2], **look)
    for row, column in np.argwhere(region.place[1:] != region.place[:-1]):
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
    _name_regions(axes, region, _taken(region, axis))
    for x, y, text in axis.landmarks:
        axes.plot(
            x, y, marker="*", markersize=13, color="#111111", markeredgecolor="white",
            markeredgewidth=1.0, zorder=7,
        )  # fmt: skip
        axes.annotate(
            text, (x, y), xytext=(8, -3), textcoords="offset points", ha="left", va="top",
            fontsize=8, path_effects=_HALO, zorder=7,
        )  # fmt: skip


def draw_levels(axes: Axes, region: Region) -> None:
    """Draw lines of equal best ratio, with the ratio on them."""
    if min(region.ratio.shape) < 2:
        return
    filled = np.where(np.isfinite(region.ratio), region.ratio, np.nanmax(region.ratio))
    lines = axes.contour(
        region.xs, region.ys, np.log(filled), levels=np.log(_LEVELS), colors="#222222",
        linewidths=0.7, linestyles=":", negative_linestyles=":",
    )  # fmt: skip
    written = {np.log(level): f"{level:g}×" for level in _LEVELS}
    texts = axes.clabel(lines, fmt=written, fontsize=7, inline_spacing=2)
    for text in texts or ():
        text.set_path_effects([patheffects.withStroke(linewidth=2.0, foreground="white")])


def _edges(centres: NDArray[np.float64], log: bool) -> NDArray[np.float64]:
    values = np.log(centres) if log else centres
    halves = np.diff(values) / 2 if len(values) > 1 else np.array([0.5])
    inner = values[:-1] + halves[: len(values) - 1]
    edges = np.concatenate([[values[0] - halves[0]], inner, [values[-1] + halves[-1]]])
    return np.exp(edges) if log else edges


def _taken(region: Region, axis: Axis2D) -> NDArray[np.bool_]:
    """Return the cells where landmarks and their texts are."""
    taken = np.zeros(region.place.shape, dtype=bool)
    columns, rows = len(region.xs), len(region.ys)
    for x, y, _ in axis.landmarks:
        column = int(np.abs(np.log(region.xs) - np.log(x)).argmin())
        distances = region.ys - y if not axis.log_y else np.log(region.ys / y)
        row = int(np.abs(distances).argmin())
        low, last = row - max(1, round(0.08 * rows)), column + round(0.25 * columns)
        taken[max(0, low) : row + 1, column : last + 1] = True
    return taken


def _name_regions(axes: Axes, region: Region, taken: NDArray[np.bool_]) -> None:
    for number, scheme in enumerate(region.schemes):
        parts, count = label(region.place == number)
        for part in range(1, count + 1):
            mask = parts == part
            free = mask & ~taken
            if mask.sum() < _LEAST_REGION * mask.size or not free.any():
                continue
            # Wide rather than high: names are.
            depth = distance_transform_edt(np.pad(free, 1), sampling=(1.0, 0.45))[1:-1, 1:-1]
            # The distance from the middle of a region decides between equals.
            places = np.indices(free.shape)
            apart = places - places[:, free].mean(axis=1)[:, None, None]
            depth -= 1e-3 * np.hypot(*apart)
            row, column = np.unravel_index(int(depth.argmax()), depth.shape)
            room = mask[row].sum() / mask.shape[1]
            size = np.clip(room / (_LETTER * len(name_of(scheme))), _LEAST_SIZE, _LARGEST_SIZE)
            axes.text(
                region.xs[column], region.ys[row], name_of(scheme), ha="center", va="center",
                fontsize=float(size), fontweight="bold", color="#111111", path_effects=_HALO,
                zorder=6,
            )  # fmt: skip
