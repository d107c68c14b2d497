"""When a checkpoint is due: against the closed form of the best period, and as a law of its own."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import pytest
from faultline.strategies.protection.checkpoint_policies import EverySteps, FollowingHazard, Never
from faultline.strategies.theory.checkpoint_period import best_period_s
from hypothesis import given
from hypothesis import strategies as st


@dataclass(frozen=True)
class Changing:
    """A rate that falls off after a day, or rises."""

    per_s: float
    factor: float = 0.01

    def __call__(self, now_s: float) -> float:
        return self.per_s if now_s < 86_400.0 else self.per_s * self.factor

    def holds_until_s(self, now_s: float) -> float:
        return 86_400.0 if now_s < 86_400.0 else inf


def steady(per_s: float) -> Changing:
    return Changing(per_s, factor=1.0)


def first_due_s(policy: FollowingHazard, down: int, now_s: float = 0.0) -> float:
    """Find by bisection how much unsaved work makes a checkpoint due; infinite if none does."""
    low, high = 0.0, 1e15
    if not policy.due(1, high, now_s, down):
        return float("inf")
    for _ in range(200):
        middle = (low + high) / 2
        if policy.due(1, middle, now_s, down):
            high = middle
        else:
            low = middle
    return high


@given(interval=st.integers(1, 50), unsaved_s=st.floats(0, 1e9), down=st.integers(0, 100))
def test_every_so_many_steps_whatever_happens(interval: int, unsaved_s: float, down: int) -> None:
    policy = EverySteps(interval)
    due = [step for step in range(1, 201) if policy.due(step, unsaved_s, unsaved_s, down)]
    assert due == list(range(interval, 201, interval))


@given(
    save_s=st.floats(0.1, 1e3),
    restart_s=st.floats(0, 1e4),
    groups=st.integers(1, 1000),
    group_mtbf_s=st.floats(1e3, 1e8),
)
def test_a_constant_hazard_gives_the_best_period(
    save_s: float, restart_s: float, groups: int, group_mtbf_s: float
) -> None:
    """Every failure forces a restart: 1/h is the mean time between failures of the system."""
    policy = FollowingHazard(save_s, restart_s, groups, steady(1 / group_mtbf_s), (1.0,))
    period_s = first_due_s(policy, down=0) + save_s
    assert period_s == pytest.approx(best_period_s(save_s, group_mtbf_s / groups, restart_s))


def test_groups_that_are_down_do_not_fail() -> None:
    policy = FollowingHazard(50.0, 3600.0, 10, steady(1e-5), (0.5,))
    expected_s = best_period_s(50.0, 1 / (6 * 1e-5 * 0.5), 3600.0) - 50.0
    assert first_due_s(policy, down=4) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    "policy",
    [
        FollowingHazard(50.0, 3600.0, 10, steady(0.0), (1.0,)),
        FollowingHazard(50.0, 3600.0, 10, steady(1e-3), (0.0, 0.0, 1.0)),
        FollowingHazard(50.0, 3600.0, 1, steady(1e-3), (0.0, 1.0)),
    ],
    ids=["no failures", "no restarts yet", "no group left to fail"],
)
def test_without_hazard_it_is_never_due(policy: FollowingHazard) -> None:
    for down in (0, 1):
        assert first_due_s(policy, down) == float("inf")


@given(
    law=st.lists(st.floats(0.001, 1.0), min_size=2, max_size=20).map(sorted),
    groups=st.integers(2000, 5000),
    save_s=st.floats(1, 300),
)
def test_it_saves_sooner_the_more_certain_a_restart_is(
    law: list[float], groups: int, save_s: float
) -> None:
    """For as long as the probability grows faster than the survivors get fewer."""
    policy = FollowingHazard(save_s, 3600.0, groups, steady(1e-6), tuple(law))
    sooner = [first_due_s(policy, down) for down in range(len(law))]
    for down in range(len(law) - 1):
        if law[down + 1] * (groups - down - 1) >= law[down] * (groups - down):
            assert sooner[down + 1] <= sooner[down]
    beyond = first_due_s(policy, len(law) + 5)
    assert beyond >= sooner[-1]


def test_it_follows_a_rate_that_falls() -> None:
    policy = FollowingHazard(58.8, 3600.0, 200, Changing(1e-6), (1.0,))
    assert first_due_s(policy, 0, now_s=0.0) < first_due_s(policy, 0, now_s=1e6) / 5


@given(interval=st.integers(1, 50), done=st.integers(0, 1000))
def test_every_so_many_steps_no_check_is_needed_before_the_next_is_due(
    interval: int, done: int
) -> None:
    policy = EverySteps(interval)
    step, time_s = policy.not_due_before(done, 10.0, 1e6, 0)
    due = next(step for step in range(done + 1, done + 51) if policy.due(step, 10.0, 1e6, 0))
    assert (step, time_s) == (due, inf)


def test_a_policy_that_never_saves_needs_no_check() -> None:
    assert Never().not_due_before(7, 1e9, 1e9, 0) == (inf, inf)


@given(
    group_mtbf_s=st.floats(1e4, 1e8),
    now_s=st.floats(0, 2e5),
    unsaved=st.floats(0, 1),
    later=st.lists(st.floats(0, 1), min_size=10, max_size=10),
    down=st.integers(0, 3),
    factor=st.sampled_from([0.01, 100.0]),
)
def test_following_the_hazard_no_check_is_needed_before_the_work_is_worth_it(
    group_mtbf_s: float, now_s: float, unsaved: float, later: list[float], down: int, factor: float
) -> None:
    """Never too late, and no sooner than by a rounding error or where the rate changes."""
    rate = Changing(1 / group_mtbf_s, factor)
    policy = FollowingHazard(50.0, 3600.0, 200, rate, (0.0, 0.1, 0.7))
    saved_s = now_s * unsaved
    step, until_s = policy.not_due_before(1, now_s - saved_s, now_s, down)
    assert step == inf
    end_s = min(until_s, 1e9)
    for share in later:
        moment_s = now_s + share * (end_s - now_s)
        if now_s < moment_s < end_s:
            assert not policy.due(1, moment_s - saved_s, moment_s, down)
    if now_s < until_s < inf and until_s != 86_400.0:
        assert policy.due(1, until_s * (1 + 1e-9) - saved_s, until_s * (1 + 1e-9), down)


def test_a_rate_that_rises_makes_work_worth_saving_at_once() -> None:
    """Saved at 80,000 s; it would be worth 7,096 s of work, from a day on 927 s."""
    policy = FollowingHazard(50.0, 3600.0, 200, Changing(1e-8, 100.0), (1.0,))
    assert not policy.due(1, 6399.0, 86_399.0, 0)
    assert policy.due(1, 6400.0, 86_400.0, 0)
    assert policy.not_due_before(1, 0.0, 80_000.0, 0) == (inf, 86_400.0)
