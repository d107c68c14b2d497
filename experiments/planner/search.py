"""The best redundancy and checkpoint interval by simulation, from the closed forms' choice on.

All points meet the same seeds, so their differences are far less noisy than they are. A race
gives every challenger a few seeds, drops those that are clearly worse than the incumbent, ends when
one is clearly better, and lets the undecided have more seeds, up to a limit (after Maron & Moore
1994, *Hoeffding races*, with Student's interval of the paired differences).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from faultline.experiments.analysis.intervals import Interval, paired_change
from faultline.experiments.config.errors import UserError
from faultline.experiments.job.choices import Choice, at_interval
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.planner.plan import Plan
from faultline.experiments.planner.situation import Situation, choices_of
from faultline.experiments.planner.verification import play, steps_needed
from faultline.experiments.runs.point import Point

# Redundancies that a move goes up or down, and the factor on the interval: coarse moves first, as
# their differences are told from noise by few seeds.
_MOVES = ((2, 1.6), (1, 1.25), (1, 1.1))
_FRESH_FROM = 1_000_000


class OperatingPoint(NamedTuple):
    """A redundancy and a checkpoint interval in steps."""

    redundancy: int
    interval_steps: int


Objective = Callable[[Sequence[tuple[OperatingPoint, int]]], Sequence[float]]
"""Points with seeds to values, in their order; the less, the better; positive."""


@dataclass(frozen=True, slots=True)
class RaceRules:
    """How long a race goes on."""

    # Seeds that every challenger gets, and that the undecided get at most.
    first_seeds: int = 4
    most_seeds: int = 24
    # Of the paired interval at every look. Looking more than once raises the risk of a wrong
    # decision, hence more than the usual 95 %.
    confidence: float = 0.99
    indifference: float = 0.002  # A difference that is surely smaller than this fraction is none.


@dataclass
class Evaluations:
    """Values of an objective, each computed once."""

    objective: Objective
    values: dict[tuple[OperatingPoint, int], float] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """How many values have been computed."""
        return len(self.values)

    def of(self, points: Sequence[OperatingPoint], seeds: Sequence[int]) -> list[list[float]]:
        """Return the values of points, a list by seed for each; what is missing in one batch."""
        wanted = dict.fromkeys((point, seed) for point in points for seed in seeds)
        missing = [pair for pair in wanted if pair not in self.values]
        if missing:
            self.values.update(zip(missing, self.objective(missing), strict=True))
        return [[self.values[point, seed] for seed in seeds] for point in points]


@dataclass(frozen=True, slots=True)
class RaceResult:
    """How a race ended."""

    # A challenger that is clearly better than the incumbent; None if there is none.
    winner: OperatingPoint | None
    # Each challenger's last paired change against the incumbent, as a fraction.
    changes: dict[OperatingPoint, Interval]


def race(
    evaluations: Evaluations,
    incumbent: OperatingPoint,
    challengers: Sequence[OperatingPoint],
    rules: RaceRules,
) -> RaceResult:
    """Let challengers run against the incumbent on seeds 0, 1, 2, ..."""
    open_points = list(dict.fromkeys(point for point in challengers if point != incumbent))
    changes: dict[OperatingPoint, Interval] = {}
    seeds = rules.first_seeds
    while open_points:
        ours, *theirs = evaluations.of([incumbent, *open_points], range(seeds))
        for point, values in zip(open_points, theirs, strict=True):
            changes[point] = paired_change(values, ours, rules.confidence)
        better = [point for point in open_points if changes[point].is_below_zero]
        if better:
            return RaceResult(min(better, key=lambda point: changes[point].mean), changes)
        open_points = [point for point in open_points if _undecided(changes[point], rules)]
        if seeds >= rules.most_seeds:
            break
        seeds = min(rules.most_seeds, seeds + max(2, seeds // 2))
    return RaceResult(None, changes)


def _undecided(change: Interval, rules: RaceRules) -> bool:
    # Written so that an interval that does not exist, after infinite values, decides.
    return change.low <= -rules.indifference and change.high >= 0


@dataclass(frozen=True, slots=True)
class Optimum:
    """What a search found."""

    # Where it began, and where no move was clearly better any more.
    start: OperatingPoint
    best: OperatingPoint
    # Fraction by which the start takes longer than the best, on seeds that the search had not used
    # (95 %); all zero where they are the same.
    change: Interval
    # Largest gain over `best`, as a fraction, that the last race leaves possible among the
    # neighbours; 0 if it excludes any.
    could_gain: float
    runs: int  # Values computed in all, those for `change` included.
    path: tuple[OperatingPoint, ...]  # From start to best.


def optimise(
    objective: Objective,
    start: OperatingPoint,
    best_intervals: Mapping[int, int],
    rules: RaceRules | None = None,
    fresh_seeds: int = 12,
) -> Optimum:
    """Search by moves along both axes, coarse and then fine, each decided by a race.

    Parameters
    ----------
    objective : callable
        What is to be least.
    start : OperatingPoint
        Where to begin; its redundancy is among `best_intervals`.
    best_intervals : mapping of int to int
        Redundancies that are allowed, and the interval that closed forms give each: a move to
        another redundancy changes the interval in their proportion, since more redundancy wants
        fewer checkpoints.
    rules : RaceRules, optional
        How long comparisons go on.
    fresh_seeds : int
        Seeds for the final comparison of start and best.
    """
    rules = rules or RaceRules()
    evaluations = Evaluations(objective)
    path, size = [start], 0
    compared: dict[OperatingPoint, Interval] = {}
    while size < len(_MOVES):
        result = race(evaluations, path[-1], _neighbours(path[-1], size, best_intervals), rules)
        if result.winner is not None and result.winner not in path:
            path.append(result.winner)
            compared = {}
        else:
            compared |= result.changes
            size += 1
    best = path[-1]
    change = Interval(0.0, 0.0, 0.0)
    if best != start:
        seeds = range(_FRESH_FROM, _FRESH_FROM + fresh_seeds)
        of_start, of_best = evaluations.of([start, best], seeds)
        change = paired_change(of_start, of_best)
    could_gain = max([0.0, *(-each.low for each in compared.values() if each.low < 0)])
    return Optimum(start, best, change, could_gain, evaluations.runs, tuple(path))


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
    """What the search found for one scheme, with the steps of the simulated job."""

    scheme: str
    protection: str
    optimum: Optimum
    steps: int


def check_searchable(situation: Situation) -> None:
    """Refuse a scenario without a fixed checkpoint interval.

    Raises
    ------
    UserError
        Says what to set.
    """
    if situation.scenario.checkpoint.policy != "fixed":
        raise UserError(
            "--optimise: checkpoint.policy = dynamic has no interval to search; "
            "set checkpoint.policy=fixed"
        )


def optimise_schemes(
    plan: Plan,
    steps: int | None = None,
    rules: RaceRules | None = None,
    on_done: Callable[[], None] | None = None,
) -> list[Optimised]:
    """Search each planned scheme's best redundancy and interval by simulation.

    Over the protection that has served it best so far.

    Parameters
    ----------
    plan : Plan
        Searches begin at its choices.
    steps, on_done
        As in `make_plan`, the steps by default for each scheme by itself.
    rules : RaceRules, optional
        How long comparisons go on.
    """
    found = []
    for line in plan.bests_of_schemes():
        choices = choices_of(plan.situation, line.choice.scheme, line.choice.protection)
        taken = steps or steps_needed(choices[:1])
        objective = simulated_objective(line.choice.question, taken, on_done)
        intervals = {choice.redundancy: choice.interval_steps for choice in choices}
        found.append(
            Optimised(
                line.choice.scheme,
                line.choice.protection,
                optimise(objective, point_of(line.choice), intervals, rules),
                taken,
            )
        )
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
        tasks = [
            Point.of(
                at_interval(replace(short, redundancy=point.redundancy), point.interval_steps),
                seed,
            )
            for point, seed in pairs
        ]
        return [float(record["time_to_train_ratio"]) for record in play(tasks, on_done)]

    return ratios
