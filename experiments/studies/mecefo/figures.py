"""The figures of the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from faultline.experiments.figures.palette import LineLook, look_of, title_of
from faultline.experiments.figures.style import PUBLISHED, legend_below, mark
from faultline.experiments.studies.base import Row
from faultline.experiments.studies.mecefo.numerics.training import SHOWN_RANK, error_table
from faultline.experiments.studies.mecefo.runs import Course
from faultline.experiments.studies.mecefo.setting import MODELS, SCENARIOS, SYSTEMS, Failures
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator, NullFormatter, PercentFormatter

# Okabe and Ito (2008), a palette for all kinds of colour vision.
_SOURCES = {
    "random": LineLook("random directions", "#555555", "^"),
    "weight": LineLook("of the weight", "#0072B2", "o"),
    "past gradient": LineLook("of a gradient 50 steps old", "#009E73", "D"),
}


def draw_drops(rows: Sequence[Row]) -> Figure:
    """Draw drops by model, scenario and system, published ones beside those simulated."""
    figure, axes = plt.subplots(1, len(MODELS), figsize=(11.5, 4.4), sharey=True)
    for axis, model in zip(axes, MODELS, strict=True):
        _draw_model(axis, rows, model)
    axes[0].set_ylabel("throughput lost to failures")
    axes[0].set_ylim(0, None)
    handles: list[Patch | Line2D] = [
        Patch(color=look_of(system).colour, label=f"{title_of(system)}, simulated")
        for system in SYSTEMS
    ]
    handles += [
        mark("published", **PUBLISHED),
        mark("95 % interval over seeds", "black", lw=1.0),
    ]
    legend_below(figure, handles, 5)
    return figure


def _draw_model(axis: Axes, rows: Sequence[Row], model: str) -> None:
    width = 0.26
    drops = {(row.scheme, row.setting): row for row in rows if row.quantity == "drop"}
    known = False
    for offset, system in zip((-width, 0.0, width), SYSTEMS, strict=True):
        for place, scenario in enumerate(SCENARIOS):
            row, x = drops[system, f"{model} {scenario}"], place + offset
            axis.bar(x, row.simulated, width=width * 0.9, color=look_of(system).colour)
            axis.plot([x, x], [max(row.low, 0.0), row.high], color="black", lw=1.0)
            if row.published is not None:
                known = True
                axis.plot(x, row.published, **PUBLISHED)
    names = [f"{name}\n{_interval(failures)}" for name, failures in SCENARIOS.items()]
    axis.set_xticks(range(len(SCENARIOS)), names)
    axis.tick_params(axis="x", length=0)
    axis.set_xlabel("scenario: a failure every")
    axis.yaxis.set_major_formatter(PercentFormatter(100, decimals=0))
    axis.yaxis.set_major_locator(MultipleLocator(5))
    axis.set_title(model if known else f"{model}, predicted")


def _interval(failures: Failures) -> str:
    minutes = failures.mtbf_s / 60
    return f"{minutes / 60:g} h" if minutes >= 60 else f"{minutes:g} min"


def draw_courses(courses: Mapping[str, Course], scenario: str) -> Figure:
    """Draw throughput over time, a panel a system; failures are marked above."""
    figure, axes = plt.subplots(
        len(courses), 1, figsize=(10.5, 1.9 * len(courses) + 0.8), sharex=True, sharey=True
    )
    for axis, (system, course) in zip(axes, courses.items(), strict=True):
        axis.plot(
            course.hours, course.relative, color=look_of(system).colour, lw=1.3,
            drawstyle="steps-mid",
        )  # fmt: skip
        axis.axhline(1.0, color="#999999", lw=0.8, ls=":", zorder=0)
        axis.plot(
            course.failures_h, [1.1] * len(course.failures_h), marker="v", ls="none", color="black",
            markersize=4, clip_on=False,
        )  # fmt: skip
        axis.set_title(f"{title_of(system)}: mean {course.relative.mean():.1%}", loc="left")
        axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes[0].set_ylim(0.4, 1.18)
    axes[0].set_xlim(0, courses["mecefo"].hours.max())
    axes[-1].set_xlabel("hours of training")
    figure.supylabel("throughput, share of that without failures", fontsize=9)
    failures = SCENARIOS[scenario]
    title = (
        f"7B, a failure (▾) every {_interval(failures)}, "
        f"a GPU back after {failures.repair_s / 3600:g} h"
    )
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure


def draw_gradient_error(errors: pd.DataFrame) -> Figure:
    """Draw errors of gradients: of the approximate rank over r, of the mean over n."""
    table = error_table(errors)
    figure, (local, mean) = plt.subplots(1, 2, figsize=(10.5, 4.2))
    _draw_local(local, table)
    _draw_mean(mean, table)
    return figure


def draw_training_courses(courses: Mapping[str, list[float]]) -> Figure:
    """Draw the loss over steps, a mean of ten; `courses` as `training_courses` returns them."""
    looks = zip(("#000000", "#0072B2", "#009E73", "#D55E00"), ("-", "--", "-.", ":"), strict=True)
    figure, axis = plt.subplots(figsize=(7.2, 4.2))
    for (name, losses), (colour, dashes) in zip(courses.items(), looks, strict=True):
        smooth = np.convolve(losses, np.full(10, 0.1), mode="valid")
        steps = np.arange(len(smooth)) + 4.5
        axis.plot(steps, smooth, color=colour, linestyle=dashes, label=name)
    axis.set_xlim(0, None)
    axis.set_xlabel("step")
    axis.set_ylabel("training loss (nats a token)")
    axis.set_title(f"Two of four layers taken over, r = {SHOWN_RANK} of 32")
    axis.legend(loc="upper right")
    return figure


def _draw_local(axis: Axes, table: pd.DataFrame) -> None:
    ffn = table[(table.part == "ffn") & (table.ranks == table.ranks.min())]
    for source, look in _SOURCES.items():
        mine = ffn[ffn.source == source]
        axis.plot(
            mine.low_rank, mine.local_angle_deg, color=look.colour, marker=look.marker,
            label=look.label,
        )  # fmt: skip
    _counts(axis, ffn.low_rank.unique())
    axis.set_ylim(0, 90)
    axis.set_yticks(range(0, 91, 15))
    axis.set_xlabel("directions kept, r (hidden width 32)")
    axis.set_ylabel("angle to the exact gradient (degrees)")
    axis.set_title("Feed-forward weights, approximate rank")
    axis.legend(title="directions", loc="upper right")


def _draw_mean(axis: Axes, table: pd.DataFrame) -> None:
    mine = table[(table.low_rank == SHOWN_RANK) & (table.source == "weight")]
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
    axis.set_title(f"Mean over ranks, r = {SHOWN_RANK}, directions of the weight")
    axis.legend(loc="lower left")


def _counts(axis: Axes, values: np.ndarray) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(list(values), [str(value) for value in values])
    axis.minorticks_off()
