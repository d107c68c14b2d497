"""A run can note when it had trained some of its batches, and is otherwise the same."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isinf

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.single_run import replay

from tests.stated_times import NOTHING_MEASURED, PROTECTED

SMALL = ("job.groups=30", "job.steps=600", "failures.mtbf_s=1200")


def job_of(*settings: str) -> ResolvedJob:
    return resolve(load_scenario("spare-sound", (*NOTHING_MEASURED, *SMALL, *settings)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "settings",
    [(), ("strategy.name=checkpoint",), PROTECTED],
    ids=["spare", "checkpoint", "copies"],
)
def test_the_noted_time_is_that_of_a_shorter_run_before_its_last_save(
    settings: tuple[str, ...], seed: int
) -> None:
    job = job_of(*settings)
    whole, noting = replay(job, seed), replay(job, seed, noted_batches=150)
    short = replay(job.shortened(150), seed)
    assert whole.restarts + whole.reorderings > 0
    assert 0.0 < noting.noted_s < noting.now_s
    assert noting.noted_s + job.durations.save_s == pytest.approx(short.now_s, rel=1e-9)
    same = replace(noting, noted_s=inf, seconds=whole.seconds)
    assert same.now_s == pytest.approx(whole.now_s, rel=1e-12)
    assert replace(same, now_s=whole.now_s) == whole
    assert noting.seconds == pytest.approx(whole.seconds, rel=1e-9, abs=1e-6)


def test_nothing_is_noted_in_a_run_that_ends_before() -> None:
    progress = replay(job_of("job.time_limit_s=3000"), 0, noted_batches=599)
    assert progress.completed_steps < 599
    assert isinf(progress.noted_s)
