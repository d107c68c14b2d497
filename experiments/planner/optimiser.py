"""The best redundancy and checkpoint interval by simulation, from the closed forms' choice on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from faultline.experiments.planner.pairs import Interval, paired_change
from faultline.experiments.planner.racing import Evaluations, Objective, Point, RaceRules, race

# Redundancies that a move goes up or down, and the factor on the interval: coarse moves first, as
# their differences are told from noise by few seeds.
_MOVES = ((2, 1.6), (1, 1.25), (1, 1.1))
_FRESH_FROM = 1_000_000


@dataclass(frozen=True, slots=True)
class Optimum:
    """What a search found.

    Attributes
    ----------
    start, best : Point
        Where it began, and where no move was clearly better any more.
    change : Interval
        Fraction by which the start takes longer than the best, on seeds that the search had not
        used (95 %); all zero where they are the same.
    could_gain : float
        Largest gain over `best`, as a fraction, that the last race leaves possible among the
        neighbours; 0 if it excludes any.
    runs : int
        Values computed in all, those for `change` included.
    path : tuple of Point
        From start to best.
    """

    start: Point
    best: Point
    change: Interval
    could_gain: float
    runs: int
    path: tuple[Point, ...]


def optimise(
    objective: Objective,
    start: Point,
    best_intervals: Mapping[int, int],
    rules: RaceRules | None = None,
    fresh_seeds: int = 12,
) -> Optimum:
    """Search by moves along both axes, coarse and then fine, each decided by a race.

    Parameters
    ----------
    objective : callable
        What is to be least.
    start : Point
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
    compared: dict[Point, Interval] = {}
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


def _neighbours(point: Point, size: int, best_intervals: Mapping[int, int]) -> list[Point]:
    reach, factor = _MOVES[size]
    longer = max(point.interval_steps + 1, round(point.interval_steps * factor))
    shorter = min(point.interval_steps - 1, round(point.interval_steps / factor))
    found = [Point(point.redundancy, steps) for steps in (longer, shorter) if steps >= 1]
    for redundancy in (point.redundancy - reach, point.redundancy + reach):
        if redundancy in best_intervals:
            ratio = best_intervals[redundancy] / best_intervals[point.redundancy]
            found.append(Point(redundancy, max(1, round(point.interval_steps * ratio))))
    return found
