"""The figure of a fit: rates, times between failures, failures by node, times to repair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from faultline.experiments.analysis.failure_fit import Fit, Lemons
from faultline.experiments.analysis.fitted_mix import per_1000_node_days
from faultline.experiments.analysis.quantities import unit_within
from faultline.experiments.figures.failures import KIND_COLOURS
from faultline.experiments.figures.style import figure_style, plain_ticks, save_figure, spans
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter
from scipy import stats

_MOST_CAUSES = 20
_MOST_POINTS = 2_000
_LOG, _EXPONENTIAL, _OTHER = "#444444", "#E69F00", "#0072B2"


def draw_fit(fitted: Fit, title: str, path: Path) -> Path:
    """Draw a fit; the file's ending says which format."""
    shown = min(_MOST_CAUSES, len(fitted.causes))
    with figure_style():
        figure, axes = plt.subplots(2, 2, figsize=(12, 6.8 + 0.14 * shown))
        _draw_rates(axes[0][0], fitted)
        _draw_gaps(axes[0][1], fitted)
        _draw_nodes(axes[1][0], fitted.lemons)
        _draw_repairs(axes[1][1], fitted)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", parse_math=False)
        return save_figure(figure, path)


def _draw_rates(axis: Axes, fitted: Fit) -> None:
    causes = fitted.causes[:_MOST_CAUSES]
    for row, cause in enumerate(causes):
        rate = per_1000_node_days(cause.rate_per_gpu_s)
        axis.errorbar(
            rate.value, row, xerr=[[rate.value - rate.low], [rate.high - rate.value]], fmt="o",
            color=KIND_COLOURS[cause.kind],
        )  # fmt: skip
    axis.set_yticks(range(len(causes)), [cause.name for cause in causes], parse_math=False)
    axis.set_ylim(len(causes) - 0.4, -0.6)
    log = spans([cause.rate_per_gpu_s.value for cause in causes])
    axis.set_xscale("log" if log else "linear")
    plain_ticks(axis.xaxis, log=log)
    axis.set_xlabel("failures per 1,000 days of 8 GPUs, 95 %")
    left_over = len(fitted.causes) - len(causes)
    axis.set_title("Rates" + (f" ({left_over} causes more)" if left_over else ""))


def _draw_gaps(axis: Axes, fitted: Fit) -> None:
    gaps = fitted.whole.gaps
    axis.set_title("Times between failures, whole cluster")
    if not len(gaps.times_s):
        _nothing(axis, "all failures at one instant")
        return
    _draw_survival(axis, gaps.times_s, _LOG, "log")
    unit = unit_within(float(gaps.times_s.mean()))
    at_s = np.linspace(0.0, gaps.times_s[-1], 300)
    memoryless = np.exp(-at_s / gaps.times_s.mean())
    axis.plot(at_s / unit.seconds, memoryless, color=_EXPONENTIAL, label="exponential")
    if gaps.shape is not None:
        weibull = np.exp(-((at_s / gaps.scale_s) ** gaps.shape.value))
        label = f"Weibull, shape {gaps.shape.value:.2f}"
        axis.plot(at_s / unit.seconds, weibull, color=_OTHER, linestyle="--", label=label)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.set_ylim(0.5 / len(gaps.times_s), 1.5)
    axis.set_xlabel(f"time, {unit.symbol}")
    axis.set_ylabel("share that is longer")
    axis.legend()


def _draw_survival(axis: Axes, times_s: np.ndarray, colour: str, label: str) -> None:
    unit = unit_within(float(times_s.mean()))
    number = len(times_s)
    left = 1.0 - np.arange(1, number + 1) / (number + 1)
    every = max(1, number // _MOST_POINTS)
    axis.plot(times_s[::every] / unit.seconds, left[::every], ".", color=colour, label=label)


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
    axis.plot(at, poisson, "o-", color=_EXPONENTIAL, label="all alike")
    if np.isfinite(lemons.shape.value):
        shape = lemons.shape.value
        gamma = nodes * stats.nbinom.pmf(at, shape, shape / (shape + mean))
        axis.plot(at, gamma, "s--", color=_OTHER, label=f"gamma factor, shape {shape:.2g}")
    axis.set_yscale("symlog", linthresh=1)
    axis.yaxis.set_major_formatter("{x:g}")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("failures of a node")
    axis.set_ylabel("nodes")
    axis.legend()


def _draw_repairs(axis: Axes, fitted: Fit) -> None:
    repair = fitted.whole.repair
    axis.set_title("Times to repair")
    if repair is None or repair.count < 2:
        _nothing(axis, "the log does not say")
        return
    _draw_survival(axis, repair.times_s, _LOG, "log")
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


def _nothing(axis: Axes, why: str) -> None:
    axis.text(0.5, 0.5, why, ha="center", va="center", transform=axis.transAxes)
    axis.set_xticks([])
    axis.set_yticks([])
