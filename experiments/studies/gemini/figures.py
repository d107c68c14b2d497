"""The figures of the study."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.figures.style import (
    PUBLISHED,
    draw_means,
    graded_looks,
    legend_below,
    mark,
)
from faultline.experiments.studies.gemini import tables
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, PercentFormatter

# Okabe and Ito (2008), a palette for all kinds of colour vision.
_LOOKS = {
    "reft-16": ("#D55E00", "s"),
    "reft-8": ("#E69F00", "D"),
    "gemini-2": ("#0072B2", "o"),
    "gemini-3": ("#009E73", "v"),
}
_GREY = "#555555"


def draw_recovery(table: pd.DataFrame) -> Figure:
    """Draw GEMINI's recovery probability by lost machines, for more machines and more replicas."""
    panels = (
        ("Two replicas", [(machines, 2) for machines in (16, 64, 256, 1024)], "{0:,} machines"),
        ("960 machines", [(960, replicas) for replicas in (2, 3, 4)], "{1} replicas"),
    )
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), sharey=True)
    for axis, (title, jobs, label) in zip(axes, panels, strict=True):
        looks = graded_looks([label.format(*job) for job in jobs])
        for (machines, replicas), look in zip(jobs, looks, strict=True):
            mine = table[(table.machines == machines) & (table.replicas == replicas)]
            axis.plot(mine.lost, mine.exact, color=look.colour)
            axis.plot(mine.lost, mine.bound, color=look.colour, linestyle=":", linewidth=1.2)
            axis.plot(
                mine.lost, mine.drawn, look.marker, color=look.colour, label=look.label,
                clip_on=False,
            )  # fmt: skip
        axis.set_xscale("log", base=2)
        ticks = [lost for lost in tables.LOST_MACHINES if lost & (lost - 1) == 0]
        axis.set_xticks(ticks, [str(lost) for lost in ticks])
        axis.minorticks_off()
        axis.set(xlabel="machines lost at once", title=title)
        axis.legend(loc="lower left")
    for (_, _, lost), percent in tables.PUBLISHED_RECOVERY.items():
        axes[0].plot(lost, percent / 100.0, **PUBLISHED)
    axes[0].yaxis.set_major_formatter(PercentFormatter(1))
    axes[0].set(ylim=(0, 1.02), ylabel="recovery from memory")
    handles = [
        mark("exact", _GREY),
        mark("GEMINI's lower bound", _GREY, ls=":", lw=1.2),
        mark("random sets", _GREY, marker="o", ls="none"),
        mark("published, 16 machines", **PUBLISHED),
    ]
    legend_below(figure, handles)
    return figure


def draw_survival(table: pd.DataFrame, curves: pd.DataFrame) -> Figure:
    """Draw survival by the share of failures that take a domain, and by the length of a window.

    What was drawn as `window_table` returns it, and the closed form on a finer grid.
    """
    mine = table[(table.mix == tables.SHOWN_MIX) & (table.scheme != "unprotected")]
    lines = curves[curves.mix == tables.SHOWN_MIX]
    figure, (by_share, by_window) = plt.subplots(1, 2, figsize=(10.5, 4.6), sharey=True)
    for axis, fixed, value, column in (
        (by_share, "window_h", 24, "domain_share"),
        (by_window, "domain_share", 0.1, "window_h"),
    ):
        _draw_curves(axis, lines[lines[fixed] == value], mine[mine[fixed] == value], column)
    by_share.set_xlim(0, 0.2)
    by_share.xaxis.set_major_locator(MultipleLocator(0.05))
    by_share.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    by_share.set_xlabel("failures that take a whole scale-up domain")
    by_share.set_title(f"Failures of {tables.SHOWN_MIX} on 16,384 GPUs, 24 hours")
    by_window.set(xlim=(0, 24), xticks=tables.WINDOWS_H)
    by_window.set_xlabel("hours in which nothing is rebuilt")
    by_window.set_title("10% of the failures take a domain")
    by_share.set_ylim(0, 1.02)
    by_share.yaxis.set_major_formatter(PercentFormatter(1))
    by_share.set_ylabel("all state still in memory")
    handles = [
        mark(tables.SCHEMES[name].label, colour, marker=marker)
        for name, (colour, marker) in _LOOKS.items()
    ]
    handles += [
        mark("groups across domains", _GREY),
        mark("groups of neighbours", _GREY, ls="--"),
        mark("failures drawn, 95%", _GREY, marker="o", ls="none"),
    ]
    legend_below(figure, handles)
    return figure


def _draw_curves(axis: Axes, exact: pd.DataFrame, drawn: pd.DataFrame, column: str) -> None:
    for (scheme, placement), line in exact.groupby(["scheme", "placement"]):
        dashes = "-" if placement == "across-domains" else "--"
        axis.plot(line[column], line.exact, color=_LOOKS[scheme][0], linestyle=dashes)
    for (scheme, _), marks in drawn.groupby(["scheme", "placement"]):
        colour, marker = _LOOKS[scheme]
        means = marks.rename(columns={"drawn": "mean"})
        look = {"fmt": marker, "color": colour, "markersize": 4, "linewidth": 1.0}
        draw_means(axis, marks[column], means, **look, clip_on=False)
