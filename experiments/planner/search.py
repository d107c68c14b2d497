"""Search of the best redundancy and checkpoint interval by simulation.

The search starts at the closed forms' choice. Its neighbours race against it (`analysis.race`): the
race ends when one is surely better, and the search moves there. The landscape is the time to train
over both parameters, by closed forms and by simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import Interval, paired_change
from faultline.experiments.analysis.race import Rules, changes_from, race
from faultline.experiments.config.errors import UserError
from faultline.experiments.figures.palette import look_of
from faultline.experiments.job.choices import Choice, at_interval, predicted_ratio
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.planner.plan import Plan
from faultline.experiments.planner.situation import Situation, choices_of
from faultline.experiments.planner.verification import run_points, steps_needed
from faultline.experiments.runs.point import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Step of the redundancy and factor on the interval of a move: coarse moves first, since a few seeds
# separate their differences from noise.
_MOVES = ((2, 1.6), (1, 1.25), (1, 1.1))
# For the final comparison of start and best.
_FRESH_SEEDS = range(1_000_000, 1_000_012)


class OperatingPoint(NamedTuple):
    """A redundancy and a checkpoint interval in steps."""

    redundancy: int
    interval_steps: int


Objective = Callable[[Sequence[tuple[OperatingPoint, int]]], Sequence[float]]
"""Maps points with seeds to positive values, in order; smaller is better."""


RULES = Rules(first_seeds=4, most_seeds=24, confidence=0.99, indifference=0.002)
"""Rules of every race. Repeated looks raise the risk of a wrong move: hence more than 95 %."""


@dataclass
class Evaluations:
    """Values of an objective, each computed once."""

    objective: Objective
    values: dict[tuple[OperatingPoint, int], float] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """How many values have been computed."""
        return len(self.values)

    def of(self, pairs: Sequence[tuple[OperatingPoint, int]]) -> list[float]:
        """Return the values of points with seeds, in order; compute missing ones in a batch."""
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in self.values]
        if missing:
            self.values.update(zip(missing, self.objective(missing), strict=True))
        return [self.values[pair] for pair in pairs]


def challenge(
    evaluations: Evaluations,
    incumbent: OperatingPoint,
    challengers: Sequence[OperatingPoint],
    rules: Rules = RULES,
) -> dict[OperatingPoint, Interval]:
    """Return each challenger's paired change against the incumbent, as a fraction, after a race."""
    points = list(dict.fromkeys([incumbent, *challengers]))
    outcome = race(
        [points],
        lambda pairs, _: evaluations.of(pairs),
        lambda value: value,
        range(rules.most_seeds),
        rules,
        incumbent=incumbent,
    )
    return changes_from(incumbent, outcome.runs, rules.confidence)


@dataclass(frozen=True, slots=True)
class Optimum:
    """The result of a search."""

    # The first point, and the one that no move improves significantly.
    start: OperatingPoint
    best: OperatingPoint
    # Fraction by which the start takes longer than the best, on seeds that the search did not use
    # (95 %); all zero if they are the same.
    change: Interval
    # Upper bound from the last race on a neighbour's gain over `best`, as a fraction; 0 if the race
    # excludes any gain.
    could_gain: float
    runs: int  # Values computed in total, including those for `change`.


def optimise(
    objective: Objective, start: OperatingPoint, best_intervals: Mapping[int, int]
) -> Optimum:
    """Search by moves along both axes, coarse and then fine, each decided by a race.

    Parameters
    ----------
    objective : callable
        The function to minimise.
    start : OperatingPoint
        The first point; its redundancy is among `best_intervals`.
    best_intervals : mapping of int to int
        Allowed redundancies, each with its interval by closed forms. A move to another redundancy
        scales the interval by their ratio, since more redundancy needs fewer checkpoints.
    """
    evaluations = Evaluations(objective)
    path, size = [start], 0
    compared: dict[OperatingPoint, Interval] = {}
    while size < len(_MOVES):
        challengers = _neighbours(path[-1], size, best_intervals)
        changes = challenge(evaluations, path[-1], challengers)
        better = [point for point, change in changes.items() if change.is_below_zero]
        winner = min(better, key=lambda point: changes[point].mean, default=None)
        if winner is not None and winner not in path:
            path.append(winner)
            compared = {}
        else:
            compared |= changes
            size += 1
    best = path[-1]
    change = Interval(0.0, 0.0, 0.0)
    if best != start:
        pairs = [(point, seed) for point in (start, best) for seed in _FRESH_SEEDS]
        values = evaluations.of(pairs)
        change = paired_change(values[: len(_FRESH_SEEDS)], values[len(_FRESH_SEEDS) :])
    could_gain = max([0.0, *(-each.low for each in compared.values() if each.low < 0)])
    return Optimum(start, best, change, could_gain, evaluations.runs)


def _neighbours(
    point: OperatingPoint, size: int, best_intervals: Mapping[int, int]
) -> list[OperatingPoint]:
    reach, factor = _MOVES[size]
    longer = max(point.interval_steps + 1, round(point.interval_steps * factor))
    shorter = min(point.interval_steps - 1, round(point.interval_steps / factor))
    found = [OperatingPoint(point.redundancy, steps) for steps in (longer, shorter) if steps >= 1]
    for redundancy in (point.redundancy - reach, point.redundancy + reach):
        if redundancy in best_intervals:
            ratio = best_intervals[redundancy] / best_intervals[point.redundancy]
            found.append(OperatingPoint(redundancy, max(1, round(point.interval_steps * ratio))))
    return found


@dataclass(frozen=True, slots=True)
class Optimised:
    """The optimum of one scheme, with the steps of the simulated job."""

    scheme: str
    protection: str
    optimum: Optimum
    steps: int


def check_searchable(situation: Situation) -> None:
    """Raise a UserError if the scenario has no fixed checkpoint interval."""
    if situation.scenario.checkpoint.policy != "fixed":
        raise UserError(
            "--optimise: checkpoint.policy = dynamic has no interval to search; "
            "set checkpoint.policy=fixed"
        )


def optimise_schemes(
    plan: Plan, steps: int | None = None, on_done: Callable[[], None] | None = None
) -> list[Optimised]:
    """Search each planned scheme's best redundancy and interval by simulation.

    Each search starts at the plan's choice, over the best protection of the plan.
    """
    found = []
    for line in plan.bests_of_schemes():
        choices = choices_of(plan.situation, line.choice.scheme, line.choice.protection)
        job_steps = steps or steps_needed(line.choice.question)
        objective = simulated_objective(line.choice.question, job_steps, on_done)
        intervals = {choice.redundancy: choice.interval_steps for choice in choices}
        optimum = optimise(objective, point_of(line.choice), intervals)
        found.append(Optimised(line.choice.scheme, line.choice.protection, optimum, job_steps))
    return found


def point_of(choice: Choice) -> OperatingPoint:
    """Return the redundancy and interval of a choice."""
    return OperatingPoint(choice.redundancy, choice.interval_steps)


def simulated_objective(
    question: ResolvedJob, steps: int, on_done: Callable[[], None] | None = None
) -> Objective:
    """Return the time-to-train ratio of simulated jobs as a function of point and seed."""
    short = question.shortened(steps)

    def ratios(pairs: Sequence[tuple[OperatingPoint, int]]) -> list[float]:
        tasks = [Point.of(_at(short, point), seed) for point, seed in pairs]
        return [float(record["time_to_train_ratio"]) for record in run_points(tasks, on_done)]

    return ratios


CLOSED_FORM, SIMULATION = "closed form", "simulation"
_INTERVAL, _REDUNDANCY, _RATIO = (
    "checkpoint.interval_steps",
    "strategy.redundancy",
    "time_to_train_ratio",
)
_FACTORS = (0.25, 0.4, 0.63, 1.0, 1.6, 2.5, 4.0)
_REACH = 3
# The scale of colours spans at least this ratio; from this share of it on, numbers are white.
_LEAST_SPREAD, _DARK = 1.05, 0.55


def landscape(
    plan: Plan, best: Choice, seeds: Sequence[int], steps: int | None = None
) -> pd.DataFrame:
    """Return the ratio around the best choice of a scheme, predicted and simulated.

    Tidy, a row per point, source and seed: ``strategy.name``, ``strategy.redundancy``,
    ``checkpoint.interval_steps``, ``source``, ``seed``, ``time_to_train_ratio``, ``steps`` of the
    simulated job. A prediction is the same for each seed, and NaN if the closed form does not hold.
    """
    choices = choices_of(plan.situation, best.scheme, best.protection)
    near = {choice.redundancy for choice in choices}
    near &= set(range(best.redundancy - _REACH, best.redundancy + _REACH + 1))
    intervals = dict.fromkeys(max(1, round(best.interval_steps * factor)) for factor in _FACTORS)
    points = [OperatingPoint(*point) for point in product(sorted(near), intervals)]
    job_steps = steps or steps_needed(best.question)
    pairs = [(point, seed) for point in points for seed in seeds]
    simulated = simulated_objective(best.question, job_steps)(pairs)
    predicted = {point: predicted_ratio(_at(best.question, point)) for point in points}
    rows = [
        (best.scheme, point.redundancy, point.interval_steps, source, seed, ratio, job_steps)
        for (point, seed), simulated_ratio in zip(pairs, simulated, strict=True)
        for source, ratio in ((CLOSED_FORM, predicted[point]), (SIMULATION, simulated_ratio))
    ]
    columns = ["strategy.name", _REDUNDANCY, _INTERVAL, "source", "seed", _RATIO, "steps"]
    return pd.DataFrame(rows, columns=columns)


def _at(question: ResolvedJob, point: OperatingPoint) -> ResolvedJob:
    return at_interval(replace(question, redundancy=point.redundancy), point.interval_steps)


def draw_landscape(frame: pd.DataFrame, best: Choice) -> Figure:
    """Draw the two maps of a scheme side by side on one scale of colours.

    A frame marks the least ratio of each panel; a dashed one marks the closed forms' choice in the
    simulated panel.
    """
    # Importing Matplotlib takes a second: only a command that draws imports it.
    from faultline.experiments.analysis.quantities import quantity
    from faultline.experiments.figures.style import (
        figure_style,
        in_order,
        label_outer,
        panels_by,
        run_notes,
        write_notes,
        write_title,
    )
    from matplotlib.patches import Rectangle

    steps = int(frame["steps"].iloc[0])
    notes = [
        "Framed: the least ratio of the panel; dashed: the closed forms' choice in the simulation.",
        f"Simulated jobs of {steps:,} steps.",
    ]
    if frame[_RATIO].isna().any():
        notes.append("Empty: the closed form does not hold.")
    runs = frame.assign(status="ok", error=None)
    runs = runs[["status", "error", "source", _REDUNDANCY, _INTERVAL, "seed", _RATIO]]
    columns, rows = in_order(frame[_INTERVAL]), in_order(frame[_REDUNDANCY])
    means = frame.groupby(["source", _REDUNDANCY, _INTERVAL])[_RATIO].mean()
    finite = means[np.isfinite(means)]
    least, most = (finite.min(), finite.max()) if len(finite) else (1.0, 1.0)
    with figure_style():
        figure, panels = panels_by(frame, frame, "source")
        figure.set_size_inches(3.2 + 1.1 * len(columns), 2.2 + 0.42 * len(rows))
        for axis, part in panels:
            source = part["source"].iloc[0]
            mine = means[source]
            grid = mine.unstack().reindex(index=rows, columns=columns)
            _draw_ratios(axis, grid, least, max(most, _LEAST_SPREAD * least))
            # Without a closed form that holds, there is no least point.
            frames = [(mine.idxmin(), "solid")] if mine.notna().any() else []
            if source == SIMULATION and (tuple(point_of(best)), "solid") not in frames:
                frames.append((tuple(point_of(best)), "dashed"))
            for (redundancy, interval), line in frames:
                corner = (columns.index(interval), rows.index(redundancy))
                # The least ratio is the lightest cell.
                look: dict[str, Any] = {"fill": False, "edgecolor": "black", "linewidth": 2.6}
                axis.add_patch(Rectangle(corner, 1, 1, linestyle=line, zorder=5, **look))
        axes = [axis for axis, _ in panels]
        label_outer(axes, quantity(_INTERVAL).with_unit, quantity(_REDUNDANCY).with_unit)
        label = f"{look_of(best.scheme).label}, state kept by {best.protection}"
        write_title(figure, f"{label}: time-to-train ratio")
        drawn = (_INTERVAL, _REDUNDANCY, "source")
        write_notes(figure, [*notes, *run_notes(runs, drawn, "Mean")])
    return figure


def _draw_ratios(axis: Axes, grid: pd.DataFrame, least: float, most: float) -> None:
    """Draw a cell with its number per ratio, the least lightest; NaN leaves it empty."""
    from matplotlib.colors import LogNorm

    ratios = grid.to_numpy(dtype=float)
    norm = LogNorm(least, most)
    axis.set_facecolor("#EEEEEE")
    axis.pcolormesh(
        np.ma.masked_invalid(ratios), norm=norm, cmap="cividis_r", edgecolors="white", linewidth=1
    )
    for (row, column), ratio in np.ndenumerate(ratios):
        if not np.isnan(ratio):
            colour = "white" if np.isfinite(ratio) and norm(ratio) > _DARK else "black"
            text = f"{ratio:.4g}".replace("inf", "∞")
            axis.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=colour)
    axis.set_xticks(np.arange(len(grid.columns)) + 0.5, [f"{steps:,}" for steps in grid.columns])
    axis.set_yticks(np.arange(len(grid.index)) + 0.5, [str(count) for count in grid.index])
    axis.tick_params(length=0)
    axis.grid(visible=False)
