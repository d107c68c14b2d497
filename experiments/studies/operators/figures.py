"""Figures of the study."""

from __future__ import annotations

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

_COLOURS = {"inside": "#0072B2", "partly": "#56B4E9", "calibrated": "#0072B2", "outside": "#D55E00"}


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
