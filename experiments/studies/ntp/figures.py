"""The figures of the study and of its training loop; they read tables and nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
from faultline.experiments.figures.palette import looks_of_schemes
from faultline.experiments.figures.style import (
    CAUSE_LOOKS,
    PUBLISHED,
    draw_band,
    legend_below,
    mark,
    stack_bars,
)
from faultline.experiments.studies.data import published_value
from faultline.experiments.studies.ntp import loop, setting, tables
from faultline.experiments.studies.ntp.failures import THRESHOLD
from faultline.simulator.badput import MEANINGS
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, PercentFormatter

_LOOKS = looks_of_schemes(setting.SCHEMES)
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
    known = published_value("ntp", "available_domains", "", "domains of 64 GPUs, 0.1% failed")
    axis.plot(0.001, known, **PUBLISHED, clip_on=False)
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
    for scheme, look in _LOOKS.items():
        packed, apart = (
            means[(means.scheme == scheme) & (means.packed == packing)] for packing in (True, False)
        )
        for axis, mine, dashes, how in (
            (whole, packed, "-", "packed"),
            (near, packed, "-", "packed"),
            (whole, apart, "--", "not packed"),
        ):
            line = {"color": look.colour, "linestyle": dashes, "label": f"{look.label}, {how}"}
            axis.plot(mine.failed_fraction, mine.loss, **line)
        draw_band(near, packed.failed_fraction, packed, look.colour)
        near.plot(packed.failed_fraction, packed.resharded, color=look.colour, ls=":")
        edge = {"marker": "v", "markeredgecolor": look.colour}
        at_most = "0.400% failed, packed, published: at most"
        known = published_value("ntp", "lost_throughput", scheme, at_most)
        near.plot(0.004, known, **{**PUBLISHED, **edge})
    for axis in (whole, near):
        _failed_axis(axis)
        axis.yaxis.set_major_formatter(PercentFormatter(1))
        axis.set_ylim(bottom=0)
    whole.set_xlim(0, 0.004)
    near.set(xlim=(0, 0.0042), ylim=(-0.002, 0.14))
    near.yaxis.set_major_locator(MultipleLocator(0.02))
    near.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    whole.set(ylabel="throughput lost", title="Hit domains packed into few replicas, or not")
    near.set_title("Packed (bands: 5th to 95th percentile)")
    entries = [
        mark("all resharding charged", "#555555", linestyle=":"),
        mark("published: at most", **{**PUBLISHED, "marker": "v"}),
    ]
    legend_below(figure, [*whole.get_legend_handles_labels()[0], *entries])
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
    peak = tables.peak_published() / setting.GPUS
    for height, label, colour in (
        (THRESHOLD, "0.1%", "black"),
        (peak, "published\npeak: 72 GPUs", _COURSE_COLOURS["5 days", 1]),
    ):
        axis.axhline(height, color=colour, linestyle=":", linewidth=1.2)
        axis.annotate(
            label, (15, height), xytext=(5, 0), textcoords="offset points", color=colour,
            va="center", fontsize=9,
        )  # fmt: skip
    axis.set(xlim=(0, 15), ylim=(0, 0.008), xticks=range(0, 16, 3))
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    axis.set(xlabel="days since all GPUs were healthy", ylabel="failed GPUs of 32,768")
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
                known = tables.spares_published(scheme)
                axis.plot(place + offset + 0.07, known, **PUBLISHED, clip_on=False)
    axis.set_xticks(range(len(repairs)), [f"repair in {repair}" for repair in repairs])
    axis.tick_params(axis="x", length=0)
    axis.set(ylim=(0, 100), ylabel="spare domains of 32 GPUs")
    axis.set_title("Spares that keep the batch through 15 days, in whole replicas")
    handles = [mark(f"{look.label}, mean", look.colour, linewidth=6) for look in _LOOKS.values()]
    handles.append(mark("5th to 95th percentile", "black"))
    handles.append(mark("published", **PUBLISHED))
    axis.legend(handles=handles, loc="upper left")
    return figure


def draw_blasts(table: pd.DataFrame) -> Figure:
    """Draw the loss over the GPUs that a failure takes."""
    keys = ["scheme", "blast_radius"]
    means = table[table.packed].groupby(keys, as_index=False).mean(numeric_only=True)
    figure, axis = plt.subplots(figsize=(7.2, 4.2))
    for scheme, look in _LOOKS.items():
        mine = means[means.scheme == scheme]
        axis.plot(mine.blast_radius, mine.loss, **look.line)
        draw_band(axis, mine.blast_radius, mine, look.colour)
    axis.set_xscale("log", base=2)
    axis.set_xticks(list(means.blast_radius.unique()), means.blast_radius.unique().astype(str))
    axis.minorticks_off()
    axis.set_ylim(-0.0005, None)
    axis.yaxis.set_major_locator(MultipleLocator(0.01))
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.set(xlabel="GPUs that a failure takes, in one domain", ylabel="throughput lost, packed")
    axis.set_title("Blast radius: 33 failures (bands: 5th to 95th percentile)")
    axis.legend(loc="center left")
    return figure


def _failed_axis(axis: Axes) -> None:
    axis.xaxis.set_major_locator(MultipleLocator(0.001))
    axis.xaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    axis.set_xlabel("failed GPUs")


_SHOWN = ("degraded", "repeated", "checkpoint", "restart")
"""Causes that come to more than a hairline; all others are useful, or next to nothing."""


def draw_loop(table: pd.DataFrame) -> Figure:
    """Draw what 15 days of each variant lose, by cause; the goodput stands behind the bars."""
    shares = pd.DataFrame({cause: table[f"{cause}_s"] / table.time_s for cause in _SHOWN})
    means = shares.groupby(table.variant, sort=False).mean()
    goodput = table.groupby("variant", sort=False).goodput.mean()
    figure, axis = plt.subplots(figsize=(9.0, 4.4))
    named = means.rename(columns=MEANINGS)
    stack_bars(axis, range(len(means)), named, (CAUSE_LOOKS[cause] for cause in _SHOWN))
    left = means.sum(axis=1)
    for place, variant in enumerate(means.index):
        axis.text(
            left[variant] + 0.004, place, f"goodput {goodput[variant]:.1%}", va="center", fontsize=9
        )
    axis.set_yticks(range(len(means)), [loop.variant_name(str(name)) for name in means.index])
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")
    axis.invert_yaxis()
    axis.set_xlim(0, float(left.max()) + 0.08)
    axis.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.set_xlabel("share of 15 days lost")
    axis.set_title("32,768 GPUs at Llama 3's failure rate, restarts of ten minutes")
    figure.legend(loc="outside lower center", ncols=4)
    return figure


def draw_domains(table: pd.DataFrame) -> Figure:
    """Draw what is lost, and what is trained, over the size of domains."""
    looks = looks_of_schemes(loop.DOMAIN_SCHEMES)
    figure, (lost, trained) = plt.subplots(1, 2, figsize=(9.6, 4.2))
    sizes = sorted(table.domain_gpus.unique())
    for scheme, look in looks.items():
        mine = table[table.strategy == scheme].groupby("domain_gpus")
        line = {**look.line, "label": loop.variant_name(scheme)}
        lost.plot(range(len(sizes)), 1.0 - mine.goodput.mean().loc[sizes], **line)
        trained.plot(range(len(sizes)), mine.batches_per_day.mean().loc[sizes], **line)
    for axis in (lost, trained):
        axis.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        axis.set(xlabel="GPUs of a scale-up domain", ylim=(0, None))
    lost.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    trained.yaxis.set_major_formatter("{x:,.0f}")
    lost.set(ylabel="share of 15 days lost", title="Each against itself without failures")
    trained.set(ylabel="batches of 1,024 sequences a day", title="What 32,768 GPUs train")
    legend_below(figure, lost.get_legend_handles_labels()[0], 4)
    figure.suptitle("Through the same failures, at Llama 3's rate")
    return figure
