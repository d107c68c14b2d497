"""Verification of choices on the replay engine: same failures for all, early stopping.

1. The choice that closed forms rank first is simulated with the first seed.
2. All others are simulated with that seed. Those that take `HOPELESS` times as long as the soonest
   of all are stopped: stopping one depends on no third choice. If a job has fewer failures than
   `TELLING_FAILURES`, one seed is chance, and the limit is `HOPELESS_OF_FEW` times as long.
3. The choices that were not stopped are simulated with the other seeds.
4. While the soonest ties with others, all of these get more seeds, up to `MOST_SEEDS`.

Differences that are surely below `INDIFFERENCE` get no more seeds. Choices with different numbers
of seeds are compared by the seeds that both have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite
from statistics import fmean, pstdev

from faultline.experiments.analysis.intervals import Interval, paired_change
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.runs import player
from faultline.experiments.runs.point import Point, cores
from faultline.experiments.runs.record import Record

FAILURES_WANTED = 1000
"""Failures in a simulated job, for all choices: the mean of this many is known to 3 %."""

HOPELESS = 2.0
"""A run is stopped when it takes this many times as long as the soonest so far."""

TELLING_FAILURES = 10
"""Failures of an undisturbed job from which one seed suffices to stop a choice.

The time that n failures with exponential costs take has a relative error of sqrt(2 / n): with ten,
a run that takes twice as long is hardly ever a choice that takes 1.3 times as long on average.
"""

HOPELESS_OF_FEW = 10.0
"""The same as `HOPELESS` for a job with fewer failures; chance alone hardly reaches it."""

MOST_SEEDS = 12
"""Most seeds of a tied choice, unless the user requests more."""

INDIFFERENCE = 0.005
"""A difference that is surely smaller than this fraction does not matter."""

_RECOVERING = ("detection", "reconfigure", "restart", "load")
"""Causes of badput between a failure and the next step."""

_WORTH_STARTING_WORKERS_S = 4.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """The simulated results of a choice, a value per seed."""

    # Time to train over that without failures, redundancy and checkpoints; infinite if the job gave
    # up before its last step.
    ratios: tuple[float, ...]
    # Shares of the time, and the mean time of a simulated step, in seconds.
    availabilities: tuple[float, ...]
    goodputs: tuple[float, ...]
    step_s: tuple[float, ...]
    steps: int  # Steps of the simulated job.
    # The multiple of the soonest choice's time at which its first seed was stopped, if it was.
    stopped_at: float | None = None
    # Recoveries that a job did not use because they do not fit into GPU memory.
    states_refused: tuple[float, ...] = ()
    # Seconds from failures to the next step, and the number of failures.
    recovering_s: tuple[float, ...] = ()
    failures: tuple[int, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether the job finished with every seed."""
        return all(map(isfinite, self.ratios))

    @property
    def gave_up(self) -> int:
        """Seeds whose job ended before its last step."""
        return sum(not isfinite(ratio) for ratio in self.ratios)

    @property
    def recovery_s(self) -> float | None:
        """Mean seconds from a failure to the next step; None without failures."""
        failures = sum(self.failures)
        return sum(self.recovering_s) / failures if failures else None

    def with_more(self, other: Simulated) -> Simulated:
        """Return the results of both, this one's seeds first."""
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
    """Return the number of steps of the simulated job, the same for all choices.

    Enough for about 1,000 failures at the pace of an undisturbed job, at most the whole job. All
    choices thus have the same failures, and the comparison of two does not depend on a third.
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
    """Simulate jobs of `steps` steps with each seed, in parallel if it pays; return in order.

    A job is stopped after `limit_s` seconds of simulated time; `on_done` is called after each.
    """
    short = [question.shortened(steps, limit_s) for question in questions]
    tasks = [Point.of(question, seed) for question in short for seed in seeds]
    records = run_points(tasks, on_done)
    starts = range(0, len(records), len(seeds))
    return [_simulated(records[start : start + len(seeds)], steps) for start in starts]


def _simulated(records: Sequence[Record], steps: int) -> Simulated:
    return Simulated(
        # A job that gave up has no ratio, however well it trained until then.
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


def run_points(tasks: Sequence[Point], on_done: Callable[[], None] | None = None) -> list[Record]:
    """Run points in their order; start worker processes only if there is enough work.

    Starting them takes longer than a dozen small runs. The run time is estimated from the runs so
    far; the records do not depend on it.
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
    """Simulate choices (at least one, best prediction first) for `steps` steps; return in order.

    Every choice that is not stopped gets all seeds; `on_done` is called after each run.
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
    used = list(seeds)
    _catch_up(results, going, questions, used, steps, on_done)
    while len(used) > 1 and (behind := _undecided(results)):
        if all(len(results[place].ratios) == len(used) for place in behind):
            if len(used) >= MOST_SEEDS:
                break
            first_new = max(used) + 1
            used += range(first_new, first_new + min(len(used), MOST_SEEDS - len(used)))
        _catch_up(results, behind, questions, used, steps, on_done)
    return results


def _stopped(results: list[Simulated], hopeless: float, *, limited: bool) -> list[Simulated]:
    """Return results of one seed; those far behind the soonest are stopped, without a ratio.

    If the jobs had no time limit, one without a ratio gave up by itself.
    """
    most = hopeless * min(one.ratios[0] for one in results)
    return [
        replace(one, ratios=(inf,), stopped_at=hopeless)
        if one.ratios[0] > most and (limited or one.finished)
        else one
        for one in results
    ]


def change_of(ours: Simulated, theirs: Simulated) -> Interval:
    """Return the fraction by which ours takes longer than theirs, paired by common seeds."""
    shared = min(len(ours.ratios), len(theirs.ratios))
    return paired_change(ours.ratios[:shared], theirs.ratios[:shared])


def factors_to_all_seeds(results: Sequence[Simulated]) -> list[float]:
    """Return the factor on each ratio that makes all comparable over the same seeds.

    A choice that was decided early has fewer seeds, perhaps easier ones. Its factor is the time of
    the soonest choice that has all seeds, with all of them, over its time with the fewer; as far as
    the choice's own times vary from seed to seed as much as those of the soonest do. So a scheme
    that hardly feels which failures come keeps its time.
    """
    finished = [one for one in results if one.finished]
    most = max((len(one.ratios) for one in finished), default=0)
    of_all_seeds = [one.ratios for one in finished if len(one.ratios) == most]
    reference = min(of_all_seeds, key=fmean, default=None)
    if reference is None:
        return [1.0] * len(results)
    return [_factor(one.ratios, reference) for one in results]


def _factor(ratios: Sequence[float], reference: Sequence[float]) -> float:
    """Return the factor for one choice, beside the choice that has all seeds."""
    shared = reference[: len(ratios)]
    whole = fmean(reference) / fmean(shared)
    spread = pstdev(shared) / fmean(shared)
    if len(ratios) < 2 or spread == 0.0 or not all(map(isfinite, ratios)):
        return whole
    felt = min(1.0, pstdev(ratios) / fmean(ratios) / spread)
    return 1.0 + felt * (whole - 1.0)


def _catch_up(
    results: list[Simulated],
    places: Sequence[int],
    questions: Sequence[ResolvedJob],
    seeds: Sequence[int],
    steps: int,
    on_done: Callable[[], None] | None,
) -> None:
    """Simulate the choices in some places with the seeds that they lack."""
    for used in sorted({len(results[place].ratios) for place in places}):
        alike = [place for place in places if len(results[place].ratios) == used]
        if used == len(seeds):
            continue
        new = simulate([questions[place] for place in alike], seeds[used:], steps, on_done)
        for place, result in zip(alike, new, strict=True):
            results[place] = results[place].with_more(result)


def _undecided(results: Sequence[Simulated]) -> list[int]:
    """Return the soonest and all that tie with it, unless they surely differ by too little.

    Each is compared with the soonest by their common seeds. Empty if all is decided.
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
