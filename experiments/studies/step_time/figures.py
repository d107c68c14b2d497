"""The figures of the study."""

from __future__ import annotations

import numpy as np
import pandas as pd
from faultline.experiments.figures.style import BarLook, legend_below, stack_bars
from faultline.experiments.studies.step_time.tables import PARTS, SECTIONS
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

# What is useful in blue, communication in green and warm colours, waiting in grey.
_LOOKS = {
    "compute_s": BarLook("#0072B2"),
    "tensor_s": BarLook("#4DB993"),
    "context_s": BarLook("#B5E6D6", "////"),
    "pipeline_s": BarLook("#F0E442"),
    "bubble_s": BarLook("#CFCFCF"),
    "data_parallel_s": BarLook("#B04E00"),
    "optimizer_s": BarLook("#CC79A7", "...."),
}
_COLOURS = {"A100": "#0072B2", "H100": "#D55E00", "GB200": "#009E73"}


def draw_agreement(table: pd.DataFrame) -> Figure:
    """Draw the error of every published row, by section."""
    known = table[table.error.notna()].drop_duplicates("case")
    # Seconds: a rate that is too high is a step that is too short.
    too_long = np.where(known.unit == "s", known.error, 1.0 / (1.0 + known.error) - 1.0)
    known = known.assign(too_long=too_long)
    sections = list(known.section.unique())
    figure, axis = plt.subplots(figsize=(9.5, 4.6))
    axis.axhspan(-0.1, 0.1, color="#EFEFEF", zorder=0)
    axis.axhline(0.0, color="#555555", linewidth=1.0, zorder=1)
    for place, section in enumerate(sections):
        mine = known[known.section == section]
        spread = np.linspace(-0.3, 0.3, len(mine)) if len(mine) > 1 else np.zeros(1)
        for offset, cell in zip(spread, mine.itertuples(), strict=True):
            gpu = next(name for name in _COLOURS if name in cell.software)
            axis.plot(
                place + offset,
                cell.too_long,
                "o" if not cell.fitted else "D",
                markersize=7,
                color=_COLOURS[gpu],
                markerfacecolor="white" if cell.fitted else _COLOURS[gpu],
            )
    names = [f"{section}\n{SECTIONS[section]['name']}".replace("|", "\n") for section in sections]
    axis.set_xticks(range(len(sections)), names)
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.set_ylabel("predicted step time against published")
    for gpu, colour in _COLOURS.items():
        axis.plot([], [], "o", color=colour, label=gpu)
    axis.plot([], [], "D", color="#555555", markerfacecolor="white", label="fitted on")
    figure.legend(loc="outside lower center", ncols=4)
    return figure


def draw_parts(table: pd.DataFrame) -> Figure:
    """Draw what the step of every row is made of."""
    mine = table.drop_duplicates("case").reset_index(drop=True)
    half = -(-len(mine) // 2)
    figure, axes = plt.subplots(1, 2, figsize=(12, 0.2 * half + 1.4))
    for axis, rows in zip(axes, (mine[:half], mine[half:]), strict=True):
        places = np.arange(len(rows))
        shares = rows[list(PARTS)].div(rows.step_s, axis=0).rename(columns=PARTS)
        stack_bars(axis, places, shares, (_LOOKS[part] for part in PARTS))
        axis.set_yticks(places, list(rows["case"]), fontsize=7)
        axis.invert_yaxis()
        axis.set_xlim(0, 1)
        axis.xaxis.set_major_formatter(PercentFormatter(1))
        axis.set_ylim(len(rows) - 0.4, -0.6)
    legend_below(figure, axes[0], 7)
    return figure
