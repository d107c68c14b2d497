"""The figures of the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from faultline.experiments.figures.style import figure_style, save_figure
from faultline.experiments.studies.base import Row
from faultline.experiments.studies.mecefo.course import Course
from faultline.experiments.studies.mecefo.rows import scenarios_of
from faultline.experiments.studies.mecefo.setting import (
    MODELS,
    SCENARIOS,
    SYSTEM_NAMES,
    SYSTEMS,
    Failures,
)
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator, PercentFormatter

# Okabe and Ito (2008), a palette for all kinds of colour vision.
COLOURS = {"bamboo": "#E69F00", "oobleck": "#CC79A7", "mecefo": "#0072B2"}


def draw_drops(rows: Sequence[Row], path: Path) -> Path:
    """Draw drops by model, scenario and system, published ones beside those simulated."""
    with figure_style():
        figure, axes = plt.subplots(1, len(MODELS), figsize=(11.5, 4.4), sharey=True)
        for axis, model in zip(axes, MODELS, strict=True):
            _draw_model(axis, rows, model)
        axes[0].set_ylabel("throughput lost to failures")
        axes[0].set_ylim(0, None)
        handles: list[Patch | Line2D] = [
            Patch(color=COLOURS[system], label=f"{SYSTEM_NAMES[system]}, simulated")
            for system in SYSTEMS
        ]
        handles += [
            Line2D([], [], color="black", marker="D", ls="none", mfc="white", label="published"),
            Line2D([], [], color="black", lw=1.0, label="95 % interval over seeds"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=5)
        return save_figure(figure, path)


def _draw_model(axis: Axes, rows: Sequence[Row], model: str) -> None:
    width = 0.26
    for offset, system in zip((-width, 0.0, width), SYSTEMS, strict=True):
        drops = scenarios_of(rows, system, model)
        for place, scenario in enumerate(SCENARIOS):
            row, x = drops[scenario], place + offset
            axis.bar(x, row.simulated, width=width * 0.9, color=COLOURS[system])
            axis.plot([x, x], [max(row.low, 0.0), row.high], color="black", lw=1.0)
            if row.published is not None:
                axis.plot(
                    x,
                    row.published,
                    marker="D",
                    ls="none",
                    markersize=6,
                    markerfacecolor="white",
                    markeredgecolor="black",
                    zorder=5,
                )
    names = [f"{name}\n{_interval(failures)}" for name, failures in SCENARIOS.items()]
    axis.set_xticks(range(len(SCENARIOS)), names)
    axis.tick_params(axis="x", length=0)
    axis.set_xlabel("scenario: a failure every")
    axis.yaxis.set_major_formatter(PercentFormatter(100, decimals=0))
    axis.yaxis.set_major_locator(MultipleLocator(5))
    predicted = "" if any(row.published for row in rows if _is_drop(row, model)) else ", predicted"
    axis.set_title(f"{model}{predicted}")


def _is_drop(row: Row, model: str) -> bool:
    return row.quantity == "drop" and row.setting.startswith(f"{model} ")


def _interval(failures: Failures) -> str:
    minutes = failures.mtbf_s / 60
    return f"{minutes / 60:g} h" if minutes >= 60 else f"{minutes:g} min"


def draw_courses(courses: Mapping[str, Course], scenario: str, path: Path) -> Path:
    """Draw throughput over time, a panel a system; failures are marked above."""
    with figure_style():
        figure, axes = plt.subplots(
            len(courses), 1, figsize=(10.5, 1.9 * len(courses) + 0.8), sharex=True, sharey=True
        )
        for axis, (system, course) in zip(axes, courses.items(), strict=True):
            axis.plot(
                course.hours,
                course.relative,
                color=COLOURS[system],
                lw=1.3,
                drawstyle="steps-mid",
            )
            axis.axhline(1.0, color="#999999", lw=0.8, ls=":", zorder=0)
            axis.plot(
                course.failures_h,
                [1.1] * len(course.failures_h),
                marker="v",
                ls="none",
                color="black",
                markersize=4,
                clip_on=False,
            )
            axis.set_title(f"{SYSTEM_NAMES[system]}: mean {course.relative.mean():.1%}", loc="left")
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
        return save_figure(figure, path)
