"""The search against brute force: on an invented objective, and on a small real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log

import numpy as np
import pytest
from faultline.experiments.analysis.intervals import half_width
from faultline.experiments.planner.search import (
    RULES,
    OperatingPoint,
    optimise,
    point_of,
    simulated_objective,
)
from faultline.experiments.planner.situation import choices_of, read_situation
from faultline.experiments.runs.execution import simulate
from faultline.experiments.runs.point import Point

_INTERVALS = {redundancy: 40 - 2 * redundancy for redundancy in range(2, 13)}


class Bowl:
    """Least at `best`, with noise that a seed does to all points, and some of each point's own."""

    def __init__(self, best: OperatingPoint, own_noise: float) -> None:
        self.best, self.own_noise = best, own_noise
        self.asked: list[tuple[OperatingPoint, int]] = []

    def mean(self, point: OperatingPoint) -> float:
        across = 0.02 * (point.redundancy - self.best.redundancy) ** 2
        return 2.0 + across + 0.3 * log(point.interval_steps / self.best.interval_steps) ** 2

    def __call__(self, pairs: Sequence[tuple[OperatingPoint, int]]) -> list[float]:
        self.asked += pairs
        values = []
        for point, seed in pairs:
            shared = np.random.default_rng(seed).normal(0, 0.2)
            own = np.random.default_rng((seed, *point)).normal(0, self.own_noise)
            values.append(self.mean(point) + shared + own)
        return values


@pytest.mark.parametrize(
    "start",
    [OperatingPoint(2, 36), OperatingPoint(8, 24), OperatingPoint(12, 16), OperatingPoint(7, 90)],
)
def test_the_search_finds_the_brute_force_optimum_within_noise(start: OperatingPoint) -> None:
    bowl = Bowl(OperatingPoint(8, 24), own_noise=0.002)
    found = optimise(bowl, start, _INTERVALS)
    least = min(
        bowl.mean(OperatingPoint(redundancy, steps))
        for redundancy in _INTERVALS
        for steps in range(1, 200)
    )
    assert bowl.mean(found.best) / least - 1 < 0.006
    assert found.start == start
    # A tenth of what every point with a dozen seeds would take.
    assert found.runs < 11 * 200 * 12 / 10
    if found.best != start:
        true = bowl.mean(start) / bowl.mean(found.best) - 1
        half = (found.change.high - found.change.low) / 2
        assert found.change.mean == pytest.approx(true, abs=2 * half)


def test_nothing_is_computed_twice_and_runs_are_counted() -> None:
    bowl = Bowl(OperatingPoint(6, 30), own_noise=0.01)
    found = optimise(bowl, OperatingPoint(5, 30), _INTERVALS)
    assert len(bowl.asked) == len(set(bowl.asked)) == found.runs


def test_redundancies_that_are_not_allowed_are_not_tried() -> None:
    bowl = Bowl(OperatingPoint(8, 24), own_noise=0.001)
    found = optimise(bowl, OperatingPoint(4, 32), {4: 32, 5: 30})
    assert {point.redundancy for point, _ in bowl.asked} <= {4, 5}
    assert found.best.redundancy == 5
    assert all(point.interval_steps >= 1 for point, _ in bowl.asked)


@pytest.mark.slow
def test_the_search_on_a_small_real_job_agrees_with_brute_force() -> None:
    settings = ("job.groups=24", "job.steps=1500", "failures.mtbf_s=900", "times.restart_s=900")
    situation = read_situation("spare-study", settings)
    choices = choices_of(situation, "spare", "storage")
    best = choices[0]
    steps = situation.scenario.job.steps
    intervals = {choice.redundancy: choice.interval_steps for choice in choices}
    far = OperatingPoint(max(intervals), 60)
    objective = simulated_objective(best.resolved, steps)
    found = optimise(objective, far, intervals)
    grid = [
        OperatingPoint(redundancy, interval)
        for redundancy in intervals
        for interval in (2, 4, 6, 8, 11, 15, 20, 28, 40, 60)
    ]
    grid += [found.best, point_of(best)]
    # The least is picked by the first half of the seeds and judged by the other.
    seeds = range(500, 524)
    tasks = [
        Point.of(
            replace(
                best.resolved.shortened(steps),
                redundancy=point.redundancy,
                interval_steps=point.interval_steps,
            ),
            seed,
        )
        for point in grid
        for seed in seeds
    ]
    ratios = np.array([record["time_to_train_ratio"] for record in simulate(tasks, workers=2)])
    by_point = ratios.reshape(len(grid), len(seeds))
    least = by_point[by_point[:, :12].mean(axis=1).argmin(), 12:]
    difference = by_point[grid.index(found.best), 12:] - least
    # What a race with all its seeds cannot tell from nothing, and the error of this comparison.
    deviation = difference.std(ddof=1)
    unresolved = float(half_width(deviation, RULES.most_seeds, RULES.confidence))
    assert difference.mean() < unresolved + 2 * deviation / 12**0.5
    start = objective([(far, seed) for seed in list(seeds)[12:]])
    assert np.mean(start) - least.mean() > 4 * (unresolved + 2 * deviation / 12**0.5)
