"""The figures of the study: published against simulated, and goodput at scale."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.figures.palette import looks_of_schemes
from faultline.experiments.figures.style import legend_below
from faultline.experiments.studies.operators.scale import EXCESS, FAIL_STOP, KINDS, bands
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter

_COLOURS = {"inside": "#0072B2", "partly": "#56B4E9", "calibrated": "#0072B2", "outside": "#D55E00"}

_SCALE_TITLE = "Failures of all kinds leave little at 600k GPUs, whatever the scheme"


def draw_agreement(table: pd.DataFrame) -> Figure:
    """Draw every published share of time with what was simulated: a point a run, bands as lines."""
    shares = table[table.unit.eq("1") & table.published.notna() & ~table.verdict.eq("unknown")]
    shares = shares.iloc[::-1].reset_index(drop=True)
    figure, axis = plt.subplots(figsize=(7.6, 0.27 * len(shares) + 1.2))
    for place, one in enumerate(shares.itertuples()):
        colour = _COLOURS[one.verdict]
        axis.plot([one.low, one.high], [place, place], color=colour, linewidth=3, alpha=0.45)
        fill = "white" if one.verdict == "calibrated" else colour
        axis.plot(one.simulated, place, "o", color=colour, markerfacecolor=fill, markersize=6)
        axis.plot(one.published, place, "D", color="black", markerfacecolor="none", markersize=7)
    names = [f"{one.setting} {one.quantity}, {one.scheme}" for one in shares.itertuples()]
    axis.set_yticks(range(len(shares)), names, fontsize=8)
    axis.set_ylim(-0.7, len(shares) - 0.3)
    axis.set_xlim(0, 1.02)
    axis.xaxis.set_major_formatter(PercentFormatter(1))
    axis.plot([], [], "D", color="black", markerfacecolor="none", label="published")
    axis.plot([], [], "o-", color=_COLOURS["inside"], label="simulated; band of what is not stated")
    axis.plot([], [], "o", color=_COLOURS["inside"], markerfacecolor="white", label="chosen by it")
    axis.plot([], [], "o-", color=_COLOURS["outside"], label="missed")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def draw_scale(table: pd.DataFrame) -> Figure:
    """Draw goodput over GPUs by scheme, a panel a rate of failures.

    Filled: what fails is of all kinds, bars are recoveries and seeds. Hollow: stops only, at the
    same rate.
    """
    figure, axes = plt.subplots(1, 4, figsize=(13, 4.6), sharey=True)
    grid = bands(table[table.variant == ""])
    labels = list(dict.fromkeys(grid.label))
    looks = looks_of_schemes([label.partition(",")[0] for label in labels])
    panels = grid.groupby(["rate", "excess"], sort=False)
    for axis, ((rate, excess), mine) in zip(axes, panels, strict=True):
        for place, label in enumerate(labels):
            scheme, _, protection = label.partition(",")
            look = looks[scheme]
            ours = mine[mine.label == label]
            cells, stops = (
                ours[ours.failing == failing].sort_values("gpus") for failing in (KINDS, FAIL_STOP)
            )
            # Side by side, so that no bar hides another.
            x = cells.gpus.to_numpy() * 1.1 ** (place - (len(labels) - 1) / 2)
            axis.vlines(x, cells.low, cells.high, color=look.colour, linewidth=4, alpha=0.35)
            axis.vlines(x, stops.low, stops.high, color=look.colour, linewidth=0.8)
            axis.plot(
                x,
                cells.goodput,
                "--" if protection else "-",
                linewidth=1.0,
                marker=look.marker,
                markersize=5,
                color=look.colour,
                label=look.label + (f",{protection}" if protection else ""),
            )
            hollow = {"color": look.colour, "markerfacecolor": "white"}
            axis.plot(x, stops.goodput, look.marker, markersize=5, **hollow)
        axis.set_xscale("log")
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xticks(sorted(mine.gpus.unique()), ["16k", "98k", "600k"])
        axis.set_title(f"{rate}" + (f", bursts of {EXCESS:g}" if excess else ""))
        axis.set_xlabel("GPUs")
        axis.yaxis.set_major_formatter(PercentFormatter(1))
    axes[0].set_ylim(0, 1)
    axes[0].set_ylabel("goodput")
    axes[0].plot([], [], "o", color="grey", markerfacecolor="white", label="stops only, as often")
    figure.suptitle(_SCALE_TITLE)
    legend_below(figure, axes[0], 6)
    return figure
