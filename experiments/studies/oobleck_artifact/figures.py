"""The figure of the study."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.figures.palette import look_of
from faultline.experiments.figures.style import PUBLISHED
from faultline.experiments.studies.oobleck_artifact.published import INTERVALS, MODELS
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D


def draw_cells(cells: pd.DataFrame) -> Figure:
    """Draw effective time and throughput over the rate of losses, a column a model."""
    figure, axes = plt.subplots(2, len(MODELS), figsize=(13.0, 5.6), sharex=True, sharey="row")
    places = range(len(INTERVALS))
    for column, model in enumerate(MODELS):
        axes[0, column].set_title(model)
        for system, mine in cells[cells.model == model].groupby("system", sort=False):
            look = look_of(str(system))
            best = mine.samples_per_s.iloc[0]
            for axis, found, known in (
                (axes[0, column], mine.effective, mine.published_effective),
                (axes[1, column], mine.samples_per_s / best, mine.published_samples_per_s / best),
            ):
                axis.plot(places, found, color=look.colour, marker=look.marker)
                axis.plot(places, known, **{**PUBLISHED, "markeredgecolor": look.colour})
        axes[1, column].set_xticks(places, list(INTERVALS), rotation=35)
        axes[1, column].set_xlabel("a node lost every")
    axes[0, 0].set_ylabel("effective time, %")
    axes[1, 0].set_ylabel("samples/s, over those at 6 h")
    for axis in axes.flat:
        axis.set_ylim(bottom=0)
    looks = {str(system): look_of(str(system)) for system in cells.system.unique()}
    handles = [
        Line2D([], [], color=look.colour, marker=look.marker, label=look.label)
        for look in looks.values()
    ]
    handles.append(Line2D([], [], **PUBLISHED, label="published"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def draw_planned(table: pd.DataFrame) -> Figure:
    """Draw the speed of 6.7B over its nodes: planned, and as the artifact has it."""
    figure, axis = plt.subplots(figsize=(6.8, 4.2))
    look = look_of("oobleck")
    axis.plot(table.nodes, table.planned, color=look.colour, marker=look.marker, label="planned")
    axis.plot(table.nodes, table.published, **PUBLISHED, label="published")
    axis.invert_xaxis()
    axis.set_ylim(0, 1.08)
    axis.set_xlabel("nodes")
    axis.set_ylabel("speed of 6.7B over that with 30 nodes")
    axis.legend(loc="lower left")
    return figure
