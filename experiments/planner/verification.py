"""Verification of choices on the replay engine: a race under the same failures (`analysis.race`).

The choice that closed forms rank first runs with the first seed; then all others do, and those that
take `HOPELESS` times as long as the soonest of all are stopped: stopping one depends on no third
choice. If a job has fewer failures than `TELLING_FAILURES`, one seed is chance, and the limit is
`HOPELESS_OF_FEW` times as long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite

from faultline.experiments.analysis.race import RaceRules, race
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.runs import execution
from faultline.experiments.runs.point import Point, cores
from faultline.experiments.runs.record import Record
from faultline.simulator.accounting.badput import RECOVERING

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
"""A fraction of the time that does not matter: what is better by less is not worth more seeds."""

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
    events: tuple[int, ...] = ()

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
        events = sum(self.events)
        return sum(self.recovering_s) / events if events else None


def steps_needed(resolved: ResolvedJob) -> int:
    """Return the number of steps of the simulated job, the same for all choices.

    Enough for about 1,000 failures at the pace of an undisturbed job, at most the whole job. All
    choices thus have the same failures, and the comparison of two does not depend on a third.
    """
    wanted = FAILURES_WANTED * resolved.failures.mtbf_s / resolved.ideal_step_s
    whole = resolved.scenario.job.steps
    return max(1, min(whole, ceil(min(wanted, whole))))


def simulate_pairs(
    resolved_jobs: Sequence[ResolvedJob],
    pairs: Sequence[tuple[int, int]],
    steps: int,
    limit_s: float | None = None,
    on_done: Callable[[], None] | None = None,
) -> list[Record]:
    """Simulate jobs of `steps` steps, given by places and seeds; return records in their order.

    A job is stopped after `limit_s` seconds of simulated time; `on_done` is called after each.
    """
    short = {
        place: resolved_jobs[place].shortened(steps, limit_s) for place in {p for p, _ in pairs}
    }
    return run_points([Point.of(short[place], seed) for place, seed in pairs], on_done)


def _ratio(record: Record) -> float:
    # A job that gave up has no ratio, however well it trained until then.
    finished = record["completed_steps"] >= record["steps"]
    return float(record["time_to_train_ratio"]) if finished else inf


def _simulated(records: Sequence[Record], steps: int, stopped_at: float | None) -> Simulated:
    return Simulated(
        tuple(inf if stopped_at else _ratio(one) for one in records),
        tuple(one["availability"] for one in records),
        tuple(one["goodput"] for one in records),
        tuple(one["checkpoint_interval_s"] / one["checkpoint_interval_steps"] for one in records),
        steps,
        stopped_at=stopped_at,
        states_refused=tuple(one["states_refused"] for one in records),
        recovering_s=tuple(sum(one[f"{cause}_s"] for cause in RECOVERING) for one in records),
        events=tuple(one["events"] for one in records),
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
            return records + execution.simulate(rest, on_done=on_done)
        started_s = time.perf_counter()
        records += execution.simulate(rest[:1], workers=1, on_done=on_done)
        spent_s += time.perf_counter() - started_s
    return records


def verify(
    resolved_jobs: Sequence[ResolvedJob],
    seeds: Sequence[int],
    steps: int,
    on_done: Callable[[], None] | None = None,
) -> list[Simulated]:
    """Simulate choices (at least one, best prediction first) for `steps` steps; return in order.

    Every choice that is not stopped gets all seeds. Undecided ones get more, up to `MOST_SEEDS`;
    a single seed cannot tell which those are. `on_done` is called after each run.
    """
    ideal_s = steps * resolved_jobs[0].ideal_step_s
    failures = ideal_s / resolved_jobs[0].failures.mtbf_s
    hopeless = HOPELESS if failures >= TELLING_FAILURES else HOPELESS_OF_FEW
    most_seeds = max(MOST_SEEDS, len(seeds)) if len(seeds) > 1 else 1
    more = range(max(seeds) + 1, max(seeds) + 1 + most_seeds - len(seeds))

    def simulate(pairs: Sequence[tuple[int, int]], best: float) -> list[Record]:
        is_limited = isfinite(best) and all(seed == seeds[0] for _, seed in pairs)
        limit_s = hopeless * best * ideal_s if is_limited else None
        return simulate_pairs(resolved_jobs, pairs, steps, limit_s, on_done)

    rules = RaceRules(len(seeds), most_seeds, hopeless, indifference=INDIFFERENCE)
    heats = [[0], range(1, len(resolved_jobs))]
    outcome = race(heats, simulate, _ratio, [*seeds, *more], rules)
    # Without a limit of time, a job that has no ratio gave up by itself.
    are_limited = isfinite(_ratio(outcome.runs[0][0]))
    return [
        _simulated(
            records,
            steps,
            hopeless
            if place in outcome.hopeless and (are_limited or isfinite(_ratio(records[0])))
            else None,
        )
        for place, records in outcome.runs.items()
    ]
