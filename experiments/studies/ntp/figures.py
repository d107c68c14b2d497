"""The figures of the study; they read tables and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from faultline.experiments.figures.style import figure_style, save_figure
from faultline.experiments.studies.ntp import published
from faultline.experiments.studies.ntp.setting import GPUS
from faultline.experiments.studies.ntp.tables import SCHEME_NAMES
from faultline.experiments.studies.ntp.trace_study import THRESHOLD
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator, PercentFormatter

# Okabe and Ito (2008), a palette for all kinds of colour vision.
_COLOURS = {"dp-drop": "#D55E00", "ntp": "#0072B2", "ntp-pw": "#009E73"}
_MARKERS = {"dp-drop": "s", "ntp": "o", "ntp-pw": "D"}
_DOMAIN_COLOURS = {8: "#E69F00", 16: "#56B4E9", 32: "#009E73", 64: "#0072B2", 72: "#CC79A7"}
_COURSE_COLOURS = {("5 days", 3): "#D55E00", ("5 days", 1): "#0072B2", ("3 days", 1): "#009E73"}


def draw_availability(table: pd.DataFrame, path: Path) -> Path:
    """Draw the share of whole domains over the failed fraction: formula as lines, draws as dots."""
    means = table.groupby(["domain_gpus", "failed_fraction"], as_index=False).mean()
    with figure_style():
        figure, axis = plt.subplots(figsize=(7.2, 4.2))
        for size, mine in means.groupby("domain_gpus"):
            colour = _DOMAIN_COLOURS[int(size)]
            axis.plot(mine.failed_fraction, mine.formula, color=colour)
            dots = mine.iloc[::2]
            axis.plot(dots.failed_fraction, dots.share, "o", color=colour, markersize=4)
            # The curves of 64 and 72 end close to each other.
            shift = {64: 0.004, 72: -0.004}.get(int(size), 0.0)
            last = mine.iloc[-1]
            axis.annotate(
                f"{size} GPUs",
                (last.failed_fraction, last.formula + shift),
                xytext=(6, 0),
                textcoords="offset points",
                color=colour,
                va="center",
            )
        axis.add_line(_hollow("D", 0.001, published.AVAILABILITY_TP64))
        axis.set_xlim(0, 0.00455)
        _failed_axis(axis)
        axis.yaxis.set_major_formatter(PercentFormatter(1))
        axis.set_ylabel("domains without a failed GPU")
        axis.set_title("Availability of whole scale-up domains, 32,768 GPUs")
        handles = [
            Line2D([], [], color="#555555", label="formula"),
            Line2D([], [], color="#555555", marker="o", ls="none", ms=4, label="random sets"),
            _hollow("D", label="published, 64 GPUs"),
        ]
        axis.legend(handles=handles, loc="lower left")
        return save_figure(figure, path)


def draw_losses(table: pd.DataFrame, path: Path) -> Path:
    """Draw the loss over the failed fraction: all on the left, packed from near on the right."""
    means = table.groupby(["scheme", "packed", "failed_fraction"], as_index=False).mean()
    with figure_style():
        figure, (whole, near) = plt.subplots(1, 2, figsize=(10.5, 4.2))
        for scheme in SCHEME_NAMES:
            for packed in (True, False):
                mine = means[(means.scheme == scheme) & (means.packed == packed)]
                for axis in (whole, near) if packed else (whole,):
                    axis.plot(
                        mine.failed_fraction,
                        mine.loss,
                        color=_COLOURS[scheme],
                        linestyle="-" if packed else "--",
                        label=f"{SCHEME_NAMES[scheme]}, {'packed' if packed else 'not packed'}",
                    )
                    if packed and axis is near:
                        axis.fill_between(
                            mine.failed_fraction,
                            mine.low,
                            mine.high,
                            color=_COLOURS[scheme],
                            alpha=0.18,
                            linewidth=0,
                        )
            bound = _hollow("v", 0.004, published.MOST_LOSS[scheme], colour=_COLOURS[scheme])
            near.add_line(bound)
        for axis in (whole, near):
            _failed_axis(axis)
            axis.yaxis.set_major_formatter(PercentFormatter(1))
            axis.set_ylim(bottom=0)
        whole.set_xlim(0, 0.004)
        near.set_xlim(0, 0.0042)
        near.set_ylim(-0.002, 0.14)
        near.yaxis.set_major_locator(MultipleLocator(0.02))
        near.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        whole.set_ylabel("throughput lost")
        whole.set_title("Hit domains packed into few replicas, or not")
        near.set_title("Packed (bands: 5th to 95th percentile)")
        entry = _hollow("v", label="published: at most")
        figure.legend(
            handles=[*whole.get_legend_handles_labels()[0], entry],
            loc="outside lower center",
            ncols=4,
        )
        return save_figure(figure, path)


def draw_courses(courses: Mapping[tuple[str, int], pd.DataFrame], path: Path) -> Path:
    """Draw the failed fraction over 15 days: median, 5th to 95th percentile, and one trace."""
    with figure_style():
        figure, axis = plt.subplots(figsize=(8.4, 4.4))
        for course, colour in _COURSE_COLOURS.items():
            table = courses[course]
            repair, factor = course
            axis.fill_between(
                table.day, table.low, table.high, color=colour, alpha=0.2, linewidth=0
            )
            axis.plot(table.day, table.one, color=colour, linewidth=0.8, drawstyle="steps-post")
            rate = f"{factor} times the rate" if factor > 1 else "Llama 3's rate"
            axis.plot(table.day, table["median"], color=colour, label=f"{rate}, repair {repair}")
        peak = published.TRACE_PEAK_GPUS / GPUS
        for height, label, colour in (
            (THRESHOLD, "0.1%", "black"),
            (peak, "published\npeak: 72 GPUs", _COURSE_COLOURS["5 days", 1]),
        ):
            axis.axhline(height, color=colour, linestyle=":", linewidth=1.2)
            axis.annotate(
                label,
                (15, height),
                xytext=(5, 0),
                textcoords="offset points",
                color=colour,
                va="center",
                fontsize=9,
            )
        axis.set_xlim(0, 15)
        axis.set_ylim(0, 0.008)
        axis.set_xticks(range(0, 16, 3))
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
        axis.set_xlabel("days since all GPUs were healthy")
        axis.set_ylabel("failed GPUs of 32,768")
        axis.set_title("Failed GPUs over 15 days: median, 90 % of the traces, and one trace")
        axis.legend(loc="upper left")
        return save_figure(figure, path)


def draw_spares(table: pd.DataFrame, path: Path) -> Path:
    """Draw the spare domains that each scheme needs, in whole replicas, over all traces."""
    plain = table[table.rate_factor == 1]
    repairs = ["3 days", "3 or 5 days", "5 days"]
    with figure_style():
        figure, axis = plt.subplots(figsize=(7.2, 4.2))
        for place, repair in enumerate(repairs):
            mine = plain[plain.repair == repair]
            for offset, scheme in zip((-0.27, 0.0, 0.27), SCHEME_NAMES, strict=True):
                values = mine[f"replica_spares_{scheme}"]
                mean, (low, high) = values.mean(), np.percentile(values, (5, 95))
                axis.bar(place + offset, mean, width=0.25, color=_COLOURS[scheme])
                axis.vlines(place + offset, low, high, color="black", linewidth=1.2)
                axis.text(place + offset - 0.02, mean + 0.8, f"{mean:.0f}", ha="right", va="bottom")
                if repair == "5 days":
                    known = published.SPARE_DOMAINS[scheme]
                    axis.add_line(_hollow("D", place + offset + 0.07, known))
        axis.set_xticks(range(len(repairs)), [f"repair in {repair}" for repair in repairs])
        axis.tick_params(axis="x", length=0)
        axis.set_ylim(0, 100)
        axis.set_ylabel("spare domains of 32 GPUs")
        axis.set_title("Spares that keep the batch through 15 days, in whole replicas")
        handles = [
            Line2D([], [], color=_COLOURS[scheme], linewidth=6, label=f"{name}, mean")
            for scheme, name in SCHEME_NAMES.items()
        ]
        handles.append(Line2D([], [], color="black", label="5th to 95th percentile"))
        handles.append(_hollow("D", label="published"))
        axis.legend(handles=handles, loc="upper left")
        return save_figure(figure, path)


def draw_blasts(table: pd.DataFrame, path: Path) -> Path:
    """Draw the loss over the GPUs that a failure takes."""
    means = (
        table[table.packed]
        .groupby(["scheme", "blast_radius"], as_index=False)
        .mean(numeric_only=True)
    )
    with figure_style():
        figure, axis = plt.subplots(figsize=(7.2, 4.2))
        for scheme, name in SCHEME_NAMES.items():
            mine = means[means.scheme == scheme]
            axis.plot(
                mine.blast_radius,
                mine.loss,
                color=_COLOURS[scheme],
                marker=_MARKERS[scheme],
                label=name,
            )
            axis.fill_between(
                mine.blast_radius,
                mine.low,
                mine.high,
                color=_COLOURS[scheme],
                alpha=0.18,
                linewidth=0,
            )
        axis.set_xscale("log", base=2)
        axis.set_xticks(list(means.blast_radius.unique()), means.blast_radius.unique().astype(str))
        axis.minorticks_off()
        axis.set_ylim(-0.0005, None)
        axis.yaxis.set_major_locator(MultipleLocator(0.01))
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axis.set_xlabel("GPUs that a failure takes, in one domain")
        axis.set_ylabel("throughput lost, packed")
        axis.set_title("Blast radius: 33 failures (bands: 5th to 95th percentile)")
        axis.legend(loc="center left")
        return save_figure(figure, path)


def _failed_axis(axis: Axes) -> None:
    axis.xaxis.set_major_locator(MultipleLocator(0.001))
    axis.xaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    axis.set_xlabel("failed GPUs")


def _hollow(
    marker: str, x: float = 0.0, y: float = 0.0, *, colour: str = "black", label: str = ""
) -> Line2D:
    """Return the mark of a published value, for an axis or for a legend."""
    return Line2D(
        [x],
        [y],
        marker=marker,
        markersize=7,
        markerfacecolor="white",
        markeredgecolor=colour,
        linestyle="none",
        clip_on=False,
        zorder=3,
        label=label,
    )
