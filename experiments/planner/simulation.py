"""Choices played on the replay engine: the same seeds for all, a job as long as is needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite

from faultline.experiments.job.choices import Choice
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.runs import player
from faultline.experiments.runs.point import Point, cores
from faultline.experiments.runs.record import Record

RESTARTS_WANTED = 20
_WORTH_STARTING_WORKERS_S = 4.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """What became of a choice, a value a seed.

    Attributes
    ----------
    ratios : tuple of float
        Time to train over that without failures, redundancy and checkpoints; infinite where the
        job gave up before its last step.
    availabilities, goodputs, step_s : tuple of float
        Shares of the time, and the mean time of a step that was played, in seconds.
    steps : int
        Steps of the simulated job.
    stopped_at : float or None
        Where its first seed was stopped since it took so many times as long as the soonest.
    """

    ratios: tuple[float, ...]
    availabilities: tuple[float, ...]
    goodputs: tuple[float, ...]
    step_s: tuple[float, ...]
    steps: int
    stopped_at: float | None = None

    @property
    def finished(self) -> bool:
        """Whether the job trained to its end with every seed."""
        return all(map(isfinite, self.ratios))

    @property
    def gave_up(self) -> int:
        """Seeds whose job ended before its last step."""
        return sum(not isfinite(ratio) for ratio in self.ratios)

    def with_more(self, other: Simulated) -> Simulated:
        """Return this with the seeds of another as well."""
        return Simulated(
            self.ratios + other.ratios,
            self.availabilities + other.availabilities,
            self.goodputs + other.goodputs,
            self.step_s + other.step_s,
            self.steps,
            self.stopped_at,
        )


def steps_needed(choices: Sequence[Choice]) -> int:
    """Return how many steps the simulated job takes for all of `choices`.

    Enough for about 20 restarts of the choice that restarts least, and no more than the whole job.
    All choices take the same number: jobs are compared that meet the same failures.
    """
    whole = choices[0].question.scenario.job.steps
    longest = max(choice.steps_per_life for choice in choices)
    return max(1, min(whole, ceil(min(RESTARTS_WANTED * longest, whole))))


def shortened(question: ResolvedJob, steps: int, limit_s: float | None = None) -> ResolvedJob:
    """Return a question about a job of so many steps with its own limit of simulated time."""
    scenario = question.scenario
    job = scenario.job.model_copy(update={"steps": steps, "time_limit_s": limit_s})
    return replace(question, scenario=scenario.model_copy(update={"job": job}))


def simulate(
    questions: Sequence[ResolvedJob],
    seeds: Sequence[int],
    steps: int,
    on_done: Callable[[], None] | None = None,
    limit_s: float | None = None,
) -> list[Simulated]:
    """Play each question with each seed, on all cores where that pays.

    Parameters
    ----------
    questions : sequence of ResolvedJob
        What to play.
    seeds : sequence of int
        The same for all.
    steps : int
        Length of the jobs.
    on_done : callable, optional
        Called after each run.
    limit_s : float, optional
        Simulated time after which a job is given up, in seconds.

    Returns
    -------
    list of Simulated
        In the order of the questions.
    """
    tasks = [
        Point.of(shortened(question, steps, limit_s), seed)
        for question in questions
        for seed in seeds
    ]
    records = play(tasks, on_done)
    taken = len(seeds)
    return [
        _simulated(records[place * taken : (place + 1) * taken], steps)
        for place in range(len(questions))
    ]


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


def _simulated(records: Sequence[Record], steps: int) -> Simulated:
    return Simulated(
        tuple(_ratio(record) for record in records),
        tuple(record["availability"] for record in records),
        tuple(record["goodput"] for record in records),
        tuple(
            record["checkpoint_interval_s"] / record["checkpoint_interval_steps"]
            for record in records
        ),
        steps,
    )


def _ratio(record: Record) -> float:
    """A job that gave up has not trained, however well it did until then."""
    finished = record["completed_steps"] >= record["steps"]
    return float(record["time_to_train_ratio"]) if finished else inf
