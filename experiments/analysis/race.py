"""The race: the best of several simulated alternatives, with as few runs as possible.

1. All run with the first seed, heat after heat. An alternative is out if it takes `hopeless` times
   as long as the best.
2. The others run with the first few seeds.
3. While some may beat the best by more than `indifference`, these and the best get twice as many
   seeds, up to `most_seeds`.

Two alternatives are compared by their common seeds (common random numbers), with Student's interval
of the paired differences. One that was dropped gets more seeds again if it ties with another best.
After Maron & Moore 1994, *Hoeffding races*; the indifference zone is that of Bechhofer 1954, *A
single-sample multiple decision procedure*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from statistics import fmean
from typing import Generic, TypeVar

from faultline.experiments.analysis.intervals import (
    CONFIDENCE,
    Interval,
    factors_to_all_seeds,
    paired_change,
)

Entrant = TypeVar("Entrant", bound=Hashable)
Run = TypeVar("Run")


@dataclass(frozen=True, slots=True)
class RaceRules:
    """When alternatives leave a race."""

    # Seeds of each alternative left after the first seed; most seeds of an undecided one.
    first_seeds: int
    most_seeds: int
    hopeless: float = inf  # Multiple of the best beyond which an alternative is out.
    confidence: float = CONFIDENCE  # Confidence of the paired interval of each comparison.
    indifference: float = 0.0  # A lead that is surely smaller than this fraction is ignored.

    def looks(self) -> list[int]:
        """Return the numbers of seeds after which undecided alternatives are compared."""
        looks = [self.first_seeds]
        while looks[-1] < self.most_seeds:
            looks.append(min(2 * looks[-1], self.most_seeds))
        return looks


@dataclass(frozen=True, slots=True)
class RaceOutcome(Generic[Entrant, Run]):
    """The runs of a race."""

    runs: dict[Entrant, list[Run]]  # By alternative: a run for each of its first seeds.
    hopeless: frozenset[Entrant]  # Alternatives that were out after the first seed.


def race(
    heats: Sequence[Sequence[Entrant]],
    simulate: Callable[[Sequence[tuple[Entrant, int]], float], Sequence[Run]],
    value: Callable[[Run], float],
    seeds: Sequence[int],
    rules: RaceRules,
    *,
    incumbent: Entrant | None = None,
) -> RaceOutcome[Entrant, Run]:
    """Run alternatives with as few of the seeds as needed to find the best.

    Parameters
    ----------
    heats
        The alternatives. A heat runs with the first seed after the heats before it.
    simulate
        Runs alternatives with seeds, in order. It also gets the best value of the first seed so
        far, and may stop a run by it.
    value
        Returns the value of a run: positive, smaller is better, infinite if it did not finish.
    incumbent
        The alternative to compare with, instead of the best. The race ends as soon as another one
        is better.
    """
    runs: dict[Entrant, list[Run]] = {one: [] for heat in heats for one in heat}
    best = inf

    def catch_up(entrants: Sequence[Entrant], count: int) -> None:
        lacking = [(one, seed) for one in entrants for seed in seeds[len(runs[one]) : count]]
        for (one, _), run in zip(lacking, simulate(lacking, best), strict=True):
            runs[one].append(run)

    for heat in filter(None, heats):
        catch_up(heat, 1)
        best = min(best, *(value(runs[one][0]) for one in heat))
    contenders = [one for one, (first,) in runs.items() if value(first) <= rules.hopeless * best]
    going = {one: runs[one] for one in contenders}
    for count in rules.looks():
        while behind := [one for one in contenders if len(runs[one]) < count]:
            catch_up(behind, count)
            measured = {one: [value(run) for run in mine] for one, mine in going.items()}
            undecided = _undecided(measured, rules, incumbent)
            contenders = [one for one in going if one in undecided]
    return RaceOutcome(runs, frozenset(runs.keys() - going.keys()))


def changes_from(
    reference: Entrant, values: Mapping[Entrant, Sequence[float]], confidence: float = CONFIDENCE
) -> dict[Entrant, Interval]:
    """Return by which fraction each other alternative takes longer, paired by common seeds."""
    return {
        one: paired_change(mine, values[reference], confidence)
        for one, mine in values.items()
        if one != reference
    }


def _undecided(
    measured: Mapping[Entrant, Sequence[float]], rules: RaceRules, incumbent: Entrant | None
) -> Collection[Entrant]:
    """Return the alternatives that may be better than the best, and the best itself."""
    finished = {one: mine for one, mine in measured.items() if all(map(isfinite, mine))}
    reference = _best(finished) if incumbent is None else incumbent
    if reference not in finished:
        return set()
    changes = changes_from(reference, finished, rules.confidence)
    if incumbent is not None and any(change.is_below_zero for change in changes.values()):
        return set()
    near = {
        one
        for one, change in changes.items()
        if change.low <= -rules.indifference and change.high >= 0.0
    }
    return near | ({reference} if near else set())


def _best(values: Mapping[Entrant, Sequence[float]]) -> Entrant | None:
    """Return the alternative of the least mean, scaled to all seeds."""
    factors = factors_to_all_seeds(list(values.values()))
    means = {
        one: factor * fmean(mine)
        for (one, mine), factor in zip(values.items(), factors, strict=True)
    }
    return min(means, key=means.__getitem__, default=None)
