"""Simulates candidates in worlds: a sample of the uncertain inputs, and lives of the failures.

All candidates live through the same worlds, with the same failures (common random numbers).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from math import inf
from typing import Any, NamedTuple

import numpy as np
from faultline.experiments.analysis.design import Design, Floats
from faultline.experiments.config.errors import UserError
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.sampled_job import at_sample
from faultline.experiments.planner.deadline import OutOfTimeError, deadline
from faultline.experiments.planner.endings import ending_of
from faultline.experiments.runs import execution
from faultline.experiments.runs.point import RunCall, Task, cores
from faultline.experiments.runs.record import SimulatedRun
from faultline.experiments.runs.single_run import replay
from numpy.typing import NDArray

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


class Lives(NamedTuple):
    """The runs of one candidate: arrays have the shape (worlds, lives)."""

    time_s: Floats  # To train the whole job; infinite if it did not end within the limit.
    refused: Floats  # Recoveries that did not fit into GPU memory.
    events: Floats  # Failures that stopped groups.
    goodput: Floats  # Share of the time in useful training.
    endings: NDArray[np.str_]  # By world: why a run did not end within the limit; else empty.

    def first(self, worlds: int) -> Lives:
        """Return the first worlds."""
        return Lives._make(each[:worlds] for each in self)

    def followed_by(self, *more: Lives) -> Lives:
        """Return these worlds and the next ones."""
        return Lives._make(map(np.concatenate, zip(self, *more, strict=True)))


_NONE = np.empty((0, LIVES))
_NO_LIVES = Lives(_NONE, _NONE, _NONE, _NONE, np.empty(0, dtype=str))


def simulated_steps(resolved: ResolvedJob) -> int:
    """Return the steps of a simulated job: enough for about 100 failures at the point values."""
    wanted = FAILURES_WANTED * resolved.failures.mtbf_s / resolved.ideal_step_s
    return max(1, min(resolved.scenario.job.steps, round(min(wanted, MOST_STEPS))))


@dataclass(frozen=True, slots=True)
class _World:
    """A candidate in a world: a sample of the inputs, and lives from a seed on."""

    resolved: ResolvedJob  # As it is tuned.
    sample: Mapping[str, float]
    seed: int
    steps: int  # Of the simulated job.
    limit_s: float  # Time to train of the whole job at which a run is stopped, in seconds.


def simulate_worlds(
    choices: Sequence[Choice],
    designs: Sequence[Design],
    worlds: Iterable[int],
    steps: int,
    limit_s: float,
    first_seed: int = 0,
    on_done: OnDone = None,
    ends_s: float = inf,
) -> list[Lives]:
    """Simulate candidates in some worlds, all of them in the first world before the next.

    Parameters
    ----------
    choices : sequence of Choice
        Candidates as they are tuned.
    designs : sequence of Design
        Those of the candidates: a point per world.
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
    tasks = [
        RunCall(
            _live,
            _World(one.resolved, design.sample(world), first_seed + LIVES * world, steps, limit_s),
        )
        for world in worlds
        for one, design in zip(choices, designs, strict=True)
    ]

    def on_lived() -> None:
        if on_done is not None:
            for _ in range(LIVES):
                on_done()

    found = run_tasks(tasks, on_lived, ends_s)
    each = (found[row :: len(choices)] for row in range(len(choices)))
    return [_NO_LIVES.followed_by(*takewhile(lambda one: one is not None, row)) for row in each]


def warm_up(choice: Choice, limit_s: float) -> None:
    """Let workers start with a candidate at the values of the scenario, until a simulated time."""
    world = _World(choice.resolved, {}, 0, simulated_steps(choice.resolved), limit_s)
    execution.warm_up(RunCall(_live, world))


def _live(world: _World) -> Lives:
    """Simulate a candidate in a world.

    If runs are shorter than the job, the rest of the job goes on as after their beginning.
    """
    whole, steps = world.resolved.scenario.job.steps, world.steps
    limit_s = steps / whole * world.limit_s
    time_s, (refused, events, goodput) = np.full((1, LIVES), inf), np.zeros((3, 1, LIVES))
    try:
        job = at_sample(world.resolved, world.sample).shortened(steps, limit_s)
    except UserError as error:
        return Lives(time_s, refused, events, goodput, np.array([str(error)]))
    begun, ending = round(_BEGINNING * steps) if steps < whole else 0, ""
    for life in range(LIVES):
        progress = replay(job, world.seed + life, noted_batches=begun or inf)
        simulated = SimulatedRun(job, progress, world.seed + life, "replay", "")
        refused[0, life], events[0, life] = progress.states_refused, progress.events
        ended = simulated.completed_steps >= steps
        if ended:
            # A run ends with a save, which the whole job has once.
            begun_s = progress.noted_s + job.durations.save_s if begun else 0.0
            rest_s = (progress.now_s - begun_s) * (whole - begun) / (steps - begun)
            time_s[0, life], goodput[0, life] = begun_s + rest_s, simulated.goodput
        if not ended or time_s[0, life] > world.limit_s:
            ending = ending_of(progress, job, ended=ended)
    return Lives(time_s, refused, events, goodput, np.array([ending]))


def run_tasks(tasks: Sequence[Task], on_done: OnDone = None, ends_s: float = inf) -> list[Any]:
    """Return the results of tasks, the first ones first; start workers only if it is worth it.

    Starting them takes longer than a dozen small runs. The run time is estimated from the runs so
    far; the results do not depend on it. Those of tasks that are ended at `ends_s`, on the
    monotonic clock, are None.
    """
    results: list[Any] = [None] * len(tasks)
    began_s = time.monotonic()
    with suppress(OutOfTimeError), deadline(ends_s):
        for place, task in enumerate(tasks):
            left = len(tasks) - place
            expected_s = (time.monotonic() - began_s) / place * left if place else 0.0
            is_worth_it = execution.kept_workers_are_up() or expected_s > _WORTH_STARTING_WORKERS_S
            if is_worth_it and left > 1 and cores() > 1:
                _run_in_workers(tasks[place:], results, on_done)
                break
            results[place] = execution.simulate([task], workers=1, on_done=on_done)[0]
    return results


def _run_in_workers(rest: Sequence[Task], results: list[Any], on_done: OnDone) -> None:
    """Fill in the last of some results; tasks start from the last one."""

    def keep(place: int, result: Any) -> None:
        results[len(results) - 1 - place] = result

    execution.simulate(rest[::-1], on_done=on_done, on_value=keep)
