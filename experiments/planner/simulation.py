"""Simulates candidates in worlds: a sample of the uncertain inputs, and lives of the failures.

All candidates live through the same worlds, with the same failures (common random numbers).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from faultline.experiments.analysis.design import Design, Floats
from faultline.experiments.config.errors import UserError
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.sampled_job import at_sample
from faultline.experiments.planner.endings import ending_of
from faultline.experiments.runs import execution
from faultline.experiments.runs.point import Point, cores
from faultline.experiments.runs.record import Record

LIVES = 2
"""Runs of a candidate in each world: two separate luck from unknown inputs."""

FAILURES_WANTED = 100
MOST_STEPS = 50_000
"""A simulated job has so many failures at the point values, and at most so many steps."""

IMPOSSIBLE = 1.005
"""A goodput above this is impossible. Jitter lifts that of a job with few failures by less."""

_WORTH_STARTING_WORKERS_S = 4.0

OnDone = Callable[[], None] | None


@dataclass(frozen=True, slots=True, eq=False)
class Lives:
    """The runs of one candidate: arrays have the shape (worlds, lives).

    Attributes
    ----------
    time_s : ndarray of float
        Time to train the whole job, in seconds; infinite if it did not end within the limit.
    refused, events : ndarray of float
        Recoveries that did not fit into GPU memory, and failures that stopped groups.
    goodput : ndarray of float
        Share of the time in useful training.
    endings : tuple of str
        Why the worlds without an end have none, by world; empty for worlds in which all runs ended.
    """

    time_s: Floats
    refused: Floats
    events: Floats
    goodput: Floats
    endings: tuple[str, ...]

    def followed_by(self, more: Lives) -> Lives:
        """Return these worlds and the next ones."""
        return Lives(
            np.concatenate([self.time_s, more.time_s]),
            np.concatenate([self.refused, more.refused]),
            np.concatenate([self.events, more.events]),
            np.concatenate([self.goodput, more.goodput]),
            self.endings + more.endings,
        )


def simulated_steps(resolved: ResolvedJob) -> int:
    """Return the steps of a simulated job: enough for about 100 failures at the point values."""
    wanted = FAILURES_WANTED * resolved.failures.mtbf_s / resolved.ideal_step_s
    return max(1, min(resolved.scenario.job.steps, round(min(wanted, MOST_STEPS))))


def simulate_worlds(
    choices: Sequence[Choice],
    design: Design,
    worlds: Iterable[int],
    steps: int,
    limit_s: float,
    first_seed: int = 0,
    on_done: OnDone = None,
) -> list[Lives]:
    """Simulate candidates in some worlds.

    Parameters
    ----------
    choices : sequence of Choice
        Candidates as they are tuned.
    design : Design
        A point per world.
    worlds : iterable of int
        Numbers of the worlds.
    steps : int
        Steps of a simulated job.
    limit_s : float
        Time to train of the whole job at which a run is stopped, in seconds.
    first_seed : int
        Seed of the first life in world 0.
    on_done : callable, optional
        Called after each run.
    """
    places = list(worlds)
    tasks, owners = [], []
    refused_values: dict[tuple[int, int], str] = {}
    for row, choice in enumerate(choices):
        share = steps / choice.resolved.scenario.job.steps
        for place, world in enumerate(places):
            try:
                job = at_sample(choice.resolved, design.sample(world))
            except UserError as error:
                refused_values[row, place] = str(error)
                continue
            short = job.shortened(steps, share * limit_s)
            for life in range(LIVES):
                tasks.append(Point.of(short, first_seed + LIVES * world + life))
                owners.append((row, place, life))
    shape = (len(choices), len(places), LIVES)
    time_s = np.full(shape, np.inf)
    refused, events, goodput = np.zeros((3, *shape))
    endings = [
        [refused_values.get((row, place), "") for place in range(len(places))]
        for row in range(len(choices))
    ]
    for (row, place, life), record, task in zip(
        owners, run_points(tasks, on_done), tasks, strict=True
    ):
        at = row, place, life
        refused[at], events[at] = record["states_refused"], record["events"]
        if record["completed_steps"] < record["steps"]:
            endings[row][place] = ending_of(record, task)
            continue
        whole = choices[row].resolved.scenario.job.steps
        time_s[at], goodput[at] = record["time_s"] * whole / steps, record["goodput"]
    return [
        Lives(time_s[row], refused[row], events[row], goodput[row], tuple(endings[row]))
        for row in range(len(choices))
    ]


def run_points(tasks: Sequence[Point], on_done: OnDone = None) -> list[Record]:
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
            return records + execution.simulate(rest, on_done=on_done)
        started_s = time.perf_counter()
        records += execution.simulate(rest[:1], workers=1, on_done=on_done)
        spent_s += time.perf_counter() - started_s
    return records
