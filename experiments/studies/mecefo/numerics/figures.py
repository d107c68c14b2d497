"""Figures of the numerics: errors of gradients, and courses of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from faultline.experiments.figures.style import LineLook, figure_style, save_figure
from faultline.experiments.studies.mecefo.numerics.gradient_error import (
    error_table,
    gradient_errors,
)
from faultline.experiments.studies.mecefo.numerics.training import (
    Settings,
    TakeOver,
    all_techniques,
    train,
)
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, PercentFormatter

LOW_RANK = 8
"""Directions kept where the figure has one rank: a quarter of the width."""

_SOURCES = {
    "random": LineLook("random directions", "#555555", "^"),
    "weight": LineLook("of the weight", "#0072B2", "o"),
    "past gradient": LineLook("of a gradient 50 steps old", "#009E73", "D"),
}


def draw_gradient_error(path: Path, errors: pd.DataFrame | None = None) -> Path:
    """Draw errors of gradients: of the approximate rank over r, of the mean over n.

    Parameters
    ----------
    path : Path
        Where the figure goes.
    errors : DataFrame, optional
        What `gradient_errors` returned; computed if not given.
    """
    table = error_table(gradient_errors() if errors is None else errors)
    with figure_style():
        figure, (local, mean) = plt.subplots(1, 2, figsize=(10.5, 4.2))
        _draw_local(local, table)
        _draw_mean(mean, table)
        return save_figure(figure, path)


def training_courses(settings: Settings | None = None) -> dict[str, list[float]]:
    """Return losses by step: exact, one rank taken over, and all of the batch taken over."""
    base = settings or Settings()
    techniques = all_techniques(LOW_RANK)
    sequences = base.ranks * base.sequences_per_rank
    whole = replace(base, ranks=1, sequences_per_rank=sequences)
    return {
        f"all {base.ranks} ranks exact": train(base).losses,
        f"1 of {base.ranks} taken over, weight": train(base, TakeOver(techniques)).losses,
        f"1 of {base.ranks} taken over, past gradient": train(
            base, TakeOver(techniques, source="past gradient")
        ).losses,
        "all of the batch taken over": train(whole, TakeOver(techniques)).losses,
    }


def draw_training_courses(
    path: Path, courses: Mapping[str, list[float]] | None = None, *, smoothing_steps: int = 10
) -> Path:
    """Draw the loss over steps, smoothed; `courses` as `training_courses` returns them."""
    looks = zip(("#000000", "#0072B2", "#009E73", "#D55E00"), ("-", "--", "-.", ":"), strict=True)
    with figure_style():
        figure, axis = plt.subplots(figsize=(7.2, 4.2))
        for (name, losses), (colour, dashes) in zip(
            (courses or training_courses()).items(), looks, strict=True
        ):
            kernel = np.full(smoothing_steps, 1 / smoothing_steps)
            smooth = np.convolve(losses, kernel, mode="valid")
            steps = np.arange(len(smooth)) + (smoothing_steps - 1) / 2
            axis.plot(steps, smooth, color=colour, linestyle=dashes, label=name)
        axis.set_xlim(0, None)
        axis.set_xlabel("step")
        axis.set_ylabel("training loss (nats a token)")
        axis.set_title(f"Two of four layers taken over, r = {LOW_RANK} of 32")
        axis.legend(loc="upper right")
        return save_figure(figure, path)


def _draw_local(axis: Axes, table: pd.DataFrame) -> None:
    ffn = table[(table.part == "ffn") & (table.ranks == table.ranks.min())]
    for source, look in _SOURCES.items():
        mine = ffn[ffn.source == source]
        axis.plot(
            mine.low_rank,
            mine.local_angle_deg,
            color=look.colour,
            marker=look.marker,
            label=look.label,
        )
    _counts(axis, ffn.low_rank.unique())
    axis.set_ylim(0, 90)
    axis.set_yticks(range(0, 91, 15))
    axis.set_xlabel("directions kept, r (hidden width 32)")
    axis.set_ylabel("angle to the exact gradient (degrees)")
    axis.set_title("Feed-forward weights, approximate rank")
    axis.legend(title="directions", loc="upper right")


def _draw_mean(axis: Axes, table: pd.DataFrame) -> None:
    mine = table[(table.low_rank == LOW_RANK) & (table.source == "weight")]
    parts = {
        "rank left out, feed-forward": ("ffn", "dropped_error", "#D55E00", "s"),
        "attention, mean of the others": ("attention", "mean_error", "#CC79A7", "P"),
        "feed-forward": ("ffn", "mean_error", "#0072B2", "o"),
        "other weights": ("other", "mean_error", "#555555", "v"),
    }
    for label, (part, column, colour, marker) in parts.items():
        rows = mine[mine.part == part]
        axis.plot(rows.ranks, rows[column], color=colour, marker=marker, label=label)
    _counts(axis, mine.ranks.unique())
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.set_yticks([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("data-parallel ranks, one of them approximate")
    axis.set_ylabel("error of the mean gradient")
    axis.set_title(f"Mean over ranks, r = {LOW_RANK}, directions of the weight")
    axis.legend(loc="lower left")


def _counts(axis: Axes, values: np.ndarray) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(list(values), [str(value) for value in values])
    axis.minorticks_off()
