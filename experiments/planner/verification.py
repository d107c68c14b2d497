"""Choices verified by simulation: all meet the same failures, the hopeless are stopped early.

1. The choice that is first by closed forms is played with the first seed.
2. All others are played with that seed, and stopped where they take `HOPELESS` times as long.
3. Those that were not stopped are played with the other seeds.
4. While the soonest cannot be told from others, these and it get more seeds, up to `MOST_SEEDS`.

Differences that are surely below `INDIFFERENCE` are not pursued.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from faultline.experiments.job.choices import Choice
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.planner.pairs import Interval, paired_change
from faultline.experiments.planner.simulation import Simulated, simulate

HOPELESS = 2.0
"""A run is stopped when it takes so many times as long as the soonest so far."""

MOST_SEEDS = 12
"""Seeds that the undecided get at most, unless more are asked for."""

INDIFFERENCE = 0.005
"""A difference that is surely smaller than this fraction does not matter."""


def verify(
    choices: Sequence[Choice],
    seeds: Sequence[int],
    steps: int,
    on_done: Callable[[], None] | None = None,
) -> list[Simulated]:
    """Play choices, the likeliest first.

    Parameters
    ----------
    choices : sequence of Choice
        At least one, for jobs of the same steps.
    seeds : sequence of int
        What every choice is played with that is not hopeless.
    steps : int
        Length of the simulated jobs.
    on_done : callable, optional
        Called after each run.

    Returns
    -------
    list of Simulated
        In the order of the choices.
    """
    questions = [choice.question for choice in choices]
    (first,) = simulate(questions[:1], seeds[:1], steps, on_done)
    limit_s = HOPELESS * _time_s(choices[0], first) if first.finished else None
    others = simulate(questions[1:], seeds[:1], steps, on_done, limit_s)
    results = [first, *(_stopped(other, limit_s) for other in others)]
    going = [place for place, result in enumerate(results) if result.stopped_at is None]
    _play_more(results, going, questions, seeds[1:], steps, on_done)
    played = len(seeds)
    while 1 < played < MOST_SEEDS and (undecided := _undecided(results)):
        more = range(max(seeds) + 1, max(seeds) + 1 + min(played, MOST_SEEDS - played))
        seeds = [*seeds, *more]
        _play_more(results, undecided, questions, more, steps, on_done)
        played = len(seeds)
    return results


def soonest_of(results: Sequence[Simulated]) -> int | None:
    """Return the place of the least mean ratio among those that finished; None without any."""
    finished = [place for place, result in enumerate(results) if result.finished]
    return min(finished, key=lambda place: fmean(results[place].ratios), default=None)


def change_of(ours: Simulated, theirs: Simulated) -> Interval:
    """Return by which fraction ours takes longer than theirs, paired by the seeds of both."""
    shared = min(len(ours.ratios), len(theirs.ratios))
    return paired_change(ours.ratios[:shared], theirs.ratios[:shared])


def _play_more(
    results: list[Simulated],
    places: Sequence[int],
    questions: Sequence[ResolvedJob],
    seeds: Sequence[int],
    steps: int,
    on_done: Callable[[], None] | None,
) -> None:
    if not seeds or not places:
        return
    played = simulate([questions[place] for place in places], seeds, steps, on_done)
    for place, result in zip(places, played, strict=True):
        results[place] = results[place].with_more(result)


def _undecided(results: Sequence[Simulated]) -> list[int]:
    """Return the soonest, and all that may be sooner or later than it by more than is too little.

    Only those with as many seeds as the soonest: the others were told apart from one before it.
    """
    soonest = soonest_of(results)
    if soonest is None:
        return []
    best = results[soonest]
    open_places = [
        place
        for place, result in enumerate(results)
        if place != soonest
        and result.finished
        and len(result.ratios) == len(best.ratios)
        and _is_open(change_of(result, best))
    ]
    return [soonest, *open_places] if open_places else []


def _is_open(change: Interval) -> bool:
    contains_zero = change.low <= 0.0 <= change.high
    return contains_zero and max(-change.low, change.high) > INDIFFERENCE


def _stopped(result: Simulated, limit_s: float | None) -> Simulated:
    if limit_s is None or result.finished:
        return result
    return replace(result, stopped_at=HOPELESS)


def _time_s(choice: Choice, result: Simulated) -> float:
    job, durations = choice.question.scenario.job, choice.question.durations
    return result.ratios[0] * result.steps * (job.compute_s + durations.all_reduce_s(job.groups))
