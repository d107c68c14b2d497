"""The figures of the study; they read tables and nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
from faultline.experiments.figures.palette import looks_of_schemes
from faultline.experiments.figures.style import (
    PUBLISHED,
    draw_band,
    mark,
)
from faultline.experiments.studies.ntp import published
from faultline.experiments.studies.ntp.setting import GPUS
from faultline.experiments.studies.ntp.traces import THRESHOLD
from faultline.strategies.nonuniform.replica_plan import Scheme
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, PercentFormatter

_LOOKS = looks_of_schemes(scheme.value for scheme in Scheme)
# Okabe and Ito (2008), a palette for all kinds of colour vision.
_DOMAIN_COLOURS = {8: "#E69F00", 16: "#56B4E9", 32: "#009E73", 64: "#0072B2", 72: "#CC79A7"}
_COURSE_COLOURS = {("5 days", 3): "#D55E00", ("5 days", 1): "#0072B2", ("3 days", 1): "#009E73"}


def draw_availability(table: pd.DataFrame) -> Figure:
    """Draw the share of whole domains over the failed fraction: formula as lines, draws as dots."""
    means = table.groupby(["domain_gpus", "failed_fraction"], as_index=False).mean()
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
            f"{size} GPUs", (last.failed_fraction, last.formula + shift), xytext=(6, 0),
            textcoords="offset points", color=colour, va="center",
        )  # fmt: skip
    axis.plot(0.001, published.AVAILABILITY_TP64, **PUBLISHED, clip_on=False)
    axis.set_xlim(0, 0.00455)
    _failed_axis(axis)
    axis.yaxis.set_major_formatter(PercentFormatter(1))
    axis.set_ylabel("domains without a failed GPU")
    axis.set_title("Availability of whole scale-up domains, 32,768 GPUs")
    handles = [
        mark("formula"),
        mark("random sets", marker="o", ls="none", ms=4),
        mark("published, 64 GPUs", **PUBLISHED),
    ]
    axis.legend(handles=handles, loc="lower left")
    return figure


def draw_losses(table: pd.DataFrame) -> Figure:
    """Draw the loss over the failed fraction: all on the left, packed from near on the right."""
    means = table.groupby(["scheme", "packed", "failed_fraction"], as_index=False).mean()
    figure, (whole, near) = plt.subplots(1, 2, figsize=(10.5, 4.2))
    for scheme in _LOOKS:
        for packed in (True, False):
            mine = means[(means.scheme == scheme) & (means.packed == packed)]
            for axis in (whole, near) if packed else (whole,):
                axis.plot(
                    mine.failed_fraction, mine.loss, color=_LOOKS[scheme].colour,
                    linestyle="-" if packed else "--",
                    label=f"{_LOOKS[scheme].label}, {'packed' if packed else 'not packed'}",
                )  # fmt: skip
                if packed and axis is near:
                    draw_band(axis, mine.failed_fraction, mine, _LOOKS[scheme].colour)
                    axis.plot(
                        mine.failed_fraction, mine.resharded, color=_LOOKS[scheme].colour, ls=":"
                    )
        edge = {"marker": "v", "markeredgecolor": _LOOKS[scheme].colour}
        near.plot(0.004, published.MOST_LOSS[scheme], **{**PUBLISHED, **edge})
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
    entries = [
        mark("all resharding charged", "#555555", linestyle=":"),
        mark("published: at most", **{**PUBLISHED, "marker": "v"}),
    ]
    figure.legend(
        handles=[*whole.get_legend_handles_labels()[0], *entries],
        loc="outside lower center",
        ncols=4,
    )
    return figure


def draw_courses(courses: pd.DataFrame) -> Figure:
    """Draw the failed fraction over 15 days: median, 5th to 95th percentile, and one trace."""
    by_course = courses.groupby(["repair", "rate_factor"])
    figure, axis = plt.subplots(figsize=(8.4, 4.4))
    for course, colour in _COURSE_COLOURS.items():
        table = by_course.get_group(course)
        repair, factor = course
        draw_band(axis, table.day, table, colour)
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
            label, (15, height), xytext=(5, 0), textcoords="offset points", color=colour,
            va="center", fontsize=9,
        )  # fmt: skip
    axis.set_xlim(0, 15)
    axis.set_ylim(0, 0.008)
    axis.set_xticks(range(0, 16, 3))
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    axis.set_xlabel("days since all GPUs were healthy")
    axis.set_ylabel("failed GPUs of 32,768")
    axis.set_title("Failed GPUs over 15 days: median, 90 % of the traces, and one trace")
    axis.legend(loc="upper left")
    return figure


def draw_spares(table: pd.DataFrame) -> Figure:
    """Draw the spare domains that each scheme needs, in whole replicas, over all traces."""
    plain = table[table.rate_factor == 1]
    repairs = ["3 days", "3 or 5 days", "5 days"]
    figure, axis = plt.subplots(figsize=(7.2, 4.2))
    for place, repair in enumerate(repairs):
        mine = plain[plain.repair == repair]
        for offset, scheme in zip((-0.27, 0.0, 0.27), _LOOKS, strict=True):
            values = mine[f"replica_spares_{scheme}"]
            mean, (low, high) = values.mean(), np.percentile(values, (5, 95))
            axis.bar(place + offset, mean, width=0.25, color=_LOOKS[scheme].colour)
            axis.vlines(place + offset, low, high, color="black", linewidth=1.2)
            axis.text(place + offset - 0.02, mean + 0.8, f"{mean:.0f}", ha="right", va="bottom")
            if repair == "5 days":
                known = published.SPARE_DOMAINS[scheme]
                axis.plot(place + offset + 0.07, known, **PUBLISHED, clip_on=False)
    axis.set_xticks(range(len(repairs)), [f"repair in {repair}" for repair in repairs])
    axis.tick_params(axis="x", length=0)
    axis.set_ylim(0, 100)
    axis.set_ylabel("spare domains of 32 GPUs")
    axis.set_title("Spares that keep the batch through 15 days, in whole replicas")
    handles = [mark(f"{look.label}, mean", look.colour, linewidth=6) for look in _LOOKS.values()]
    handles.append(mark("5th to 95th percentile", "black"))
    handles.append(mark("published", **PUBLISHED))
    axis.legend(handles=handles, loc="upper left")
    return figure


def draw_blasts(table: pd.DataFrame) -> Figure:
    """Draw the loss over the GPUs that a failure takes."""
    means = (
        table[table.packed]
        .groupby(["scheme", "blast_radius"], as_index=False)
        .mean(numeric_only=True)
    )
    figure, axis = plt.subplots(figsize=(7.2, 4.2))
    for scheme, look in _LOOKS.items():
        mine = means[means.scheme == scheme]
        axis.plot(
            mine.blast_radius, mine.loss, color=look.colour, marker=look.marker, label=look.label
        )
        draw_band(axis, mine.blast_radius, mine, look.colour)
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
    return figure


def _failed_axis(axis: Axes) -> None:
    axis.xaxis.set_major_locator(MultipleLocator(0.001))
    axis.xaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    axis.set_xlabel("failed GPUs")
