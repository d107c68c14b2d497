"""The figures of the study, a panel a length of a restart; they read tables and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.style import (
    draw_band,
    draw_means,
    mark,
    ticks_at,
    write_notes,
    write_title,
)
from faultline.experiments.studies.reft import combinations
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

_LABELS = {
    "storage": "storage,\njob waits",
    "async-storage": "storage,\nbackground",
    "reft": "REFT",
    "gemini": "GEMINI",
    "just-in-time": "just in\ntime",
}
_SCANNED = {"storage": ("#555555", "^", "--"), "reft": ("#0072B2", "o", "-")}
"""Colour, marker and dashes of SPARe on each protection."""
_NOTE: Any = {"textcoords": "offset points", "fontsize": 8.5}
_CONTROL: Any = {"marker": "s", "ms": 7, "mfc": "white", "mew": 1.5, "ls": "none", "zorder": 3}


def _panels(
    runs: pd.DataFrame, keys: list[str], **figure: Any
) -> tuple[Figure, Iterator[tuple[Axes, pd.DataFrame]]]:
    """Return a figure with a panel for each restart, and the means of the ratio in each panel."""
    means = mean_over_seeds(runs, ["minutes", *keys], combinations.METRIC)
    drawn, axes = plt.subplots(1, len(combinations.RESTARTS_MINUTES), **figure)

    def panels() -> Iterator[tuple[Axes, pd.DataFrame]]:
        for axis, minutes in zip(axes, combinations.RESTARTS_MINUTES, strict=True):
            yield axis, means[means.minutes == minutes]
            axis.set_yscale("log")
            ticks_at(axis.yaxis, [2, 3, 4, 5, 7, 10, 20, 30, 50, 100])
            axis.set_title(f"Restarts of {minutes} minutes")
        axes[0].set_ylabel("time-to-train ratio (log)")
        axes[0].legend(loc="upper right")

    return drawn, panels()


def draw_combinations(runs: pd.DataFrame) -> Figure:
    """Draw the ratio by protection, a line a scheme."""
    figure, panels = _panels(runs, ["strategy", "protection"], figsize=(11.0, 4.8))
    for axis, means in panels:
        for scheme in combinations.SCHEMES:
            mine = means[means.strategy == scheme].set_index("protection").loc[list(_LABELS)]
            _draw_protections(axis, mine, scheme)
        axis.margins(y=0.08)
        axis.set_xticks(range(len(_LABELS)), list(_LABELS.values()), fontsize=9)
        axis.set_xlim(-0.4, len(_LABELS) - 0.4)
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
    draw_means(axis, range(len(line)), line, fmt=look.marker, color=look.colour, label=label)
    axis.plot(range(len(line)), line["mean"], color=look.colour, lw=0.9, alpha=0.6)
    for place, value in enumerate(line["mean"]):
        text = f"{value:.3g}" if value >= 10 else f"{value:.2f}"
        note = {**_NOTE, "fontsize": 8, "color": look.colour}
        axis.annotate(text, (place, value), (6, -12 if scheme == "spare" else 5), **note)


def draw_scan(scan: pd.DataFrame) -> Figure:
    """Draw SPARe's ratio over redundancy, on storage and on REFT.

    r = 1 is the control, which masks nothing: up to ten times the best ratio.
    """
    figure, panels = _panels(scan, ["protection", "redundancy"], figsize=(9.5, 3.9), sharey=True)
    for axis, means in panels:
        for protection, (colour, marker, dashes) in _SCANNED.items():
            line = means[means.protection == protection]
            label = _LABELS[protection].replace("\n", " ")
            ratios = line["mean"]
            axis.plot(line.redundancy, ratios, color=colour, marker=marker, ls=dashes, label=label)
            draw_band(axis, line.redundancy, line, colour)
            best = line.loc[ratios.idxmin()]
            text = f"best: r = {best.redundancy:g}, {best['mean']:.2f}"
            at, offset = (best.redundancy, best["mean"]), (0, -16 if protection == "reft" else 12)
            axis.annotate(text, at, offset, **_NOTE, ha="center", color=colour)
            control = ratios.iloc[0]
            axis.plot(1, control, color=colour, **_CONTROL)
            text = f"{control:.3g}"
            axis.annotate(text, (1, control), (-9, -3), **_NOTE, ha="right", color=colour)
        axis.add_artist(mark("control: r = 1 masks nothing", "#555555", **_CONTROL))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set(xlabel="redundancy r", xlim=(0, 10.5), ylim=(1.6, 45))
    write_title(figure, "SPARe, 600,000 GPUs, N = 200, a failure every 300 s")
    return figure
