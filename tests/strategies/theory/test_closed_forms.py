"""The closed forms against what they approximate, and against the numbers that were published."""

from __future__ import annotations

from math import ceil, floor, sqrt

import numpy as np
import pytest
from faultline.experiments.studies.operators.jobs import expected_ettr_with_queue
from faultline.experiments.studies.operators.loop import job_failures_per_s
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Strategy
from faultline.strategies.schemes.checkpoint import Checkpoint
from faultline.strategies.schemes.replication import Replication
from faultline.strategies.schemes.spare.spare import Spare, SpareOptions, published_redundancy
from faultline.strategies.schemes.spare.stacks import StackedShards
from faultline.strategies.theory.checkpoint_period import Costs, best_period_s
from faultline.strategies.theory.ettr import expected_ettr
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar


def study(groups: int) -> Costs:
    """Costs of Lee et al. 2026 (SPARe), in seconds."""
    return Costs(300.0, 2e13 / 340e9, 3600.0, 64.0, groups / 100)


def built(scheme: type[Strategy], groups: int, redundancy: int) -> Strategy:
    return scheme(groups, redundancy, scheme.Options(), JobShape())


def failures_until_wipe_out(groups: int, redundancy: int, order: list[int]) -> int:
    shards = StackedShards(groups, redundancy)
    for count, group in enumerate(order, 1):
        if shards.fail([group]) is None:
            return count
    raise AssertionError("all groups failed and no type was lost")


@pytest.mark.parametrize(("groups", "redundancy"), [(24, 3), (60, 4), (200, 2), (200, 5), (200, 9)])
def test_masked_failures_are_those_of_random_failures(groups: int, redundancy: int) -> None:
    """Mean over random orders of failure, within 4 standard errors and what the form leaves out.

    The form takes a type's chance to lose all hosts for (k/N)^r, where it is that of r draws
    without replacement, so it is short by O(r/N); the paper reports 1.13 % for N >= 200.
    """
    rng = np.random.default_rng(groups + redundancy)
    counts = [
        failures_until_wipe_out(groups, redundancy, rng.permutation(groups).tolist())
        for _ in range(400)
    ]
    formula = built(Spare, groups, redundancy).masked_failures()
    error = float(np.std(counts, ddof=1)) / sqrt(len(counts))
    left_out = 0.0113 * formula if groups >= 200 else formula * redundancy / groups
    # Counting ends with the failure that is not masked; the integral runs over those before it too.
    assert abs(np.mean(counts) - 0.5 - formula) < 4 * error + left_out + 0.5


@pytest.mark.parametrize("scheme", [Spare, Replication])
@pytest.mark.parametrize(("groups", "redundancy"), [(200, 2), (200, 9), (1000, 10)])
def test_masked_failures_are_the_integral_they_come_from(
    scheme: type[Strategy], groups: int, redundancy: int
) -> None:
    integral, _ = quad(lambda k: np.exp(-groups * (k / groups) ** redundancy), 0, 2 * groups)
    assert built(scheme, groups, redundancy).masked_failures() == pytest.approx(integral, rel=1e-6)


def test_the_paper_s_example_of_masked_failures() -> None:
    assert built(Spare, 600, 20).masked_failures() == pytest.approx(426, abs=2)


def test_without_redundancy_the_first_failure_counts() -> None:
    assert built(Checkpoint, 200, 1).masked_failures() == 1
    assert built(Spare, 200, 1).masked_failures() == pytest.approx(1)


@pytest.mark.parametrize(("groups", "best"), [(200, 8), (600, 10), (1000, 10)])
def test_the_best_redundancy_is_the_paper_s(groups: int, best: int) -> None:
    assert published_redundancy(groups) == best


@pytest.mark.parametrize("groups", [200, 600, 1000])
def test_the_best_redundancy_is_nearly_where_the_objective_is_least(groups: int) -> None:
    costs = study(groups)
    objective = {
        r: built(Spare, groups, r).normalised_time_to_train(costs)
        for r in Spare.redundancies(groups, SpareOptions())
    }
    assert objective[published_redundancy(groups)] < 1.01 * min(objective.values())


def best_of(scheme: type[Strategy], groups: int) -> int:
    return min(
        scheme.redundancies(groups, scheme.Options()),
        key=lambda r: built(scheme, groups, r).normalised_time_to_train(study(groups)),
    )


@pytest.mark.parametrize("groups", [200, 600, 1000])
def test_replication_is_best_at_a_low_degree(groups: int) -> None:
    """The study finds 3; the closed form knows of no failures in restarts and takes 2."""
    assert best_of(Replication, groups) in (2, 3)


@pytest.mark.parametrize("groups", [1, 2, 3, 5, 8, 24])
def test_best_values_of_small_jobs_can_be_built(groups: int) -> None:
    for scheme in (Checkpoint, Replication, Spare):
        best = built(scheme, groups, best_of(scheme, groups))
        assert best.plan().members
        assert best.best_interval_steps(study(groups)) >= 1


REPLICATION_200 = [8, 6, 6, 5, 5, 4, 4, 3, 3, 3, 3]
SPARE_200 = [8, 10, 12, 13, 14, 15, 15, 15, 15, 15, 15]


@pytest.mark.parametrize(
    ("scheme", "groups", "redundancy", "steps"),
    [
        *[(Replication, 200, r, steps) for r, steps in enumerate(REPLICATION_200, 2)],
        *[(Spare, 200, r, steps) for r, steps in enumerate(SPARE_200, 2)],
        (Replication, 600, 3, 8),
        (Spare, 600, 8, 23),
        (Replication, 1000, 3, 10),
        (Spare, 1000, 9, 30),
    ],
)
def test_checkpoint_intervals_are_the_paper_s_within_a_step(
    scheme: type[Strategy], groups: int, redundancy: int, steps: int
) -> None:
    """Stated as "about": rounding, and the patch compute that the lower bound leaves out."""
    tolerance = 1 if groups == 200 else 2
    ours = built(scheme, groups, redundancy).best_interval_steps(study(groups))
    assert abs(ours - steps) <= tolerance


times = st.floats(1.0, 1e5)


@given(save_s=times, failure_s=times, restart_s=times)
def test_the_best_period_is_where_availability_is_greatest(
    save_s: float, failure_s: float, restart_s: float
) -> None:
    costs = Costs(300.0, save_s, restart_s, 64.0, 2.0)
    best_s = best_period_s(save_s, failure_s, restart_s)
    found = minimize_scalar(
        lambda period_s: -costs.availability(period_s, failure_s),
        bounds=(save_s, 10 * best_s),
        method="bounded",
    )
    assert best_s > save_s
    assert costs.availability(best_s, failure_s) >= -found.fun - 1e-9


def test_availability_by_hand() -> None:
    """T_s = 10, T_c = 100, T_f = 900, T_r = 50: (1 - 0.1) * 900 / (900 + 50 + 50) = 0.81."""
    costs = Costs(300.0, 10.0, 50.0, 64.0, 2.0)
    assert costs.availability(100.0, 900.0) == pytest.approx(0.81)
    assert costs.availability(5.0, 900.0) == 0.0


@pytest.mark.parametrize(("groups", "redundancy"), [(24, 3), (60, 4), (200, 9)])
def test_the_work_of_a_step_is_a_lower_bound_that_is_nearly_reached(
    groups: int, redundancy: int
) -> None:
    """Mean S over random failures is at least that of ceil(N / (N - k)) over the same k.

    And the closed form's mean is near it: the paper reports 0.60 % for its sizes; a small job's few
    failures scatter more, so the standard error is added.
    """
    rng = np.random.default_rng(5)
    means, bounds = [], []
    for _ in range(100):
        shards = StackedShards(groups, redundancy)
        stacks, bound = [], []
        for k, group in enumerate(rng.permutation(groups).tolist()):
            stacks.append(shards.stacks)
            bound.append(ceil(groups / (groups - k)))
            assert stacks[-1] >= bound[-1]
            if shards.fail([group]) is None:
                break
        means.append(np.mean(stacks))
        bounds.append(np.mean(bound))
    error = float(np.std(bounds, ddof=1)) / sqrt(len(bounds))
    formula = built(Spare, groups, redundancy).work_per_step()
    assert abs(np.mean(bounds) - formula) < 4 * error + 0.03 * formula
    assert np.mean(means) < 1.10 * formula


def test_work_per_step_by_hand() -> None:
    """N = 24, r = 3: mu = Gamma(1/3)/3 * 24^(2/3) = 7.43; S is 1 at k = 0 and 2 for k = 1 to 6."""
    assert floor(built(Spare, 24, 3).masked_failures()) == 7
    assert built(Spare, 24, 3).work_per_step() == pytest.approx((1 + 6 * 2) / 7)
    assert built(Replication, 24, 3).work_per_step() == 3
    assert built(Checkpoint, 24, 1).work_per_step() == 1


def test_by_hand() -> None:
    """13 failures a day; each loses 5 min and half an hour: 13 * 35 / 1,440 of the time."""
    failures_per_s = job_failures_per_s(2000, 6.5e-3)
    assert failures_per_s * 86_400 == pytest.approx(13.0)
    assert expected_ettr(failures_per_s, 300.0, 3600.0) == pytest.approx(1 - 13 * 35 / 1440)
    assert expected_ettr(0.0, 300.0, 3600.0, 400.0) == pytest.approx(0.9)


def test_a_queue_is_paid_at_the_start_and_with_each_failure() -> None:
    rate, day_s = 1 / 86_400, 86_400.0
    with_queue = expected_ettr_with_queue(rate, 0.0, 0.0, 8640.0, 10 * day_s)
    assert with_queue == pytest.approx(1 / (1 + 0.01 + 0.1))
    assert expected_ettr_with_queue(rate, 0.0, 3600.0, 0.0, 1e15) == pytest.approx(
        expected_ettr(rate, 0.0, 3600.0)
    )
