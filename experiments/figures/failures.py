"""The figure of a drawing: which cause struck when and where, and whether as expected."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
from faultline.experiments.analysis.failure_draw import Drawing
from faultline.experiments.analysis.quantities import unit_within
from faultline.experiments.figures.style import figure_style, mark, save_figure
from faultline.simulator.failures.failure import KINDS, Failure, JobLayout, Kind
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

# Okabe and Ito (2008), a palette for all kinds of colour vision; what it lacks is grey.
KIND_COLOURS: dict[Kind, str] = {
    "hardware": "#0072B2",
    "network": "#E69F00",
    "software": "#CC79A7",
    "preemption": "#009E73",
    "slow": "#56B4E9",
    "flap": "#F0E442",
    "partial": "#D55E00",
    "hang": "#000000",
    "corrupt": "#7B3294",
    "planned": "#888888",
    "storage": "#BBBBBB",
}
_DAY_S = 86_400.0
_MOST_ROWS = 20


def draw_figure(drawing: Drawing, title: str, path: Path) -> Path:
    """Draw failures by cause, by place, their count, and the times between them.

    There is at least one; the file's ending says which format.
    """
    rows = min(_MOST_ROWS + 1, len(drawing.causes))
    with figure_style():
        figure, axes = plt.subplots(
            2, 2, figsize=(12, 6.2 + 0.14 * rows), width_ratios=(1.25, 1), height_ratios=(1.15, 1)
        )
        _draw_causes(axes[0][0], drawing)
        _draw_places(axes[0][1], drawing)
        _draw_count(axes[1][0], drawing)
        _draw_intervals(axes[1][1], drawing)
        for axis in (axes[0][0], axes[0][1], axes[1][0]):
            axis.set_xlim(0, drawing.span_s / _DAY_S)
            axis.set_xlabel("days since the start of the job")
        kinds = [kind for kind in KINDS if any(f.kind == kind for f in drawing.failures)]
        handles = [mark(kind, KIND_COLOURS[kind], lw=4) for kind in kinds]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        return save_figure(figure, path)


def _draw_causes(axis: Axes, drawing: Drawing) -> None:
    """A row a cause, a mark a failure."""
    shown = [cause.name for cause in drawing.causes[:_MOST_ROWS]]
    left_over = len(drawing.causes) - len(shown)
    names = [*shown, f"{left_over} others"] if left_over else shown
    row_of = {name: row for row, name in enumerate(shown)}
    for kind, colour in KIND_COLOURS.items():
        mine = [failure for failure in drawing.failures if failure.kind == kind]
        axis.scatter(
            [failure.time_s / _DAY_S for failure in mine],
            [row_of.get(failure.cause, len(shown)) for failure in mine],
            marker="|",
            s=55,
            linewidths=1.1,
            color=colour,
            alpha=_alpha(len(drawing.failures)),
            rasterized=True,
        )
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.set_title("When, by cause")


def _draw_places(axis: Axes, drawing: Drawing) -> None:
    """A mark a failure on the GPUs it hit, and a line as long as the repair."""
    layout = drawing.layout
    repairs, hit, colours = [], [], []
    for failure in drawing.failures:
        lowest, highest = _gpus(failure, layout)
        at, colour = failure.time_s / _DAY_S, KIND_COLOURS[failure.kind]
        middle = (lowest + highest) / 2
        until = at + (failure.repair_s or 0.0) / _DAY_S
        repairs.append([(at, middle), (until, middle)])
        colours.append(colour)
        hit.append([(at, lowest), (at, highest)])
    alpha = _alpha(len(drawing.failures))
    axis.add_collection(
        LineCollection(repairs, colors=colours, linewidths=1.2, alpha=0.6 * alpha, rasterized=True)
    )
    axis.add_collection(
        LineCollection(hit, colors=colours, linewidths=1.5, alpha=alpha, rasterized=True)
    )
    axis.scatter(
        [ends[0][0] for ends in hit],
        [(ends[0][1] + ends[1][1]) / 2 for ends in hit],
        c=colours,
        marker="|",
        s=22,
        alpha=alpha,
        rasterized=True,
    )
    axis.set_ylim(0, layout.gpus)
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.set_ylabel("GPU")
    axis.set_title("Where, and how long the repair takes")


def _gpus(failure: Failure, layout: JobLayout) -> tuple[int, int]:
    # What takes no GPU down is everybody's.
    gpus = layout.gpus_of(failure.level, failure.number) or range(layout.gpus)
    return gpus[0], gpus[-1] + 1


def _draw_count(axis: Axes, drawing: Drawing) -> None:
    """How many failures until then, and how many were to be expected."""
    times = [0.0, *(failure.time_s / _DAY_S for failure in drawing.failures)]
    times.append(drawing.span_s / _DAY_S)
    counts = [*range(len(drawing.failures) + 1), len(drawing.failures)]
    axis.step(times, counts, where="post", color="black", lw=1.4, label="drawn", zorder=3)
    if drawing.course:
        days = np.linspace(0.0, drawing.span_s / _DAY_S, len(drawing.course))
        bounds = [(until.mean, until.least, until.most) for until in drawing.course]
        means, least, most = np.transpose(bounds)
        axis.plot(days, means, color="#777777", lw=1.2, ls="--", label="expected")
        axis.fill_between(days, least, most, color="#dddddd", label="95 %", zorder=1)
    axis.set_ylim(0, None)
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.set_ylabel("failures so far")
    axis.legend(loc="upper left")
    axis.set_title("How many")


def _draw_intervals(axis: Axes, drawing: Drawing) -> None:
    """Histogram of the times between failures, beside an exponential of the model's mean."""
    times_s = np.array([0.0, *(failure.time_s for failure in drawing.failures)])
    intervals_s = np.diff(times_s)
    unit = unit_within(drawing.mtbf_s)
    longest = float(np.quantile(intervals_s, 0.995)) / unit.seconds or 1.0
    bins = int(min(40, max(8, 2 * sqrt(len(intervals_s)))))
    edges = np.linspace(0.0, longest, bins + 1)
    axis.hist(
        intervals_s / unit.seconds,
        bins=edges.tolist(),
        color="#999999",
        edgecolor="white",
        label="drawn",
    )
    middles = (edges[:-1] + edges[1:]) / 2
    mean = drawing.mtbf_s / unit.seconds
    density = np.exp(-middles / mean) / mean * (edges[1] - edges[0]) * len(intervals_s)
    axis.plot(
        middles, density, color="#D55E00", lw=1.8, label=f"exponential, mean {mean:.3g} {unit.name}"
    )
    axis.set_xlim(0, longest)
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel(f"{unit.name} between two failures of the system")
    axis.set_ylabel("failures")
    axis.legend(loc="upper right")
    axis.set_title("How long between them")


def _alpha(failures: int) -> float:
    """Marks that lie on one another must still show how many they are."""
    return float(min(0.9, max(0.15, 30 / sqrt(max(1, failures)))))
