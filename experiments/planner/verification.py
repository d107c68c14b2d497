"""Choices verified on the replay engine: all meet the same failures, the hopeless are stopped.

1. The choice that is first by closed forms is played with the first seed.
2. All others are played with that seed. Those that take `HOPELESS` times as long as the soonest of
   all are stopped: whether one is stopped depends on no third choice. If a job has fewer failures
   than `TELLING_FAILURES`, one seed is chance, and only `HOPELESS_OF_FEW` times as long counts.
3. Those that were not stopped are played with the other seeds.
4. While the soonest cannot be told from others, these and it get more seeds, up to `MOST_SEEDS`.

Differences that are surely below `INDIFFERENCE` are not pursued. Choices that met different numbers
of seeds are compared by the seeds that both met.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite
from statistics import fmean

from faultline.experiments.analysis.intervals import Interval, paired_change
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.runs import player
from faultline.experiments.runs.point import Point, cores
from faultline.experiments.runs.record import Record

FAILURES_WANTED = 1000
"""Failures in a simulated job, whoever is compared: the mean of so many is known to 3 %."""

HOPELESS = 2.0
"""A run is stopped when it takes so many times as long as the soonest so far."""

TELLING_FAILURES = 10
"""Failures of an undisturbed job from which on one seed shows what is hopeless.

The time that n failures with exponential costs take is off by sqrt(2 / n) of it: with ten, what
takes twice as long is hardly ever a choice that takes 1.3 times as long on average.
"""

HOPELESS_OF_FEW = 10.0
"""The same as `HOPELESS` for a job with fewer failures; more than chance makes of a good choice."""

MOST_SEEDS = 12
"""Seeds that the undecided get at most, unless more are asked for."""

INDIFFERENCE = 0.005
"""A difference that is surely smaller than this fraction does not matter."""

_RECOVERING = ("detection", "reconfigure", "restart", "load")
"""Causes of badput between a failure and the next step."""

_WORTH_STARTING_WORKERS_S = 4.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """What became of a choice, a value a seed."""

    # Time to train over that without failures, redundancy and checkpoints; infinite where the job
    # gave up before its last step.
    ratios: tuple[float, ...]
    # Shares of the time, and the mean time of a step that was played, in seconds.
    availabilities: tuple[float, ...]
    goodputs: tuple[float, ...]
    step_s: tuple[float, ...]
    steps: int  # Steps of the simulated job.
    # Where its first seed was stopped since it took so many times as long as the soonest.
    stopped_at: float | None = None
    # Ways to go on that a job left out, as they do not fit into the GPUs' memory.
    states_refused: tuple[float, ...] = ()
    # Seconds from failures until the job went on, and how many failures there were.
    recovering_s: tuple[float, ...] = ()
    failures: tuple[int, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether the job trained to its end with every seed."""
        return all(map(isfinite, self.ratios))

    @property
    def gave_up(self) -> int:
        """Seeds whose job ended before its last step."""
        return sum(not isfinite(ratio) for ratio in self.ratios)

    @property
    def recovery_s(self) -> float | None:
        """Mean seconds from a failure until the job goes on; None where nothing failed."""
        failures = sum(self.failures)
        return sum(self.recovering_s) / failures if failures else None

    def with_more(self, other: Simulated) -> Simulated:
        """Return this with the seeds of another as well."""
        by_seed = [
            "ratios",
            "availabilities",
            "goodputs",
            "step_s",
            "states_refused",
            "recovering_s",
            "failures",
        ]
        both = {name: getattr(self, name) + getattr(other, name) for name in by_seed}
        return replace(self, **both)


def steps_needed(question: ResolvedJob) -> int:
    """Return how many steps the simulated job takes, under whatever choice.

    Enough for about 1,000 failures at the pace of an undisturbed job, and no more than the whole
    job. All choices take the same number, whoever competes: they meet the same failures, and the
    verdict on two of them does not depend on a third.
    """
    wanted = FAILURES_WANTED * question.failures.mtbf_s / question.ideal_step_s
    whole = question.scenario.job.steps
    return max(1, min(whole, ceil(min(wanted, whole))))


def simulate(
    questions: Sequence[ResolvedJob],
    seeds: Sequence[int],
    steps: int,
    on_done: Callable[[], None] | None = None,
    limit_s: float | None = None,
) -> list[Simulated]:
    """Play jobs of so many steps with each seed, on all cores where that pays; in their order.

    A job is given up after a limit of simulated time, in seconds; `on_done` is called after each.
    """
    short = [question.shortened(steps, limit_s) for question in questions]
    tasks = [Point.of(question, seed) for question in short for seed in seeds]
    records = play(tasks, on_done)
    starts = range(0, len(records), len(seeds))
    return [_simulated(records[start : start + len(seeds)], steps) for start in starts]


def _simulated(records: Sequence[Record], steps: int) -> Simulated:
    return Simulated(
        # A job that gave up has not trained, however well it did until then.
        tuple(
            float(one["time_to_train_ratio"]) if one["completed_steps"] >= one["steps"] else inf
            for one in records
        ),
        tuple(one["availability"] for one in records),
        tuple(one["goodput"] for one in records),
        tuple(one["checkpoint_interval_s"] / one["checkpoint_interval_steps"] for one in records),
        steps,
        states_refused=tuple(one["states_refused"] for one in records),
        recovering_s=tuple(sum(one[f"{cause}_s"] for cause in _RECOVERING) for one in records),
        failures=tuple(one["failures"] for one in records),
    )


def play(tasks: Sequence[Point], on_done: Callable[[], None] | None = None) -> list[Record]:
    """Play tasks in their order; other processes are started only if there is enough to do.

    Starting them takes longer than a dozen small runs. How long runs take is known from those
    played so far; the records do not depend on it.
    """
    records: list[Record] = []
    spent_s = 0.0
    while len(records) < len(tasks):
        rest = tasks[len(records) :]
        expected_s = spent_s / len(records) * len(rest) if records else 0.0
        if expected_s > _WORTH_STARTING_WORKERS_S and cores() > 1:
            return records + player.play(rest, on_done=on_done)
        started_s = time.perf_counter()
        records += player.play(rest[:1], workers=1, on_done=on_done)
        spent_s += time.perf_counter() - started_s
    return records


def verify(
    choices: Sequence[Choice],
    seeds: Sequence[int],
    steps: int,
    on_done: Callable[[], None] | None = None,
) -> list[Simulated]:
    """Play at least one choice for jobs of so many steps, the likeliest first; in their order.

    Every choice that is not hopeless meets all seeds; `on_done` is called after each run.
    """
    questions = [choice.question for choice in choices]
    (first,) = simulate(questions[:1], seeds[:1], steps, on_done)
    failures = steps * questions[0].ideal_step_s / questions[0].failures.mtbf_s
    hopeless = HOPELESS if failures >= TELLING_FAILURES else HOPELESS_OF_FEW
    limit_s = None
    if first.finished:
        limit_s = hopeless * first.ratios[0] * first.steps * questions[0].ideal_step_s
    others = simulate(questions[1:], seeds[:1], steps, on_done, limit_s)
    results = _stopped([first, *others], hopeless, limited=limit_s is not None)
    going = [place for place, result in enumerate(results) if result.stopped_at is None]
    met = list(seeds)
    _catch_up(results, going, questions, met, steps, on_done)
    while len(met) > 1 and (behind := _undecided(results)):
        if all(len(results[place].ratios) == len(met) for place in behind):
            if len(met) >= MOST_SEEDS:
                break
            first_new = max(met) + 1
            met += range(first_new, first_new + min(len(met), MOST_SEEDS - len(met)))
        _catch_up(results, behind, questions, met, steps, on_done)
    return results


def _stopped(results: list[Simulated], hopeless: float, *, limited: bool) -> list[Simulated]:
    """Return results of one seed; those that are hopeless beside the soonest have no ratio.

    Where no time limited the jobs, one without a ratio gave up by itself.
    """
    most = hopeless * min(one.ratios[0] for one in results)
    return [
        replace(one, ratios=(inf,), stopped_at=hopeless)
        if one.ratios[0] > most and (limited or one.finished)
        else one
        for one in results
    ]


def change_of(ours: Simulated, theirs: Simulated) -> Interval:
    """Return by which fraction ours takes longer than theirs, paired by the seeds of both."""
    shared = min(len(ours.ratios), len(theirs.ratios))
    return paired_change(ours.ratios[:shared], theirs.ratios[:shared])


def factors_to_all_seeds(results: Sequence[Simulated]) -> list[float]:
    """Return by what the ratio of each is multiplied so that all stand for the same seeds.

    What was told apart early has met fewer seeds, perhaps kinder ones. It is scaled by what the
    soonest of those that met all seeds took with all of them, over what it took with the fewer.
    """
    finished = [one for one in results if one.finished]
    most = max((len(one.ratios) for one in finished), default=0)
    met_all = [one.ratios for one in finished if len(one.ratios) == most]
    reference = min(met_all, key=fmean, default=None)
    if reference is None:
        return [1.0] * len(results)
    return [fmean(reference) / fmean(reference[: len(one.ratios)]) for one in results]


def _catch_up(
    results: list[Simulated],
    places: Sequence[int],
    questions: Sequence[ResolvedJob],
    seeds: Sequence[int],
    steps: int,
    on_done: Callable[[], None] | None,
) -> None:
    """Play the choices in some places with those seeds that they have not met."""
    for met in sorted({len(results[place].ratios) for place in places}):
        alike = [place for place in places if len(results[place].ratios) == met]
        if met == len(seeds):
            continue
        played = simulate([questions[place] for place in alike], seeds[met:], steps, on_done)
        for place, result in zip(alike, played, strict=True):
            results[place] = results[place].with_more(result)


def _undecided(results: Sequence[Simulated]) -> list[int]:
    """Return the soonest, and all that may be sooner or later than it by more than is too little.

    Each is compared by the seeds that it and the soonest have met. Empty where all is decided.
    """
    finished = [place for place, result in enumerate(results) if result.finished]
    factors = factors_to_all_seeds(results)
    soonest = min(
        finished, key=lambda place: factors[place] * fmean(results[place].ratios), default=None
    )
    if soonest is None:
        return []
    undecided = [soonest]
    for place in finished:
        change = change_of(results[place], results[soonest])
        reach = max(-change.low, change.high)
        if place != soonest and change.low <= 0.0 <= change.high and reach > INDIFFERENCE:
            undecided.append(place)
    return undecided if len(undecided) > 1 else []
