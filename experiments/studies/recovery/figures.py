"""Figure of the recoveries: modelled against published."""

from __future__ import annotations

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")


def draw_agreement(table: pd.DataFrame) -> Figure:
    """Draw every recovery's modelled time over its published one; bands as lines."""
    figure, axis = plt.subplots(figsize=(7.2, 5.2))
    ends = (
        0.8 * table.modelled_s.min(),
        1.3 * table.published_high_s.replace(float("inf"), 0).max(),
    )
    axis.fill_between(
        ends, [0.85 * end for end in ends], [1.15 * end for end in ends], color="#EFEFEF"
    )
    axis.plot(ends, ends, color="#999999", linewidth=1.0)
    for colour, (system, mine) in zip(_COLOURS, table.groupby("system", sort=False), strict=False):
        for one in mine.itertuples():
            low, high = max(one.published_low_s, ends[0]), min(one.published_high_s, ends[1])
            axis.plot([low, high], [one.modelled_s] * 2, color=colour, linewidth=1.5)
            fill = "white" if one.role == "fitted" else colour
            middle = (low * high) ** 0.5
            axis.plot(middle, one.modelled_s, "o", color=colour, markerfacecolor=fill, markersize=6)
        axis.plot([], [], "o", color=colour, label=system)
    axis.plot([], [], "o", color="#555555", markerfacecolor="white", label="fitted on")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(ends)
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.yaxis.set_major_formatter(ScalarFormatter())
    axis.set_xlabel("published (s)")
    axis.set_ylabel("modelled (s)")
    figure.legend(loc="outside lower center", ncols=4)
    return figure
