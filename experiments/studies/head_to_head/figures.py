"""The figures: which scheme trains soonest or with the fewest GPU-hours, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.regions import (
    PALE,
    SOLID,
    MapAxes,
    Regions,
    draw_levels,
    draw_regions,
)
from faultline.experiments.figures.style import (
    legend_below,
    mark,
    name_rows,
    pale,
    ticks_at,
    write_notes,
    write_title,
)
from faultline.experiments.studies.head_to_head.matches import winners
from faultline.experiments.studies.head_to_head.setting import APPROXIMATE, FACTS, SETTINGS
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

_RESTART = MapAxes(
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
_DOMAINS = MapAxes(
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
            regions = _regions(table, plane, name)
            draw_regions(panel, regions, axis)
            draw_levels(panel, regions, _LEVELS)
    for panel, title in zip(panels[0], _TITLES.values(), strict=True):
        panel.set_title(f"Which scheme {title}?", fontsize=14)
    # What explains the map; the regions are named on it.
    handles: list[Patch | Line2D] = [
        Patch(facecolor=pale("#0072B2", SOLID), label="surely the best"),
        Patch(facecolor=pale("#0072B2", PALE), label="the next is within the seeds' noise"),
        mark("the best's ratio", "#222222", linestyle=":", linewidth=1.0),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=10)
    approximate = set(APPROXIMATE) & set(table["scheme"])
    notes = [*_ABOUT, *([_APPROXIMATE] if approximate else []), *_too_large(table)]
    write_notes(figure, notes)
    return figure


def _regions(table: pd.DataFrame, plane: str, name: str) -> Regions:
    """Return who wins where in a plane."""
    won = winners(table, plane, name)
    schemes = sorted(won["scheme"].unique(), key=order_of)
    looks = {scheme: (look_of(scheme).colour, name_of(scheme)) for scheme in schemes}
    columns = ("scheme", "ratio" if name == "time" else "gpu_ratio", f"sure_{name}")
    return Regions(table[table["plane"] == plane], won, columns, schemes, looks)


def _too_large(table: pd.DataFrame) -> list[str]:
    """Return a note of the schemes that a GPU's memory does not do for in some cell."""
    simulated = table[table["seeds"] > 0]
    schemes = simulated.loc[~simulated["fits_memory"].astype(bool), "scheme"].unique()
    if not len(schemes):
        return []
    names = ", ".join(name_of(scheme) for scheme in sorted(schemes, key=order_of))
    return [f"Simulated as if their states fitted a GPU's memory, in some cells or all: {names}."]


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
    printed = ", ".join(f"{extra[place]:.1%} ({name})" for place, name in enumerate(SETTINGS)
                     if place in extra)  # fmt: skip
    notes = [f"Standbys add up to these GPU-hours: {printed}."] if printed else []
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
        # One above the other, so that neither hides the other.
        place = order[row.scheme, row.protection] + (0.18 if row.y else -0.18)
        ends = [[row.ratio - row.ratio_low], [row.ratio_high - row.ratio]]
        look = {"color": look_of(row.scheme).colour, **_FACT_LOOKS[int(row.y)]}
        panel.errorbar(row.ratio, place, xerr=ends, markersize=5, elinewidth=1.2, **look)
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
