"""The prediction of a job in limits that are known; whole jobs are compared with the simulator."""

from __future__ import annotations

from math import exp, expm1, pi, sqrt

import numpy as np
import pytest
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.plugins.registry import build_strategy
from faultline.strategies.schemes.checkpoint import Checkpoint
from faultline.strategies.schemes.replication import Replication
from faultline.strategies.schemes.spare.spare import Spare, SpareOptions
from faultline.strategies.theory.checkpoint_period import Costs
from faultline.strategies.theory.lifetimes import GroupLifetimes
from faultline.strategies.theory.prediction import (
    LEAST_LIVES,
    LoopCosts,
    Prediction,
    largest_of_normals,
    predict,
)
from faultline.strategies.theory.wipe_out import Predictable


def exponential(groups: int, mtbf_s: float) -> GroupLifetimes:
    return GroupLifetimes(groups, lambda time_s: exp(-time_s / (groups * mtbf_s)))


def test_the_largest_of_few_normal_variates() -> None:
    """Means 0, 1/sqrt(pi), 3/(2 sqrt(pi)) for 1, 2, 3."""
    expected = [0.0, 1 / sqrt(pi), 1.5 / sqrt(pi)]
    np.testing.assert_allclose(largest_of_normals([1, 2, 3]), expected, atol=1e-6)


def test_without_failures_only_jitter_and_checkpoints_are_left() -> None:
    scheme = build_strategy("checkpoint", 24, 1)
    assert isinstance(scheme, Predictable)
    costs = Costs(1e12, 60.0, 3600.0, 64.0, 2.0)
    found = predict(scheme.failure_course(), exponential(24, 1e12), costs, LoopCosts(0.05), 10)
    expected = (64.0 * (1 + 0.05 * largest_of_normals([24])[0]) + 2.0 + 6.0) / 66.0
    assert found.time_to_train_ratio == pytest.approx(expected, rel=1e-4)
    assert found.availability == pytest.approx(1.0, abs=1e-6)


def test_rare_failures_still_meet_each_other_within_a_life() -> None:
    """SPARe runs on until a wipe-out, however long that takes: S is 2 for most of a life."""
    scheme = Spare(24, 3, SpareOptions(), JobShape())
    costs = Costs(1e12, 60.0, 3600.0, 64.0, 2.0)
    found = predict(scheme.failure_course(), exponential(24, 1e12), costs, LoopCosts(), 10)
    law = scheme.failure_course().law
    # Time with k groups down is P(k)/(N - k); a step takes 66 + 6 s there with none, else 136 s.
    steps = law.outliving / (24 - np.arange(24)) / np.where(np.arange(24) == 0, 72.0, 136.0)
    stacks = np.where(np.arange(24) == 0, 1.0, 2.0)[:12]
    expected = float(steps[:12] @ stacks) / float(steps[:12].sum())
    assert found.stacks_per_step == pytest.approx(expected, rel=0.01)
    assert found.patch_per_step == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("interval", [None, 10])
def test_where_failures_let_no_step_end_nothing_is_trained(interval: int | None) -> None:
    """A patch compute of 64 s meets another failure, always: its time is beyond all numbers."""
    scheme, costs = Spare(12, 3, SpareOptions(), JobShape()), Costs(0.01, 60.0, 3600.0, 64.0, 2.0)
    course = scheme.failure_course()
    for mtbf_s in (1.0, 0.1, 0.01):
        with np.errstate(all="raise", under="ignore"):
            found = predict(course, exponential(12, mtbf_s), costs, LoopCosts(), interval)
        assert found.steps_per_life < 1e-5
        assert found.time_to_train_ratio > 1e40
        assert 0.0 < found.availability <= 1.0
    assert found.steps_per_life == 0.0


def test_checkpoint_only_with_memoryless_failures_by_hand() -> None:
    """Lives of mean m; n steps of d + T_s/n each are kept with probability exp(-n d'/m)."""
    mtbf_s, save_s, restart_s, interval = 10_000.0, 60.0, 600.0, 20
    scheme = Checkpoint(50, 1, Checkpoint.Options(), JobShape())
    costs = Costs(mtbf_s, save_s, restart_s, 64.0, 2.0)
    found = predict(scheme.failure_course(), exponential(50, mtbf_s), costs, LoopCosts(), interval)
    # Every life ends in one step that finds its failure, and not in a fraction of one.
    step_s = 66.0 + save_s / interval
    kept = interval / expm1(interval * step_s / mtbf_s)
    expected = (mtbf_s + step_s / 2 + restart_s) / (kept * 66.0)
    assert found.time_to_train_ratio == pytest.approx(expected, rel=0.01)
    assert found.steps_per_life == pytest.approx(mtbf_s / step_s, rel=0.01)


def test_work_per_failure_is_the_mean_that_the_paper_takes() -> None:
    """Stacks near the paper's lower bound; patch compute comes on top; replication has none."""
    spare = Spare(200, 9, SpareOptions(patch_compute="one-stack"), JobShape())
    stacks, patch = spare.failure_course().work_per_failure()
    # A sharp end at floor(mu) instead of P(k): the bound is 2.3 % short at N = 200, r = 9.
    assert stacks == pytest.approx(spare.work_per_step(), rel=0.03)
    assert 0.5 < patch < 0.6
    replication = Replication(200, 4, Replication.Options(), JobShape())
    assert replication.failure_course().work_per_failure() == pytest.approx((4.0, 0.0))


def test_the_interval_left_open_is_the_best() -> None:
    course = Spare(200, 9, SpareOptions(), JobShape()).failure_course()
    lifetimes, costs = exponential(200, 300.0), Costs(300.0, 58.8, 3600.0, 64.0, 2.0)
    best = predict(course, lifetimes, costs, LoopCosts())
    around = [
        predict(course, lifetimes, costs, LoopCosts(), max(1, best.interval_steps + shift))
        for shift in (-8, -4, 4, 8)
    ]
    assert min(found.time_to_train_ratio for found in around) > best.time_to_train_ratio - 0.002


def test_free_checkpoints_are_written_every_step() -> None:
    course = Checkpoint(50, 1, Checkpoint.Options(), JobShape()).failure_course()
    costs = Costs(5000.0, 0.0, 600.0, 64.0, 2.0)
    assert predict(course, exponential(50, 5000.0), costs, LoopCosts()).interval_steps == 1


def test_outside_its_range_the_form_gives_nothing() -> None:
    """Published tables once had ratios of 1.5e105."""
    costs = Costs(10_000.0, 60.0, 600.0, 64.0, 2.0)
    scheme = Checkpoint(50, 1, Checkpoint.Options(), JobShape())

    def predicted(interval_steps: int) -> Prediction:
        return predict(
            scheme.failure_course(), exponential(50, 10_000.0), costs, LoopCosts(), interval_steps
        )

    sound = predicted(20)
    # About 150 steps a life, seven checkpoints.
    assert sound.lives_of_job(1000) == pytest.approx(1000 / sound.kept_steps_per_life)
    assert sound.ratio_of_job(1000) == sound.time_to_train_ratio
    assert np.isnan(sound.ratio_of_job(150))
    rare = predicted(1000)
    assert rare.time_to_train_ratio > 100.0
    assert np.isnan(rare.ratio_of_job(10**9))


def test_a_job_that_is_over_before_its_first_restart_has_no_form() -> None:
    scheme = Checkpoint(50, 1, Checkpoint.Options(), JobShape())
    costs = Costs(1e12, 60.0, 600.0, 64.0, 2.0)
    never = predict(scheme.failure_course(), exponential(50, 1e12), costs, LoopCosts(), 10)
    assert never.lives_of_job(10_000) < LEAST_LIVES
    assert np.isnan(never.ratio_of_job(10_000))
