"""The figures of the study; they read tables and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.style import (
    PUBLISHED,
    draw_band,
    draw_means,
    graded_looks,
    mark,
    ticks_at,
    write_notes,
    write_title,
)
from faultline.experiments.studies.reft import combinations, failures, snapshots
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

_LABELS = {
    "storage": "storage,\njob waits",
    "async-storage": "storage,\nbackground",
    "reft": "REFT",
    "gemini": "GEMINI",
    "just-in-time": "just in\ntime",
}
# Okabe and Ito (2008), a palette for all kinds of colour vision.
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#555555"
_TOLERANCE_LOOKS = ((_GREY, "-"), (_BLUE, "--"), (_ORANGE, "-."))
_NOTE: Any = {"textcoords": "offset points", "fontsize": 8.5}
_CONTROL: Any = {"marker": "s", "ms": 7, "mfc": "white", "mew": 1.5, "ls": "none", "zorder": 3}
_TREATMENT_LOOKS = {
    "absorbed": (_BLUE, "-", "o", "a failure is repaired by the stall it falls into"),
    "begins-anew": (_ORANGE, "--", "s", "a group that fails meanwhile begins anew"),
}


def draw_combinations(runs: pd.DataFrame) -> Figure:
    """Draw the ratio by protection, a line a scheme and a panel a length of a restart."""
    table = mean_over_seeds(
        runs, ["restart_of_s", "strategy", "protection"], "time_to_train_ratio"
    ).set_index(["restart_of_s", "strategy", "protection"])
    figure, axes = plt.subplots(1, len(combinations.RESTARTS_S), figsize=(11.0, 4.8))
    for axis, restart_s in zip(axes, combinations.RESTARTS_S, strict=True):
        for scheme in combinations.SCHEMES:
            _draw_protections(axis, table.loc[(restart_s, scheme)].loc[list(_LABELS)], scheme)
        axis.set_yscale("log")
        ticks_at(axis.yaxis, [2, 3, 4, 5, 7, 10, 20, 50, 100])
        axis.margins(y=0.08)
        axis.set_xticks(range(len(_LABELS)), list(_LABELS.values()), fontsize=9)
        axis.set_xlim(-0.4, len(_LABELS) - 0.4)
        axis.set_title(f"Restarts of {restart_s / 60:g} minutes")
        axis.set_ylabel("time-to-train ratio (log)")
    axes[0].legend(loc="upper right")
    notes = [
        f"600,000 GPUs in 200 groups, a failure every 300 s, {runs.steps.iloc[0]:,} steps.",
        f"Mean over {runs.seed.nunique()} seeds, bars: its 95 % interval.",
        "Redundancy and intervals by each scheme's closed form. Scales differ.",
    ]
    write_notes(figure, notes)
    return figure


def _draw_protections(axis: Axes, line: pd.DataFrame, scheme: str) -> None:
    """Draw one scheme: a mark a protection, with its value beside it."""
    look = look_of(scheme)
    # The legend names masking alone: the figure compares the protections beneath.
    label = "no masking" if scheme == "checkpoint" else title_of(scheme)
    mean = line["mean"]
    draw_means(axis, range(len(line)), line, fmt=look.marker, color=look.colour, label=label)
    axis.plot(range(len(line)), mean, color=look.colour, lw=0.9, alpha=0.6)
    for place, value in enumerate(mean):
        text = f"{value:.3g}" if value >= 10 else f"{value:.2f}"
        note = {**_NOTE, "fontsize": 8, "color": look.colour}
        axis.annotate(text, (place, value), (6, -12 if scheme == "spare" else 5), **note)


def draw_scan(scan: pd.DataFrame) -> Figure:
    """Draw SPARe's ratio over redundancy, on storage and on REFT, a panel a restart.

    r = 1 is the control, which masks nothing: up to ten times the best ratio.
    """
    table = mean_over_seeds(
        scan, ["restart_of_s", "protection", "redundancy"], "time_to_train_ratio"
    )
    looks = {"storage": (_GREY, "^", "--"), "reft": (_BLUE, "o", "-")}
    figure, axes = plt.subplots(1, len(combinations.RESTARTS_S), figsize=(9.5, 3.9), sharey=True)
    for axis, restart_s in zip(axes, combinations.RESTARTS_S, strict=True):
        for protection in combinations.SCANNED:
            colour, marker, dashes = looks[protection]
            line = table[(table.restart_of_s == restart_s) & (table.protection == protection)]
            label = _LABELS[protection].replace("\n", " ")
            axis.plot(
                line.redundancy, line["mean"], color=colour, marker=marker, ls=dashes, label=label
            )
            draw_band(axis, line.redundancy, line, colour)
            best = line.loc[line["mean"].idxmin()]
            text = f"best: r = {best.redundancy:g}, {best['mean']:.2f}"
            at, offset = (best.redundancy, best["mean"]), (0, -16 if protection == "reft" else 12)
            axis.annotate(text, at, offset, **_NOTE, ha="center", color=colour)
            control = line["mean"].iloc[0]
            axis.plot(1, control, color=colour, **_CONTROL)
            text = f"{control:.3g}"
            axis.annotate(text, (1, control), (-9, -3), **_NOTE, ha="right", color=colour)
        axis.set_yscale("log")
        ticks_at(axis.yaxis, [2, 3, 4, 5, 7, 10, 20, 30])
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set(xlabel="redundancy r", title=f"Restarts of {restart_s / 60:g} minutes")
        axis.set(xlim=(0, 10.5), ylim=(1.6, 45))
    axes[0].set_ylabel("time-to-train ratio (log)")
    handles = axes[0].get_legend_handles_labels()[0]
    handles.append(mark("control: r = 1 masks nothing", _GREY, **_CONTROL))
    axes[0].legend(handles=handles, loc="upper right")
    write_title(figure, "SPARe, 600,000 GPUs, N = 200, a failure every 300 s")
    return figure


def draw_stalls(table: pd.DataFrame) -> Figure:
    """Draw the effective time over the length of a stall: closed forms, simulated, published."""
    stalls_s = np.linspace(0.0, 780.0, 157)
    figure, axis = plt.subplots(figsize=(7.0, 4.4))
    for treatment in failures.TREATMENTS:
        colour, dashes, marker, label = _TREATMENT_LOOKS[treatment]
        curve = [failures.effective_time(treatment, stall_s) for stall_s in stalls_s]
        axis.plot(stalls_s / 60, curve, color=colour, ls=dashes, label=label)
        mine = mean_over_seeds(table[table.treatment == treatment], ["stall_s"], "effective_time")
        look = {"fmt": marker, "color": colour, "label": f"simulated, {treatment}"}
        draw_means(axis, mine.stall_s / 60, mine, **look)
    alone = [failures.effective_time(failures.ALONE, stall_s) for stall_s in stalls_s]
    label = "each failure waits for a stall of its own"
    axis.plot(stalls_s / 60, alone, color=_GREEN, ls=":", label=label)
    minutes = [stall_s / 60 for stall_s in failures.STALLS_S]
    published = [failures.stall_published(stall_s) for stall_s in failures.STALLS_S]
    axis.plot(minutes, published, **PUBLISHED, label="published (FT-HSDP)")
    axis.set(xlim=(0, 13), ylim=(0, 1))
    axis.yaxis.set_major_formatter(PercentFormatter(1))
    axis.set(xlabel="stall of a failure (minutes)", ylabel="effective time")
    axis.set_title("100,000 GPUs, a failure every 17.7 minutes")
    axis.legend(loc="lower left", fontsize=8)
    return figure


def draw_saving(table: pd.DataFrame) -> Figure:
    """Draw how much faster REFT saves, over the bandwidth of the file system."""
    sizes = sorted(table.sharding_group.unique())
    names = list(dict.fromkeys(table.storage_bandwidth))
    bandwidths = [float(name.removesuffix("GB/s")) for name in names]
    figure, axis = plt.subplots(figsize=(7.0, 4.2))
    looks = graded_looks([f"sharding groups of {size}" for size in sizes])
    for size, look in zip(sizes, looks, strict=True):
        line = table[table.sharding_group == size]
        axis.plot(bandwidths, line.factor, **look.line)
    known = snapshots.SAVING_FACTOR
    axis.axhline(known, color=_GREY, ls=":", lw=1.2)
    axis.annotate(f"published: more than {known:g}", (1.0, known), (0, 4), **_NOTE, color=_GREY)
    axis.axhline(1.0, color=_GREY, lw=0.8)
    axis.set(xscale="log", yscale="log")
    axis.set_xticks(bandwidths, [f"{value:g}" for value in bandwidths])
    axis.minorticks_off()
    axis.yaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("write bandwidth of the file system (GB/s)")
    axis.set_ylabel("REFT saves so many times as fast")
    axis.set_title("16 HGX A800 servers against asynchronous checkpoints")
    axis.legend()
    return figure


def draw_loss_over_time() -> Figure:
    """Draw the loss probability over time for 0, 1 and 2 tolerated losses, and its 10 % times.

    Wang et al. 2023 (REFT): F(t) = 1 - exp(-(t / 50)^3) of a node, 1,024 nodes in groups of 16.
    """
    times = np.linspace(0.0, 20.0, 401)
    figure, axis = plt.subplots(figsize=(7.2, 4.2))
    axis.axhline(failures.LOSS, color=_GREY, linestyle=":", linewidth=1.2)
    looks = zip(failures.TOLERATED, _TOLERANCE_LOOKS, strict=True)
    for tolerated, (colour, dashes) in looks:
        losses = [failures.loss_by(time, tolerated) for time in times]
        label = f"{tolerated or 'no'} loss{'es' if tolerated > 1 else ''} a group tolerated"
        axis.plot(times, losses, color=colour, linestyle=dashes, label=label)
        reached = failures.exact_time(tolerated)
        axis.plot(reached, failures.LOSS, "o", color=colour, zorder=3)
        note = {**_NOTE, "fontsize": None, "color": colour}
        axis.annotate(f"{reached:.2f}", (reached, failures.LOSS), (6, -12), **note)
    axis.set(xlim=(0, 20), ylim=(0, 1))
    axis.yaxis.set_major_formatter(PercentFormatter(1))
    axis.set_xlabel("time since all nodes were new (scale of a node's lifetime: 50)")
    axis.set_ylabel("state in memory is lost")
    axis.set_title("1,024 nodes in groups of 16; dots: 10% are reached")
    figure.legend(loc="outside lower center", ncols=3)
    return figure
