"""The figures of the study and of its training loop; they read tables and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.figures.palette import OKABE_ITO, LineLook, look_of, looks_of_schemes
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
from faultline.experiments.studies.ntp.failures import DOMAIN_SIZES, THRESHOLD
from faultline.simulator.badput import MEANINGS
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, PercentFormatter

_LOOKS = looks_of_schemes(setting.SCHEMES)
_DOMAIN_LOOKS = {
    size: LineLook(f"{size} GPUs", colour, "")
    for size, colour in zip(DOMAIN_SIZES, OKABE_ITO, strict=False)
}
_COURSES = {
    ("5 days", 3): LineLook("3 times the rate, repair 5 days", "#D55E00", ""),
    ("5 days", 1): LineLook("Llama 3's rate, repair 5 days", "#0072B2", ""),
    ("3 days", 1): LineLook("Llama 3's rate, repair 3 days", "#009E73", ""),
}


def _draw_lines(
    axis: Axes,
    table: pd.DataFrame,
    over: str,
    column: str,
    by: str,
    looks: Mapping[Any, LineLook],
    *,
    band: bool = False,
    line: Mapping[str, Any] | None = None,
) -> None:
    """Draw means of a column over another, a line a look, and the band from ``low`` to ``high``."""
    means = table.groupby([by, over], as_index=False).mean(numeric_only=True)
    for value, look in looks.items():
        mine = means[means[by] == value]
        axis.plot(mine[over], mine[column], **{**look.line, **(line or {})})
        if band:
            draw_band(axis, mine[over], mine, look.colour)


def _failed_axis(axis: Axes, **texts: Any) -> None:
    axis.xaxis.set_major_locator(MultipleLocator(0.001))
    axis.xaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.set(xlabel="failed GPUs", **texts)


def draw_availability(table: pd.DataFrame) -> Figure:
    """Draw the share of whole domains over the failed fraction: formula as lines, draws as dots."""
    figure, axis = plt.subplots(figsize=(7.2, 4.2))
    over = "failed_fraction", "domain_gpus"
    _draw_lines(axis, table, over[0], "formula", over[1], _DOMAIN_LOOKS)
    entries = axis.get_legend_handles_labels()[0]
    dots = {"marker": ".", "linestyle": "none"}
    _draw_lines(axis, table, over[0], "share", over[1], _DOMAIN_LOOKS, line=dots)
    known = published_value("ntp", "available_domains", "", "domains of 64 GPUs, 0.1% failed")
    axis.plot(0.001, known, **PUBLISHED)
    _failed_axis(axis, ylabel="domains without a failed GPU", xlim=(0, 0.00405))
    axis.set_title("Availability of whole scale-up domains, 32,768 GPUs")
    kinds = [mark("formula"), mark("random sets", **dots)]
    axis.legend(handles=[*entries, *kinds, mark("published, 64 GPUs", **PUBLISHED)], ncols=2)
    return figure


def draw_losses(table: pd.DataFrame) -> Figure:
    """Draw the loss over the failed fraction: all on the left, packed from near on the right."""
    figure, (whole, near) = plt.subplots(1, 2, figsize=(10.5, 4.2))
    packed, apart = table[table.packed], table[~table.packed]
    over, at_most = "failed_fraction", "0.400% failed, packed, published: at most"
    solid, dashed, dotted = ({"marker": "", "linestyle": dashes} for dashes in ("-", "--", ":"))
    _draw_lines(whole, packed, over, "loss", "scheme", _LOOKS, line=solid)
    _draw_lines(whole, apart, over, "loss", "scheme", _LOOKS, line=dashed)
    _draw_lines(near, packed, over, "loss", "scheme", _LOOKS, line=solid, band=True)
    _draw_lines(near, packed, over, "resharded", "scheme", _LOOKS, line=dotted)
    for scheme, look in _LOOKS.items():
        edge = {**PUBLISHED, "marker": "v", "markeredgecolor": look.colour}
        near.plot(0.004, published_value("ntp", "lost_throughput", scheme, at_most), **edge)
    _failed_axis(whole, xlim=(0, 0.004), ylim=(0, None), ylabel="throughput lost")
    whole.set_title("Hit domains packed into few replicas, or not")
    _failed_axis(near, xlim=(0, 0.0042), ylim=(-0.002, 0.14))
    near.set_title("Packed (bands: 5th to 95th percentile)")
    entries = [mark(look.label, look.colour) for look in _LOOKS.values()]
    entries += [mark("not packed", linestyle="--"), mark("all resharding charged", linestyle=":")]
    legend_below(figure, [*entries, mark("published: at most", **{**PUBLISHED, "marker": "v"})], 3)
    return figure


def draw_courses(courses: pd.DataFrame) -> Figure:
    """Draw the failed fraction over 15 days: median, 5th to 95th percentile, and one trace."""
    figure, axis = plt.subplots(figsize=(8.4, 4.4))
    named = courses.assign(course=list(zip(courses.repair, courses.rate_factor, strict=True)))
    _draw_lines(axis, named, "day", "median", "course", _COURSES, band=True)
    axis.legend(loc="upper left")
    one = {"linewidth": 0.8, "drawstyle": "steps-post"}
    _draw_lines(axis, named, "day", "one", "course", _COURSES, line=one)
    heights = {
        "0.1%": THRESHOLD,
        "published\npeak: 72 GPUs": tables.peak_published() / setting.GPUS,
    }
    for label, height in heights.items():
        axis.axhline(height, color="black", linestyle=":", linewidth=1.2)
        axis.annotate(label, (15.1, height), annotation_clip=False, va="center", fontsize=9)
    axis.set(xlim=(0, 15), ylim=(0, 0.008), xticks=range(0, 16, 3))
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    axis.set(xlabel="days since all GPUs were healthy", ylabel="failed GPUs of 32,768")
    axis.set_title("Failed GPUs over 15 days: median, 90 % of the traces, and one trace")
    return figure


def draw_spares(table: pd.DataFrame) -> Figure:
    """Draw the spare domains that each scheme needs, in whole replicas, over all traces."""
    by_repair = table[table.rate_factor == 1].groupby("repair")
    repairs = ["3 days", "3 or 5 days", "5 days"]
    figure, axis = plt.subplots(figsize=(7.2, 4.2))
    for offset, (scheme, look) in zip((-0.27, 0.0, 0.27), _LOOKS.items(), strict=True):
        for place, repair in enumerate(repairs):
            values, at = by_repair.get_group(repair)[f"replica_spares_{scheme}"], place + offset
            mean, (low, high) = values.mean(), np.percentile(values, (5, 95))
            axis.bar(at, mean, width=0.25, color=look.colour)
            axis.vlines(at, low, high, color="black", linewidth=1.2)
            axis.text(at - 0.02, mean + 0.8, f"{mean:.0f}", ha="right", va="bottom")
        # The last repair is the published one.
        axis.plot(
            len(repairs) - 1 + offset + 0.07,
            tables.spares_published(scheme),
            **PUBLISHED,
            clip_on=False,
        )
    axis.set_xticks(range(len(repairs)), [f"repair in {repair}" for repair in repairs])
    axis.tick_params(axis="x", length=0)
    axis.set(ylim=(0, 100), ylabel="spare domains of 32 GPUs")
    axis.set_title("Spares that keep the batch through 15 days, in whole replicas")
    handles = [mark(f"{look.label}, mean", look.colour, linewidth=6) for look in _LOOKS.values()]
    handles += [mark("5th to 95th percentile", "black"), mark("published", **PUBLISHED)]
    axis.legend(handles=handles, loc="upper left")
    return figure


def draw_blasts(table: pd.DataFrame) -> Figure:
    """Draw the loss over the GPUs that a failure takes."""
    figure, axis = plt.subplots(figsize=(7.2, 4.2))
    _draw_lines(axis, table[table.packed], "blast_radius", "loss", "scheme", _LOOKS, band=True)
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter("{x:.0f}")
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    axis.set(xlabel="GPUs that a failure takes, in one domain", ylabel="throughput lost, packed")
    axis.set_title("Blast radius: 33 failures (bands: 5th to 95th percentile)")
    axis.legend(loc="center left")
    return figure


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
        text = f"goodput {goodput[variant]:.1%}"
        axis.text(left[variant] + 0.004, place, text, va="center", fontsize=9)
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
    looks = {
        scheme: replace(look_of(scheme), label=loop.variant_name(scheme))
        for scheme in loop.DOMAIN_SCHEMES
    }
    figure, (lost, trained) = plt.subplots(1, 2, figsize=(9.6, 4.2))
    shares = table.assign(lost=1.0 - table.goodput)
    for axis, column in ((lost, "lost"), (trained, "batches_per_day")):
        _draw_lines(axis, shares, "domain_gpus", column, "strategy", looks)
        axis.set(xlabel="GPUs of a scale-up domain", ylim=(0, None), xticks=DOMAIN_SIZES)
    lost.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    trained.yaxis.set_major_formatter("{x:,.0f}")
    lost.set(ylabel="share of 15 days lost", title="Each against itself without failures")
    trained.set(ylabel="batches of 1,024 sequences a day", title="What 32,768 GPUs train")
    legend_below(figure, lost)
    figure.suptitle("Through the same failures, at Llama 3's rate")
    return figure
