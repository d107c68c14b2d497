"""Tiers by hand: what is whole when, what failures spoil, and what a restart finds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolving import resolve
from faultline.simulator.accounting.progress import Batches, Progress
from faultline.simulator.failures.failure import Failure, JobLayout, Kind, Level
from faultline.simulator.failures.models import constant_rate
from faultline.simulator.job.work import Saving
from faultline.simulator.state.memory import Memory
from faultline.simulator.state.shared_optimizer import SharedOptimizer
from faultline.simulator.state.snapshots import Losses, Saved, SnapshotSlot
from faultline.strategies.protection.base import Durable, LoadTimes, Recovery, Tier
from faultline.strategies.protection.checkpoint_policies import EverySteps, FollowingHazard, Never
from faultline.strategies.protection.node_groups import NodeGroups
from faultline.strategies.theory.checkpoint_period import best_period_s

# Four groups of two servers of four GPUs; two servers share a scale-up domain.
LAYOUT = JobLayout(4, 8, 4, 8, 16)
LOAD = LoadTimes(1.0, 10.0)


class Pairs:
    """Servers k and k + 4 keep each other's state."""

    groups = NodeGroups(8, 2, 1, "across-domains")

    def recovery(self, lost_nodes: Collection[int]) -> Recovery | None:
        if not self.groups.survives(lost_nodes):
            return None
        return "peers" if lost_nodes else "local"


def tier(lag_s: float = 0.0, **changes: Any) -> Tier:
    return replace(Tier("memory", EverySteps(2), 0.0, lag_s, Pairs(), LOAD), **changes)


STORAGE = Tier("storage", EverySteps(4), 0.0, 30.0, Durable(), LOAD)


def saved(steps: int, at_s: float) -> Saved:
    return Saved(steps, Batches(steps, steps), Batches(1.0, 1.0), at_s, Progress().mark())


def failure(time_s: float, number: int, level: Level = "host", kind: Kind = "hardware") -> Failure:
    groups = LAYOUT.groups_of(level, number)
    return Failure(time_s, level, number, "unstated", kind, None, groups)


def memory_of(*tiers: Tier) -> Memory:
    return Memory(Saving(Never(), tiers), LAYOUT, SharedOptimizer(None, 4))


def test_losses_are_of_hardware_and_as_wide_as_the_component() -> None:
    losses = Losses(LAYOUT)
    losses.add([failure(10.0, 5, "gpu"), failure(20.0, 3, "domain"), failure(30.0, 0, "group")])
    losses.add([failure(40.0, 4, kind="software"), failure(50.0, 4, kind="network")])
    assert losses.since(0.0) == {1, 6, 7, 0}
    assert losses.since(20.0) == {6, 7, 0, 1}
    assert losses.since(20.1) == {0, 1}
    assert losses.since(30.1) == set()
    losses.forget()
    assert losses.since(0.0) == set()


def test_a_snapshot_is_whole_after_its_lag() -> None:
    slot = SnapshotSlot(tier(lag_s=5.0))
    slot.put(saved(2, 100.0))
    assert slot.whole is None
    slot.settle(104.9)
    assert slot.whole is None
    slot.settle(105.0)
    assert slot.whole == saved(2, 100.0)


def test_a_failure_spoils_what_is_not_whole_and_leaves_what_is() -> None:
    slot = SnapshotSlot(tier(lag_s=5.0))
    slot.put(saved(2, 100.0))
    slot.strike(105.0)
    assert slot.whole == saved(2, 100.0)
    slot.put(saved(4, 200.0))
    slot.strike(204.0)
    slot.settle(300.0)
    assert slot.whole == saved(2, 100.0)


def test_snapshots_come_one_at_a_time() -> None:
    slot = SnapshotSlot(tier(lag_s=5.0))
    assert not slot.due(1, 90.0, 0)
    assert slot.due(2, 100.0, 0)
    slot.put(saved(2, 100.0))
    assert not slot.due(4, 104.0, 0)
    assert slot.due(4, 105.0, 0)


def test_without_a_lag_it_is_whole_at_once() -> None:
    slot = SnapshotSlot(tier())
    slot.put(saved(2, 100.0))
    assert slot.whole == saved(2, 100.0)


def test_a_tier_without_a_policy_is_never_due() -> None:
    assert not SnapshotSlot(tier(policy=None)).due(2, 100.0, 0)


def found(memory: Memory, *failures: Failure) -> tuple[int, float | None]:
    state, _, load_s = memory.recover(saved(9, 190.0), saved(1, 10.0), failures)
    return state.steps, load_s


def filled(*extra: Tier, lag_s: float = 0.0) -> Memory:
    """Return a memory with a snapshot of step 8 from t = 180, and whatever other tiers hold."""
    memory = memory_of(tier(lag_s), *extra)
    memory.slots[0].put(saved(8, 180.0))
    for slot in memory.slots[1:]:
        slot.put(saved(4, 90.0))
    return memory


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        ([failure(185.0, 0, kind="software")], (8, 1.0)),
        ([failure(185.0, 0)], (8, 10.0)),
        ([failure(185.0, 0), failure(186.0, 1)], (8, 10.0)),
        ([failure(185.0, 0), failure(186.0, 4)], (4, None)),
        ([failure(170.0, 0), failure(186.0, 4)], (4, None)),
        ([failure(185.0, 0, "group"), failure(186.0, 2, "group")], (4, None)),
        ([failure(185.0, 0, "job")], (4, None)),
    ],
    ids=[
        "software",
        "one of a pair",
        "one of two pairs",
        "a pair",
        "one that was down at the snapshot",
        "two groups that hold pairs",
        "everything",
    ],
)
def test_where_a_restart_finds_the_state(
    failures: list[Failure], expected: tuple[int, float | None]
) -> None:
    """Else storage, loaded as storage takes."""
    assert found(filled(STORAGE), *failures) == expected


def test_of_the_same_state_on_two_tiers_the_first_is_loaded() -> None:
    memory = filled(STORAGE)
    memory.slots[1].put(saved(8, 150.0))
    assert found(memory, failure(185.0, 0)) == (8, 10.0)


def test_what_is_older_than_the_checkpoint_is_of_no_use() -> None:
    memory = filled()
    state, _, load_s = memory.recover(saved(12, 300.0), saved(10, 250.0), [])
    assert (state.steps, load_s) == (10, None)


@pytest.mark.parametrize(
    ("before", "first", "after", "second"),
    [
        # Without another tier the last checkpoint is left, and what is lost stays lost.
        ([failure(185.0, 0, "job")], (1, None), [], (1, None)),
        # Replaced nodes hold what they have to: a loss and one of its peer later do not add up.
        ([failure(185.0, 0)], (8, 10.0), [failure(510.0, 4)], (8, 10.0)),
        # What is lost in a load is lost to the next restart.
        ([failure(185.0, 0)], (8, 10.0), [failure(450.0, 0), failure(510.0, 4)], (1, None)),
    ],
    ids=["all", "one of a pair each time", "one in the load"],
)
def test_what_two_restarts_find(
    before: list[Failure], first: object, after: list[Failure], second: object
) -> None:
    """The first began at 400 and reported all there was; the job goes on at 500."""
    memory = filled()
    assert found(memory, *before) == first
    memory.replace_lost_nodes(range(4), 400.0, 500.0)
    assert found(memory, *after) == second


def test_failures_that_a_scheme_masked_count_until_the_next_snapshot() -> None:
    memory = filled()
    memory.strike([failure(185.0, 0)])
    assert found(memory, failure(190.0, 4)) == (1, None)
    memory = filled()
    memory.strike([failure(185.0, 0)])
    memory.slots[0].put(saved(9, 189.0))
    assert found(memory, failure(190.0, 4)) == (9, 10.0)


def test_a_masked_failure_spoils_a_snapshot_under_way() -> None:
    memory = filled(lag_s=8.0)
    memory.strike([failure(187.0, 0, kind="software")])
    assert memory.slots[0].whole is None
    memory = filled(lag_s=8.0)
    memory.strike([failure(188.0, 0, kind="software")])
    assert memory.slots[0].whole == saved(8, 180.0)


def test_survivors_hold_the_state_of_the_last_step() -> None:
    memory = memory_of(tier(policy=None))
    assert memory.slots == []
    assert found(memory, failure(185.0, 0)) == (9, 10.0)
    assert found(memory_of(tier(policy=None)), failure(185.0, 0, "job")) == (1, None)


def test_no_snapshot_is_due_before_the_stated_time() -> None:
    slot = SnapshotSlot(tier(lag_s=5.0))
    assert slot.not_due_before(0, 0.0, 0) == (2, inf)
    slot.put(saved(2, 20.0))
    assert slot.not_due_before(2, 20.0, 0) == (4, inf)


def test_no_snapshot_is_due_before_the_last_one_is_whole() -> None:
    """Worth taking again 10 s after the last one, but only one at a time is taken."""
    policy = FollowingHazard(1.0, 0.0, 1, constant_rate(1 / 50.0), (1.0,))
    worth_s = best_period_s(1.0, 50.0, 0.0) - 1.0
    assert worth_s == pytest.approx(10.0, abs=0.1)
    slot = SnapshotSlot(tier(lag_s=30.0, policy=policy))
    assert slot.not_due_before(0, 0.0, 0) == (inf, pytest.approx(worth_s))
    slot.put(saved(2, 20.0))
    assert slot.not_due_before(2, 20.0, 0) == (inf, 50.0)
    assert not slot.due(4, 49.9, 0)
    assert slot.due(5, 50.0, 0)


@pytest.mark.slow
def test_no_snapshot_is_whole_before_its_copies_are_launched() -> None:
    changes: dict[str, object] = {"protection.name": "reft", "protection.launch_s": 5.0}
    scenario = load_scenario("spare-sound", changes)
    whole = resolve(scenario).protected.snapshot_cost.lag_s
    sooner = resolve(scenario.change({"protection.launch_s": 0.0})).protected
    assert sooner.times.copy_s < 5.0
    assert whole == pytest.approx(5.0 + sooner.snapshot_cost.lag_s - sooner.times.copy_s)
