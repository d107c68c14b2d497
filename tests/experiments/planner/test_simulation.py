"""Shortened runs: the rest of a job goes on as after their beginning."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.experiments.analysis.design import Design, design_by_name
from faultline.experiments.job.choices import Choice
from faultline.experiments.planner.simulation import simulate_worlds
from faultline.experiments.planner.situation import choices_of

from tests.experiments.planner.small_jobs import small

WORLDS = 16
NO_LIMIT_S = 1e9


def choice_of(scheme: str, *settings: str) -> Choice:
    return choices_of(small(*settings), scheme, "storage")[0]


def no_inputs(worlds: int) -> list[Design]:
    return [design_by_name({}, worlds, 0)]


def test_a_job_whose_rest_takes_longer_than_the_limit_has_a_reason() -> None:
    """A run ends within its share of the limit, but the rest of the job has more failures."""
    choices = [choice_of("checkpoint", "job.steps=2000", "failures.mtbf_s=12000")]
    worlds, steps = range(WORLDS), 200
    (free,) = simulate_worlds(choices, no_inputs(WORLDS), worlds, steps, NO_LIMIT_S)
    assert set(free.endings) == {""}
    limit_s = 0.99 * float(free.time_s.max())
    (lives,) = simulate_worlds(choices, no_inputs(WORLDS), worlds, steps, limit_s)
    late = lives.time_s > limit_s
    assert (late & np.isfinite(lives.time_s)).any()
    for is_late, ending in zip(late.any(axis=1), lives.endings, strict=True):
        assert ending.startswith("more time than the cap, most of it for: ") == is_late


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["checkpoint", "spare", "replication"])
def test_shortened_runs_are_on_average_as_long_as_whole_ones(scheme: str) -> None:
    choices, worlds = [choice_of(scheme, "job.steps=6000")], range(2 * WORLDS)
    times_s = [
        simulate_worlds(choices, no_inputs(len(worlds)), worlds, steps, NO_LIMIT_S)[0].time_s.mean(
            axis=1
        )
        for steps in (1500, 6000)
    ]
    short, whole = (one.mean() for one in times_s)
    errors = [one.std(ddof=1) / np.sqrt(len(one)) for one in times_s]
    assert short == pytest.approx(whole, abs=3.0 * np.hypot(*errors))
    assert np.hypot(*errors) < 0.02 * whole
