"""The figures of the study; they read tables and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.figures.panels import write_notes, write_title
from faultline.experiments.figures.style import (
    LineLook,
    figure_style,
    graded_looks,
    save_figure,
    scheme_looks,
)
from faultline.experiments.studies.reft.combinations import (
    PROTECTIONS,
    RESTARTS_S,
    SCANNED,
    SCHEMES,
)
from faultline.experiments.studies.reft.published import EFFECTIVE_TIME, SAVING_FACTOR
from faultline.experiments.studies.reft.stalls import TREATMENTS, of_treatment, one_after_the_other
from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, PercentFormatter

_LABELS = {
    "storage": "storage,\njob waits",
    "async-storage": "storage,\nbackground",
    "reft": "REFT",
    "gemini": "GEMINI",
    "just-in-time": "just in\ntime",
}
# Okabe and Ito (2008), a palette for all kinds of colour vision.
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#555555"
_TREATMENT_LOOKS = {
    "absorbed": (_BLUE, "-", "o", "a failure is repaired by the stall it falls into"),
    "begins-anew": (_ORANGE, "--", "s", "a group that fails meanwhile begins anew"),
}


def draw_combinations(runs: pd.DataFrame, path: Path) -> Path:
    """Draw the ratio by protection, a line a scheme and a panel a length of a restart."""
    table = mean_over_seeds(
        runs, ["restart_of_s", "strategy", "protection"], "time_to_train_ratio"
    ).set_index(["restart_of_s", "strategy", "protection"])
    looks = scheme_looks(SCHEMES)
    with figure_style():
        figure, axes = plt.subplots(1, len(RESTARTS_S), figsize=(11.0, 4.8))
        for axis, restart_s in zip(axes, RESTARTS_S, strict=True):
            for scheme in SCHEMES:
                line = table.loc[(restart_s, scheme)].loc[list(PROTECTIONS)]
                _draw_protections(axis, line, looks[scheme], below=scheme == "spare")
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(FixedLocator([2, 3, 4, 5, 7, 10, 20, 50, 100]))
            axis.yaxis.set_minor_locator(NullLocator())
            axis.yaxis.set_major_formatter("{x:g}")
            axis.margins(y=0.08)
            axis.set_xticks(
                range(len(PROTECTIONS)), [_LABELS[name] for name in PROTECTIONS], fontsize=9
            )
            axis.set_xlim(-0.4, len(PROTECTIONS) - 0.4)
            axis.set_title(f"Restarts of {restart_s / 60:g} minutes")
            axis.set_ylabel("time-to-train ratio (log)")
        axes[0].legend(*_named_by_masking(axes[0]), loc="upper right")
        notes = [
            f"600,000 GPUs in 200 groups, a failure every 300 s, {runs.steps.iloc[0]:,} steps.",
            f"Mean over {runs.seed.nunique()} seeds, bars: its 95 % interval.",
            "Redundancy and intervals by each scheme's closed form. Scales differ.",
        ]
        write_notes(figure, notes)
        return save_figure(figure, path)


def _draw_protections(axis: Axes, line: pd.DataFrame, look: LineLook, *, below: bool) -> None:
    """Draw one scheme: a mark a protection, with its value beside it."""
    mean = line["mean"]
    axis.errorbar(
        range(len(line)),
        mean,
        yerr=[mean - line["low"], line["high"] - mean],
        fmt=look.marker,
        color=look.colour,
        label=look.label,
    )
    axis.plot(range(len(line)), mean, color=look.colour, lw=0.9, alpha=0.6)
    for place, value in enumerate(mean):
        axis.annotate(
            f"{value:.3g}" if value >= 10 else f"{value:.2f}",
            (place, value),
            xytext=(6, -12 if below else 5),
            textcoords="offset points",
            fontsize=8,
            color=look.colour,
        )


def _named_by_masking(axis: Axes) -> tuple[list[Artist], list[str]]:
    """Return a legend of what masks failures: the checkpoints beneath are what is compared."""
    handles, labels = axis.get_legend_handles_labels()
    shorter = [label.replace(" + checkpoint", "") for label in labels]
    return handles, ["no masking" if name == "checkpoint only" else name for name in shorter]


def draw_scan(scan: pd.DataFrame, path: Path) -> Path:
    """Draw SPARe's ratio over redundancy, on storage and on REFT, a panel a restart."""
    table = mean_over_seeds(
        scan, ["restart_of_s", "protection", "redundancy"], "time_to_train_ratio"
    )
    looks = {"storage": (_GREY, "^", "--"), "reft": (_BLUE, "o", "-")}
    with figure_style():
        figure, axes = plt.subplots(1, len(RESTARTS_S), figsize=(9.5, 3.9), sharey=True)
        for axis, restart_s in zip(axes, RESTARTS_S, strict=True):
            for protection in SCANNED:
                colour, marker, dashes = looks[protection]
                line = table[(table.restart_of_s == restart_s) & (table.protection == protection)]
                label = _LABELS[protection].replace("\n", " ")
                axis.plot(
                    line.redundancy,
                    line["mean"],
                    color=colour,
                    marker=marker,
                    ls=dashes,
                    label=label,
                )
                axis.fill_between(
                    line.redundancy, line["low"], line["high"], color=colour, alpha=0.2, lw=0
                )
                best = line.loc[line["mean"].idxmin()]
                axis.annotate(
                    f"best: r = {best.redundancy:g}, {best['mean']:.2f}",
                    (best.redundancy, best["mean"]),
                    xytext=(0, -16 if protection == "reft" else 12),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8.5,
                    color=colour,
                )
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.set_xlabel("redundancy r")
            axis.set_title(f"Restarts of {restart_s / 60:g} minutes")
            axis.set_ylim(2.0, 5.2)
        axes[0].set_ylabel("time-to-train ratio")
        axes[0].legend()
        write_title(figure, "SPARe, 600,000 GPUs, N = 200, a failure every 300 s")
        return save_figure(figure, path)


def draw_stalls(table: pd.DataFrame, path: Path) -> Path:
    """Draw the effective time over the length of a stall: closed forms, simulated, published."""
    stalls_s = np.linspace(0.0, 780.0, 157)
    with figure_style():
        figure, axis = plt.subplots(figsize=(7.0, 4.4))
        for treatment in TREATMENTS:
            colour, dashes, marker, label = _TREATMENT_LOOKS[treatment]
            curve = [of_treatment(treatment, stall_s) for stall_s in stalls_s]
            axis.plot(stalls_s / 60, curve, color=colour, ls=dashes, label=label)
            mine = mean_over_seeds(
                table[table.treatment == treatment], ["stall_s"], "effective_time"
            )
            axis.errorbar(
                mine.stall_s / 60,
                mine["mean"],
                yerr=[mine["mean"] - mine["low"], mine["high"] - mine["mean"]],
                fmt=marker,
                color=colour,
                label=f"simulated, {treatment}",
            )
        axis.plot(
            stalls_s / 60,
            [one_after_the_other(stall_s) for stall_s in stalls_s],
            color=_GREEN,
            ls=":",
            label="each failure waits for a stall of its own",
        )
        axis.plot(
            [stall_s / 60 for stall_s in EFFECTIVE_TIME],
            list(EFFECTIVE_TIME.values()),
            "D",
            markersize=9,
            markerfacecolor="none",
            markeredgecolor="black",
            label="published (FT-HSDP)",
        )
        axis.set_xlim(0, 13)
        axis.set_ylim(0, 1)
        axis.yaxis.set_major_formatter(PercentFormatter(1))
        axis.set_xlabel("stall of a failure (minutes)")
        axis.set_ylabel("effective time")
        axis.set_title("100,000 GPUs, a failure every 17.7 minutes")
        axis.legend(loc="lower left", fontsize=8)
        return save_figure(figure, path)


def draw_saving(table: pd.DataFrame, path: Path) -> Path:
    """Draw how much faster REFT saves, over the bandwidth of the file system."""
    sizes = sorted(table.sharding_group.unique())
    names = list(dict.fromkeys(table.storage_bandwidth))
    bandwidths = [float(name.removesuffix("GB/s")) for name in names]
    with figure_style():
        figure, axis = plt.subplots(figsize=(7.0, 4.2))
        looks = graded_looks([f"sharding groups of {size}" for size in sizes])
        for size, look in zip(sizes, looks, strict=True):
            line = table[table.sharding_group == size]
            axis.plot(
                bandwidths, line.factor, color=look.colour, marker=look.marker, label=look.label
            )
        axis.axhline(SAVING_FACTOR, color=_GREY, ls=":", lw=1.2)
        axis.annotate(
            "published: more than 14",
            (1.0, SAVING_FACTOR),
            (0, 4),
            textcoords="offset points",
            fontsize=8.5,
            color=_GREY,
        )
        axis.axhline(1.0, color=_GREY, lw=0.8)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(bandwidths, [f"{value:g}" for value in bandwidths])
        axis.minorticks_off()
        axis.yaxis.set_major_formatter("{x:g}")
        axis.set_xlabel("write bandwidth of the file system (GB/s)")
        axis.set_ylabel("REFT saves so many times as fast")
        axis.set_title("16 HGX A800 servers against asynchronous checkpoints")
        axis.legend()
        return save_figure(figure, path)
