"""MeCeFO, Bamboo and Oobleck on 32 GPUs that keep failing (MeCeFO, NeurIPS 2025).

Throughput without failures is an input. Losses by failures are simulated: 350M and 7B beside
published values, 1B predicted. The ablation of one pipeline and its memory are included. The effect
of approximate gradients on training is a study of its own (`studies.mecefo_convergence`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pandas as pd
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.style import PUBLISHED, legend_below, mark
from faultline.experiments.studies.base import (
    Results,
    Row,
    Study,
    beside_published,
    listed_rows,
)
from faultline.experiments.studies.mecefo import ablation, runs
from faultline.experiments.studies.mecefo.runs import (
    MODELS,
    SCENARIOS,
    SYSTEMS,
    Failures,
    ThroughputCourse,
)
from faultline.experiments.studies.stage import Stage
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator, PercentFormatter

_SHOWN_SCENARIO, _SHOWN_SEED, _SHOWN_HOURS = "high", 2, 36.0


def _course_of(system: str) -> ThroughputCourse:
    return runs.course_of(
        runs.ThroughputCell(system, "7B", _SHOWN_SCENARIO), _SHOWN_SEED, _SHOWN_HOURS
    )


def draw_drops(simulated: pd.DataFrame) -> Figure:
    """Draw drops by model, scenario and system, published and simulated."""
    figure, axes = plt.subplots(1, len(MODELS), figsize=(11.5, 4.4), sharey=True)
    rows = beside_published("mecefo", listed_rows("mecefo", {"runs": simulated}))
    drops = {(row.scheme, row.setting): row for row in rows if row.quantity == "drop"}
    for axis, model in zip(axes, MODELS, strict=True):
        _draw_model(axis, drops, model)
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


def _draw_model(axis: Axes, drops: Mapping[tuple[str, str], Row], model: str) -> None:
    width = 0.26
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


def draw_courses(courses: Mapping[str, ThroughputCourse]) -> Figure:
    """Draw throughput over time, a panel per system; failures are marked above."""
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
    failures = SCENARIOS[_SHOWN_SCENARIO]
    title = (
        f"7B, a failure (▾) every {_interval(failures)}, "
        f"a GPU back after {failures.repair_s / 3600:g} h"
    )
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure


class MecefoStudy(Study):
    """Drops of the throughput, and the ablation of one pipeline."""

    scaled_by: ClassVar = frozenset({"seeds"})
    charts: ClassVar = {"drops.png": (draw_drops, "runs"), "courses.png": (draw_courses, "courses")}
    headline_title = "Throughput lost over what MeCeFO loses: 7B, a failure every half hour"
    headline_rows: ClassVar = {
        "Bamboo": ("drop over MeCeFO's", "bamboo", "*"),
        "Oobleck": ("drop over MeCeFO's", "oobleck", "*"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Run all systems, and one course of each over time."""
        simulated = runs.drop_table(stage)
        return {
            "runs": simulated,
            "no_fault": runs.no_fault_table(),
            "resilience": runs.resilience_table(simulated),
            "plateau": runs.plateau_table(),
            "slowdown": ablation.slowdown_table(),
            "memory": ablation.memory_table(),
            "courses": dict(zip(SYSTEMS, stage.calls("courses", _course_of, SYSTEMS), strict=True)),
        }
