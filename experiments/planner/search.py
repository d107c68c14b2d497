"""Search of the best redundancy and checkpoint interval by simulation.

The search starts at the closed forms' choice. Its neighbours race against it (`analysis.race`): the
race ends when one is surely better, and the search moves there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from faultline.experiments.analysis.intervals import Interval, paired_change
from faultline.experiments.analysis.race import RaceRules, changes_from, race
from faultline.experiments.config.errors import UserError
from faultline.experiments.job.choices import Choice, at_interval
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.planner.plan import RankedPlan
from faultline.experiments.planner.situation import Situation, choices_like
from faultline.experiments.planner.verification import run_points, steps_needed
from faultline.experiments.runs.point import Point

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


RULES = RaceRules(first_seeds=4, most_seeds=24, confidence=0.99, indifference=0.002)
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
    rules: RaceRules = RULES,
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
    plan: RankedPlan, steps: int | None = None, on_done: Callable[[], None] | None = None
) -> list[Optimised]:
    """Search each planned scheme's best redundancy and interval by simulation.

    Each search starts at the plan's choice, over the best protection of the plan.
    """
    found = []
    for line in plan.bests_of_schemes():
        choices = choices_like(plan.situation, line.choice)
        job_steps = steps or steps_needed(line.choice.resolved)
        objective = simulated_objective(line.choice.resolved, job_steps, on_done)
        intervals = {choice.redundancy: choice.interval_steps for choice in choices}
        optimum = optimise(objective, point_of(line.choice), intervals)
        found.append(Optimised(line.choice.scheme, line.choice.protection, optimum, job_steps))
    return found


def point_of(choice: Choice) -> OperatingPoint:
    """Return the redundancy and interval of a choice."""
    return OperatingPoint(choice.redundancy, choice.interval_steps)


def simulated_objective(
    resolved: ResolvedJob, steps: int, on_done: Callable[[], None] | None = None
) -> Objective:
    """Return the time-to-train ratio of simulated jobs as a function of point and seed."""
    short = resolved.shortened(steps)

    def ratios(pairs: Sequence[tuple[OperatingPoint, int]]) -> list[float]:
        tasks = [Point.of(_at(short, point), seed) for point, seed in pairs]
        return [float(record["time_to_train_ratio"]) for record in run_points(tasks, on_done)]

    return ratios


def _at(resolved: ResolvedJob, point: OperatingPoint) -> ResolvedJob:
    return at_interval(replace(resolved, redundancy=point.redundancy), point.interval_steps)
