"""The race: which of several simulated alternatives is best, with as few runs as it takes.

1. All run with the first seed, heat after heat. Those that take `hopeless` times as long as the
   best of all are out.
2. The others run with the first few seeds.
3. While some may still be better than the best by more than `indifference`, these and the best get
   twice as many seeds, up to `most_seeds`.

Two are compared by the seeds that both have (common random numbers), with Student's interval of the
paired differences. One that gets no more seeds gets them after all if it ties with another best.
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
class Rules:
    """When alternatives leave a race."""

    # Seeds of all that are not out after the first seed, and most seeds of an undecided one.
    first_seeds: int
    most_seeds: int
    hopeless: float = inf  # Multiple of the best beyond which one is out.
    confidence: float = CONFIDENCE  # Of the paired interval, each time that it is looked at.
    indifference: float = 0.0  # What is surely better by no more than this fraction counts as none.

    def looks(self) -> list[int]:
        """Return the numbers of seeds after which undecided alternatives are compared."""
        looks = [self.first_seeds]
        while looks[-1] < self.most_seeds:
            looks.append(min(2 * looks[-1], self.most_seeds))
        return looks


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Entrant, Run]):
    """What a race has run."""

    runs: dict[Entrant, list[Run]]  # Of each alternative, one for each of the first seeds.
    hopeless: frozenset[Entrant]  # Those that were out after the first seed.


def race(
    heats: Sequence[Sequence[Entrant]],
    simulate: Callable[[Sequence[tuple[Entrant, int]], float], Sequence[Run]],
    value: Callable[[Run], float],
    seeds: Sequence[int],
    rules: Rules,
) -> Outcome[Entrant, Run]:
    """Run alternatives with as many of the seeds as it takes to find the best.

    Parameters
    ----------
    heats
        The alternatives. A heat runs with the first seed after the heats before it.
    simulate
        Runs alternatives with seeds, in order. It also gets the best value of the first seed so
        far, by which it may stop a run.
    value
        By which a run is judged: positive, and the smaller, the better; infinite if it did not
        finish.
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
            undecided = _undecided(measured, rules)
            contenders = [one for one in going if one in undecided]
    return Outcome(runs, frozenset(runs.keys() - going.keys()))


def changes_from(
    reference: Entrant, values: Mapping[Entrant, Sequence[float]], confidence: float = CONFIDENCE
) -> dict[Entrant, Interval]:
    """Return by which fraction each of the others takes longer, paired by common seeds."""
    return {
        one: paired_change(mine, values[reference], confidence)
        for one, mine in values.items()
        if one != reference
    }


def _undecided(measured: Mapping[Entrant, Sequence[float]], rules: Rules) -> Collection[Entrant]:
    """Return those that may be better than the best, and the best itself."""
    finished = {one: mine for one, mine in measured.items() if all(map(isfinite, mine))}
    reference = _best(finished)
    if reference is None:
        return set()
    changes = changes_from(reference, finished, rules.confidence)
    near = {
        one
        for one, change in changes.items()
        if change.low <= -rules.indifference and change.high >= 0.0
    }
    return near | ({reference} if near else set())


def _best(values: Mapping[Entrant, Sequence[float]]) -> Entrant | None:
    """Return the one of least mean, over the seeds of all."""
    factors = factors_to_all_seeds(list(values.values()))
    means = {
        one: factor * fmean(mine)
        for (one, mine), factor in zip(values.items(), factors, strict=True)
    }
    return min(means, key=means.__getitem__, default=None)
