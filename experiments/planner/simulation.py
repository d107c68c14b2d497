"""Choices played on the replay engine: the same seeds for all, a job as long as is needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from experiments.planner.choices import Choice
from experiments.resolve import Question
from experiments.runs import player
from experiments.runs.point import Point, cores
from experiments.single_run import Record

RESTARTS_WANTED = 20
_WORTH_STARTING_WORKERS_S = 4.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """What became of a choice, a value a seed.

    Attributes
    ----------
    ratios, availabilities : tuple of float
        By seed.
    steps : int
        Steps of the simulated job.
    gave_up : int
        Seeds whose job ended before its last step.
    """

    ratios: tuple[float, ...]
    availabilities: tuple[float, ...]
    steps: int
    gave_up: int


def steps_needed(choices: Sequence[Choice]) -> int:
    """Return how many steps the simulated job takes for all of `choices`.

    Enough for about 20 restarts of the choice that restarts least, and no more than the whole job.
    All choices take the same number: jobs are compared that meet the same failures.
    """
    whole = choices[0].question.scenario.job.steps
    longest = max(choice.steps_per_life for choice in choices)
    return max(1, min(whole, ceil(min(RESTARTS_WANTED * longest, whole))))


def shortened(question: Question, steps: int) -> Question:
    """Return a question about a job of so many steps, without a limit of simulated time."""
    scenario = question.scenario
    job = scenario.job.model_copy(update={"steps": steps, "time_limit_s": None})
    return replace(question, scenario=scenario.model_copy(update={"job": job}))


def simulate(
    questions: Sequence[Question],
    seeds: Sequence[int],
    steps: int,
    on_done: Callable[[], None] | None = None,
) -> list[Simulated]:
    """Play each question with each seed, on all cores where that pays.

    Returns
    -------
    list of Simulated
        In the order of the questions.
    """
    tasks = [Point.of(shortened(question, steps), seed) for question in questions for seed in seeds]
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
        tuple(record["time_to_train_ratio"] for record in records),
        tuple(record["availability"] for record in records),
        steps,
        sum(record["completed_steps"] < record["steps"] for record in records),
    )
