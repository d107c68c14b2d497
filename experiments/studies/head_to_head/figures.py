"""The figures of the head-to-head."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from faultline.experiments.figures.style import figure_style, save_figure, write_notes
from faultline.experiments.studies.head_to_head.candidates import APPROXIMATE
from faultline.experiments.studies.head_to_head.cells import SETTINGS
from faultline.experiments.studies.head_to_head.looks import colour_of, name_of, order_of
from faultline.experiments.studies.head_to_head.phase_figure import (
    Axis2D,
    Landmark,
    Region,
    draw_levels,
    draw_phase,
    legend_handles,
)
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

_RESTART = Axis2D(
    "mean time between failures of the whole job",
    "time of a restart",
    (
        (60, "1 min"),
        (300, "5 min"),
        (1800, "30 min"),
        (7200, "2 h"),
        (28_800, "8 h"),
        (86_400, "1 d"),
    ),
    ((10, "10 s"), (60, "1 min"), (300, "5 min"), (900, "15 min"), (3600, "1 h"), (7200, "2 h")),
    True,
    (
        Landmark(5556, 908, "today: failures as of Llama 3,\nrestart as of ByteRobust"),
        Landmark(300, 3600, "600,000 GPUs as\nforeseen by SPARe"),
    ),
)
_DOMAINS = Axis2D(
    "GPUs of the job",
    "failures that break a whole scale-up domain",
    (
        (1024, "1k"),
        (4096, "4k"),
        (16_384, "16k"),
        (65_536, "64k"),
        (262_144, "256k"),
        (600_064, "600k"),
    ),
    tuple((share / 100, f"{share} %") for share in range(0, 101, 20)),
    False,
    (),
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


def draw_phase_diagram(table: pd.DataFrame, path: Path) -> Path:
    """Draw both planes, by time and by GPU-hours."""
    with figure_style():
        figure, panels = plt.subplots(2, 2, figsize=(13.5, 10.6), layout="constrained")
        for row, (plane, axis) in enumerate((("restart", _RESTART), ("domains", _DOMAINS))):
            for panel, name in zip(panels[row], _TITLES, strict=True):
                region = Region(table, plane, name)
                draw_phase(panel, region, axis)
                draw_levels(panel, region, _LEVELS)
        for panel, title in zip(panels[0], _TITLES.values(), strict=True):
            panel.set_title(f"Which scheme {title}?", fontsize=14)
        figure.legend(handles=legend_handles(), loc="outside upper center", ncols=4, fontsize=10)
        approximate = set(APPROXIMATE) & set(table["scheme"])
        notes = [*_ABOUT, *([_APPROXIMATE] if approximate else []), *_too_large(table)]
        write_notes(figure, notes)
    return save_figure(figure, path)


def _too_large(table: pd.DataFrame) -> list[str]:
    """Return a note of the schemes that a GPU's memory does not do for in some cell."""
    played = table[table["seeds"] > 0]
    schemes = played.loc[~played["fits_memory"].astype(bool), "scheme"].unique()
    if not len(schemes):
        return []
    names = ", ".join(name_of(scheme) for scheme in sorted(schemes, key=order_of))
    return [f"Played as if their states fitted a GPU's memory, in some cells or all: {names}."]


def draw_settings(table: pd.DataFrame, path: Path) -> Path:
    """Draw the candidates of each setting in the order of their ratios, with 95 % intervals."""
    mine = table[(table["plane"] == "settings") & (table["seeds"] > 0)]
    with figure_style():
        figure, panels = plt.subplots(1, len(SETTINGS), figsize=(14.5, 5.4), layout="constrained")
        for place, (panel, (setting, mtbf_s)) in enumerate(
            zip(panels, SETTINGS.items(), strict=True)
        ):
            ranked = mine[mine["x"] == place].sort_values("ratio", ascending=False)
            _dots(panel, ranked[np.isfinite(ranked["ratio"])])
            panel.set_title(f"{setting}: a failure every {_time(mtbf_s)}")
        panels[1].set_xlabel("over a run without failures (logarithmic, 95 % intervals)")
        marks = (("o", "#444444", "time to train"), ("D", "white", "GPU-hours, spares included"))
        handles = [
            Line2D(
                [],
                [],
                linestyle="none",
                marker=mark,
                markerfacecolor=fill,
                color="#444444",
                label=text,
            )
            for mark, fill, text in marks
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
        write_notes(figure, [_APPROXIMATE])
    return save_figure(figure, path)


def _dots(panel: Axes, ranked: pd.DataFrame) -> None:
    for place, row in enumerate(ranked.itertuples(index=False)):
        colour = colour_of(row.scheme)
        panel.plot(
            [row.ratio, row.gpu_ratio], [place, place], color="#d0d0d0", linewidth=2, zorder=1
        )
        panel.errorbar(
            row.ratio,
            place,
            xerr=[[row.ratio - row.ratio_low], [row.ratio_high - row.ratio]],
            fmt="o",
            color=colour,
            capsize=3,
            markersize=7,
            zorder=3,
        )
        panel.plot(
            row.gpu_ratio,
            place,
            marker="D",
            linestyle="none",
            markerfacecolor="white",
            markeredgecolor=colour,
            markersize=6,
            zorder=2,
        )
    panel.set_yticks(
        range(len(ranked)),
        [
            f"{name_of(row.scheme)} · {_KEPT.get(row.protection, row.protection)}"
            for row in ranked.itertuples(index=False)
        ],
    )
    panel.set_xscale("log")
    panel.grid(axis="x")
    panel.grid(axis="y", visible=False)
    ticks = [tick for tick in (1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20) if _within(tick, ranked)]
    panel.set_xticks(ticks)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())


def _within(tick: float, ranked: pd.DataFrame) -> bool:
    return bool(0.9 * ranked["ratio"].min() <= tick <= 1.1 * ranked["gpu_ratio"].max())


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 3600 else f"{seconds / 60:.3g} min"
