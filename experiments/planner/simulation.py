"""Simulates candidates in worlds: a sample of the uncertain inputs, and lives of the failures.

All candidates live through the same worlds, with the same failures (common random numbers).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import inf

import numpy as np
from faultline.experiments.analysis.design import Design, Floats
from faultline.experiments.config.errors import UserError
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.sampled_job import at_sample
from faultline.experiments.planner.deadline import OutOfTimeError, deadline
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

_BEGINNING = 0.25
"""Share of a shortened run that counts once: it begins with whole hardware, the rest may not."""

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
        Why runs did not end within the limit, by world; empty for worlds in which all runs did.
    """

    time_s: Floats
    refused: Floats
    events: Floats
    goodput: Floats
    endings: tuple[str, ...]

    def first(self, worlds: int) -> Lives:
        """Return the first worlds."""
        return Lives(
            self.time_s[:worlds],
            self.refused[:worlds],
            self.events[:worlds],
            self.goodput[:worlds],
            self.endings[:worlds],
        )

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
    ends_s: float = inf,
) -> list[Lives]:
    """Simulate candidates in some worlds, all of them in the first world before the next.

    If runs are shorter than the job, the rest of the job goes on as after their beginning. A run of
    the beginning alone has the same failures, and gives its time.

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
    ends_s : float
        Time of the monotonic clock at which runs are ended, in seconds. Each candidate then has
        the worlds whose runs and those before are complete.
    """
    places = list(worlds)
    tasks, owners = [], []
    refused_values: dict[tuple[int, int], str] = {}
    whole = choices[0].resolved.scenario.job.steps if choices else steps
    share, begun = steps / whole, round(_BEGINNING * steps) if steps < whole else 0
    for place, world in enumerate(places):
        for row, choice in enumerate(choices):
            try:
                job = at_sample(choice.resolved, design.sample(world))
            except UserError as error:
                refused_values[row, place] = str(error)
                continue
            short = job.shortened(steps, share * limit_s)
            lengths = [short] if begun == 0 else [job.shortened(begun, share * limit_s), short]
            for life, length in product(range(LIVES), lengths):
                tasks.append(Point.of(length, first_seed + LIVES * world + life))
                owners.append(((row, place, life), length is short))
    shape = (len(choices), len(places), LIVES)
    time_s = np.full(shape, np.inf)
    refused, events, goodput = np.zeros((3, *shape))
    endings = [
        [refused_values.get((row, place), "") for place in range(len(places))]
        for row in range(len(choices))
    ]
    done = [len(places)] * len(choices)
    begun_s = np.zeros(shape)
    for (at, is_whole), record, task in zip(
        owners, run_points(tasks, on_done, ends_s), tasks, strict=True
    ):
        row, place, _ = at
        if record is None:
            done[row] = min(done[row], place)
        elif record["completed_steps"] < record["steps"]:
            endings[row][place] = ending_of(record, task)
        elif not is_whole:
            begun_s[at] = record["time_s"]
        else:
            goes_on_s = (record["time_s"] - begun_s[at]) * (whole - begun) / (steps - begun)
            time_s[at], goodput[at] = begun_s[at] + goes_on_s, record["goodput"]
            if time_s[at] > limit_s:
                endings[row][place] = ending_of(record, task)
        if record is not None and is_whole:
            refused[at], events[at] = record["states_refused"], record["events"]
    return [
        Lives(time_s[row], refused[row], events[row], goodput[row], tuple(endings[row])).first(
            done[row]
        )
        for row in range(len(choices))
    ]


def run_points(
    tasks: Sequence[Point], on_done: OnDone = None, ends_s: float = inf
) -> list[Record | None]:
    """Run points, the first ones first; start worker processes only if there is enough work.

    Starting them takes longer than a dozen small runs. The run time is estimated from the runs so
    far; the records do not depend on it. Those of runs that are ended at `ends_s`, on the monotonic
    clock, are None.
    """
    records: list[Record | None] = [None] * len(tasks)
    began_s = time.monotonic()
    with suppress(OutOfTimeError), deadline(ends_s):
        for place, task in enumerate(tasks):
            left = len(tasks) - place
            expected_s = (time.monotonic() - began_s) / place * left if place else 0.0
            if expected_s > _WORTH_STARTING_WORKERS_S and cores() > 1:
                _run_in_workers(tasks[place:], records, on_done)
                break
            records[place] = execution.simulate([task], workers=1, on_done=on_done)[0]
    return records


def _run_in_workers(rest: Sequence[Point], records: list[Record | None], on_done: OnDone) -> None:
    """Fill in the last of some records; tasks start from the last one."""

    def keep(place: int, record: Record) -> None:
        records[len(records) - 1 - place] = record

    execution.simulate(rest[::-1], on_done=on_done, on_value=keep)
