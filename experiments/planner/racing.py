"""Compare settings by noisy runs with common random numbers, as few of them as it takes.

All settings meet the same seeds, so their differences are far less noisy than they are. A race
gives every challenger a few seeds, drops those that are clearly worse than the incumbent, ends when
one is clearly better, and lets the undecided have more seeds, up to a limit (after Maron & Moore
1994, *Hoeffding races*, with Student's interval of the paired differences).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from faultline.experiments.planner.pairs import Interval, paired_change


class Point(NamedTuple):
    """A redundancy and a checkpoint interval in steps."""

    redundancy: int
    interval_steps: int


Objective = Callable[[Sequence[tuple[Point, int]]], Sequence[float]]
"""Points with seeds to values, in their order; the less, the better; positive."""


@dataclass(frozen=True, slots=True)
class RaceRules:
    """How long a race goes on.

    Attributes
    ----------
    first_seeds, most_seeds : int
        Seeds that every challenger gets, and that the undecided get at most.
    confidence : float
        Of the paired interval at every look. Looking more than once raises the risk of a wrong
        decision, hence more than the usual 95 %.
    indifference : float
        A difference that is surely smaller than this fraction is none.
    """

    first_seeds: int = 4
    most_seeds: int = 24
    confidence: float = 0.99
    indifference: float = 0.002


@dataclass
class Evaluations:
    """Values of an objective, each computed once."""

    objective: Objective
    values: dict[tuple[Point, int], float] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """How many values have been computed."""
        return len(self.values)

    def of(self, points: Sequence[Point], seeds: Sequence[int]) -> list[list[float]]:
        """Return the values of points, a list by seed for each; what is missing in one batch."""
        wanted = dict.fromkeys((point, seed) for point in points for seed in seeds)
        missing = [pair for pair in wanted if pair not in self.values]
        if missing:
            self.values.update(zip(missing, self.objective(missing), strict=True))
        return [[self.values[point, seed] for seed in seeds] for point in points]


@dataclass(frozen=True, slots=True)
class RaceResult:
    """How a race ended.

    Attributes
    ----------
    winner : Point or None
        A challenger that is clearly better than the incumbent; None if there is none.
    changes : dict of Point to Interval
        Each challenger's last paired change against the incumbent, as a fraction.
    """

    winner: Point | None
    changes: dict[Point, Interval]


def race(
    evaluations: Evaluations, incumbent: Point, challengers: Sequence[Point], rules: RaceRules
) -> RaceResult:
    """Let challengers run against the incumbent on seeds 0, 1, 2, ..."""
    open_points = list(dict.fromkeys(point for point in challengers if point != incumbent))
    changes: dict[Point, Interval] = {}
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
