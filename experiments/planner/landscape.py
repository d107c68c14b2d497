"""The time to train over redundancy and checkpoint interval, by closed forms and by simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from faultline.experiments.figures.maps import draw_heat_map
from faultline.experiments.figures.style import in_order, write_title
from faultline.experiments.job.choices import Choice, at_interval, predicted_ratio
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.planner.advice import scheme_name
from faultline.experiments.planner.plan import Plan
from faultline.experiments.planner.search import OperatingPoint, point_of, simulated_objective
from faultline.experiments.planner.situation import choices_of
from faultline.experiments.planner.verification import steps_needed
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

CLOSED_FORM, SIMULATION = "closed form", "simulation"
_INTERVAL, _REDUNDANCY, _RATIO = (
    "checkpoint.interval_steps",
    "strategy.redundancy",
    "time_to_train_ratio",
)
_FACTORS = (0.25, 0.4, 0.63, 1.0, 1.6, 2.5, 4.0)
_REACH = 3
# The least ratio is the lightest cell.
_MARK = "black"


def landscape(
    plan: Plan,
    best: Choice,
    seeds: Sequence[int],
    steps: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> pd.DataFrame:
    """Return the ratio around the best choice of a scheme, predicted and simulated.

    Returns
    -------
    DataFrame
        Tidy, a row a point, source and seed: ``strategy.name``, ``strategy.redundancy``,
        ``checkpoint.interval_steps``, ``source``, ``seed``, ``time_to_train_ratio``, ``steps`` of
        the simulated job. A prediction is the same for each seed, and NaN where the closed form
        does not hold.
    """
    choices = choices_of(plan.situation, best.scheme, best.protection)
    taken = steps or steps_needed([best])
    points = _points(best, choices)
    pairs = [(point, seed) for point in points for seed in seeds]
    simulated = simulated_objective(best.question, taken, on_done)(pairs)
    predicted = {point: predicted_ratio(_at(best, point)) for point in points}
    rows = [
        (best.scheme, point.redundancy, point.interval_steps, source, seed, ratio, taken)
        for (point, seed), played in zip(pairs, simulated, strict=True)
        for source, ratio in ((CLOSED_FORM, predicted[point]), (SIMULATION, played))
    ]
    columns = ["strategy.name", _REDUNDANCY, _INTERVAL, "source", "seed", _RATIO, "steps"]
    return pd.DataFrame(rows, columns=columns)


def _points(best: Choice, choices: Sequence[Choice]) -> list[OperatingPoint]:
    redundancies = sorted(
        choice.redundancy
        for choice in choices
        if abs(choice.redundancy - best.redundancy) <= _REACH
    )
    intervals = dict.fromkeys(max(1, round(best.interval_steps * factor)) for factor in _FACTORS)
    return [OperatingPoint(redundancy, steps) for redundancy in redundancies for steps in intervals]


def _at(best: Choice, point: OperatingPoint) -> ResolvedJob:
    return at_interval(replace(best.question, redundancy=point.redundancy), point.interval_steps)


def draw_landscape(frame: pd.DataFrame, best: Choice) -> Figure:
    """Draw the two maps of a scheme side by side on one scale of colours.

    The least ratio of each panel is framed; in the simulated one the closed form's choice has a
    dashed frame as well.
    """
    runs = frame.assign(status="ok", error=None)
    steps = int(frame["steps"].iloc[0])
    notes = [
        "Framed: the least ratio of the panel; dashed: the closed forms' choice in the simulation.",
        f"Simulated jobs of {steps:,} steps.",
    ]
    shown = runs[["status", "error", "source", _REDUNDANCY, _INTERVAL, "seed", _RATIO]]
    figure = draw_heat_map(shown, _INTERVAL, _REDUNDANCY, _RATIO, "source", notes)
    write_title(figure, f"{scheme_name(best.scheme)}: time-to-train ratio")
    columns, rows = in_order(frame[_INTERVAL]), in_order(frame[_REDUNDANCY])
    for source, axis in zip((CLOSED_FORM, SIMULATION), figure.axes, strict=False):
        mine = frame[frame["source"] == source]
        means = mine.groupby([_REDUNDANCY, _INTERVAL])[_RATIO].mean()
        least = means.idxmin()
        frames = [(least, "solid")]
        if source == SIMULATION and least != point_of(best):
            frames.append((tuple(point_of(best)), "dashed"))
        for (redundancy, interval), line in frames:
            corner = (columns.index(interval), rows.index(redundancy))
            look: dict[str, Any] = {"fill": False, "edgecolor": _MARK, "linewidth": 2.6}
            axis.add_patch(Rectangle(corner, 1, 1, linestyle=line, zorder=5, **look))
    return figure
