"""Figures of failures: drawn ones by cause and time; and a log beside its fit."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
from faultline.experiments.analysis.failure_draw import Drawing
from faultline.experiments.analysis.failure_fit import Fit, Lemons
from faultline.experiments.analysis.quantities import counted, duration_text, unit_within
from faultline.experiments.figures.style import (
    figure_style,
    legend_below,
    mark,
    save_figure,
    write_notes,
    write_title,
)
from faultline.simulator.failures.failure import KINDS, Kind
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter
from scipy import stats

# Okabe and Ito (2008), a palette for all kinds of colour vision, and greys.
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
    """Draw failures by cause, and their count beside the expected one.

    There must be at least one failure. The file's suffix selects the format.
    """
    rows = min(_MOST_ROWS + 1, len(drawing.causes))
    with figure_style():
        figure, axes = plt.subplots(2, 1, figsize=(9, 5.2 + 0.2 * rows), sharex=True)
        _draw_causes(axes[0], drawing)
        _draw_count(axes[1], drawing)
        axes[1].set_xlim(0, drawing.span_s / _DAY_S)
        axes[1].set_xlabel("days since the start of the job")
        kinds = [kind for kind in KINDS if any(f.kind == kind for f in drawing.failures)]
        handles = [mark(kind, KIND_COLOURS[kind], lw=4) for kind in kinds]
        legend_below(figure, handles, len(handles))
        every = duration_text(drawing.span_s / len(drawing.failures))
        write_title(figure, f"{counted(len(drawing.failures), 'failure')}, one every {every}")
        write_notes(figure, [title])
        return save_figure(figure, path)


def _draw_causes(axis: Axes, drawing: Drawing) -> None:
    """Draw a row per cause, with a mark per failure."""
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
    axis.set_title("Failures by cause")


def _draw_count(axis: Axes, drawing: Drawing) -> None:
    """Draw the cumulative count of failures, and that of the model's mean rate."""
    times = [0.0, *(failure.time_s / _DAY_S for failure in drawing.failures)]
    times.append(drawing.span_s / _DAY_S)
    counts = [*range(len(drawing.failures) + 1), len(drawing.failures)]
    axis.step(times, counts, where="post", color="black", lw=1.4, label="drawn", zorder=3)
    axis.plot(
        (0.0, times[-1]), (0.0, drawing.span_s / drawing.mtbf_s),
        color="#777777", lw=1.2, ls="--", label="model's mean rate",
    )  # fmt: skip
    axis.set_ylim(0, None)
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.set_ylabel("failures so far")
    axis.legend(loc="upper left")
    axis.set_title("Cumulative failures")


def _alpha(failures: int) -> float:
    """Return an opacity at which overlapping marks still show their number."""
    return float(min(0.9, max(0.15, 30 / sqrt(max(1, failures)))))


_MOST_POINTS = 2_000
_LOG, _EXPONENTIAL, _OTHER = "#444444", "#E69F00", "#0072B2"


def draw_fit(fitted: Fit, title: str, path: Path) -> Path:
    """Draw the log beside its fitted distributions; the file's suffix selects the format."""
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(13, 4.4))
        _draw_gaps(axes[0], fitted)
        _draw_nodes(axes[1], fitted.lemons)
        _draw_repairs(axes[2], fitted)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", parse_math=False)
        return save_figure(figure, path)


def _draw_gaps(axis: Axes, fitted: Fit) -> None:
    gaps = fitted.whole.gaps
    axis.set_title("Times between failures, whole cluster")
    if not len(gaps.times_s):
        _nothing(axis, "all failures at one instant")
        return
    _draw_survival(axis, gaps.times_s)
    unit = unit_within(float(gaps.times_s.mean()))
    at_s = np.linspace(0.0, gaps.times_s[-1], 300)
    memoryless = np.exp(-at_s / gaps.times_s.mean())
    axis.plot(at_s / unit.seconds, memoryless, color=_EXPONENTIAL, label="exponential")
    if gaps.shape is not None:
        weibull = np.exp(-((at_s / gaps.scale_s) ** gaps.shape.mean))
        label = f"Weibull, shape {gaps.shape.mean:.2f}"
        axis.plot(at_s / unit.seconds, weibull, color=_OTHER, linestyle="--", label=label)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.set_ylim(0.5 / len(gaps.times_s), 1.5)
    axis.set_xlabel(f"time, {unit.symbol}")
    axis.set_ylabel("share that is longer")
    axis.legend()


def _draw_survival(axis: Axes, times_s: np.ndarray) -> None:
    unit = unit_within(float(times_s.mean()))
    number = len(times_s)
    left = 1.0 - np.arange(1, number + 1) / (number + 1)
    every = max(1, number // _MOST_POINTS)
    axis.plot(times_s[::every] / unit.seconds, left[::every], ".", color=_LOG, label="log")


def _draw_nodes(axis: Axes, lemons: Lemons | None) -> None:
    axis.set_title("Failures by node")
    if lemons is None:
        _nothing(axis, "too few failures of nodes")
        return
    counts = np.bincount(lemons.counts)
    axis.bar(range(len(counts)), counts, color="#BBBBBB", label="log")
    at, mean = np.arange(len(counts)), float(lemons.counts.mean())
    nodes = len(lemons.counts)
    poisson = nodes * stats.poisson.pmf(at, mean)
    axis.plot(at, poisson, "o-", color=_EXPONENTIAL, label="equal nodes")
    if np.isfinite(lemons.shape.mean):
        shape = lemons.shape.mean
        gamma = nodes * stats.nbinom.pmf(at, shape, shape / (shape + mean))
        axis.plot(at, gamma, "s--", color=_OTHER, label=f"gamma factor, shape {shape:.2g}")
    axis.set_yscale("symlog", linthresh=1)
    axis.yaxis.set_major_formatter("{x:g}")
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("failures of a node")
    axis.set_ylabel("nodes")
    axis.legend()


def _draw_repairs(axis: Axes, fitted: Fit) -> None:
    repair = fitted.whole.repair
    axis.set_title("Times to repair")
    if repair is None or repair.count < 2:
        _nothing(axis, "not in the log")
        return
    _draw_survival(axis, repair.times_s)
    unit = unit_within(repair.mean_s)
    if repair.sigma > 0.0:
        at_s = np.geomspace(repair.times_s[0], repair.times_s[-1], 300)
        fitted_to = stats.lognorm.sf(at_s, repair.sigma, scale=repair.scale_s)
        label = f"lognormal, sigma {repair.sigma:.2f}"
        axis.plot(at_s / unit.seconds, fitted_to, color=_OTHER, linestyle="--", label=label)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel(f"time, {unit.symbol}")
    axis.set_ylabel("share that is longer")
    axis.set_ylim(0, 1.02)
    axis.legend()


def _nothing(axis: Axes, reason: str) -> None:
    axis.text(0.5, 0.5, reason, ha="center", va="center", transform=axis.transAxes)
    axis.set_xticks([])
    axis.set_yticks([])
