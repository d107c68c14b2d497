"""MeCeFO, Bamboo and Oobleck on 32 GPUs that keep failing (MeCeFO, NeurIPS 2025).

Throughput without failures is an input. Losses by failures are simulated: 350M and 7B beside
published values, 1B predicted. The ablation of one pipeline and its memory are included. The effect
of approximate gradients on training is a study of its own (`studies.mecefo_convergence`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.style import PUBLISHED, legend_below, mark, write_title
from faultline.experiments.studies.base import Results, Row, Study, beside_published, listed_rows
from faultline.experiments.studies.mecefo import ablation, runs
from faultline.experiments.studies.mecefo.runs import MODELS, SCENARIOS, SYSTEMS, Failures
from faultline.experiments.studies.stage import Stage
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator, PercentFormatter


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
        Patch(label=f"{title_of(system)}, simulated", **_look(system)) for system in SYSTEMS
    ]
    handles += [
        mark("published", **PUBLISHED),
        mark("95 % interval over seeds", "black", lw=1.0),
    ]
    legend_below(figure, handles, 5)
    write_title(figure, "MeCeFO's losses are met, those of Bamboo and Oobleck for 350M alone")
    return figure


def _look(system: str) -> dict[str, Any]:
    """Return the look of a system's bars, which differ in grey, too."""
    hatch = "////" if system == "mecefo" else ""
    return {"facecolor": look_of(system).colour, "edgecolor": "white", "hatch": hatch}


def _draw_model(axis: Axes, drops: Mapping[tuple[str, str], Row], model: str) -> None:
    width = 0.26
    known = False
    for offset, system in zip((-width, 0.0, width), SYSTEMS, strict=True):
        for place, scenario in enumerate(SCENARIOS):
            row, x = drops[system, f"{model} {scenario}"], place + offset
            axis.bar(x, row.simulated, width=width * 0.9, **_look(system))
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


class MecefoStudy(Study):
    """Drops of the throughput, and the ablation of one pipeline."""

    scaled_by: ClassVar = frozenset({"seeds"})
    charts: ClassVar = {"drops.png": (draw_drops, "runs")}
    headline_title = "Throughput lost over what MeCeFO loses: 7B, a failure every half hour"
    headline_rows: ClassVar = {
        "Bamboo": ("drop over MeCeFO's", "bamboo", "*"),
        "Oobleck": ("drop over MeCeFO's", "oobleck", "*"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Run all systems, and compute the ablation."""
        simulated = runs.drop_table(stage)
        return {
            "runs": simulated,
            "no_fault": runs.no_fault_table(),
            "resilience": runs.resilience_table(simulated),
            "plateau": runs.plateau_table(),
            "slowdown": ablation.slowdown_table(),
            "memory": ablation.memory_table(),
        }
