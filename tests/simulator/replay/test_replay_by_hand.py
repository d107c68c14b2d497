"""Failures at written-down moments, and times derived by hand; simulated by both engines.

By default: 10 s to compute a type, 2 s an all-reduce, 5 s a checkpoint every 2 of
4 steps, 100 s a restart, 3 s a load, 1 s the controller. So the first two steps are done at 24, the
checkpoint at 29, and step 3 computes until 39 and all-reduces until 41.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from faultline.simulator.accounting.progress import Progress
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.job.job import Rules
from faultline.simulator.job.recovery_times import RecoveryPrices
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Strategy
from faultline.strategies.plugins.registry import build_strategy
from faultline.strategies.protection.base import Durable, LoadTimes, Tier
from faultline.strategies.protection.checkpoint_policies import EverySteps, Never

from tests.simulator.helpers import (
    SOUND,
    STUDY,
    Obedient,
    OnEngine,
    Scripted,
    lines,
    log_of,
    small_job,
)

Simulate = Callable[..., tuple[list[str], Progress]]

TWO_STEPS = lines("12 step 1, 24 step 2, 29 checkpoint 2 0")


@pytest.fixture
def simulated(on_engine: OnEngine) -> Simulate:
    """Run a small job with failures after these intervals, by group; all of them must happen.

    It has checkpoints only, unless another scheme is given.
    """

    def by_hand(
        intervals_s: Mapping[int, Sequence[float]],
        strategy: Strategy | None = None,
        rules: Rules = SOUND,
        **changes: Any,
    ) -> tuple[list[str], Progress]:
        strategy = strategy or build_strategy("checkpoint", 3, 1)
        job = small_job(Scripted(intervals_s), rules, groups=strategy.groups, **changes)
        events, progress = on_engine(job, strategy)
        assert progress.events == sum(map(len, intervals_s.values()))
        return log_of(events), progress

    return by_hand


def test_one_failure_costs_a_restart_and_the_work_since_the_checkpoint(simulated: Simulate) -> None:
    """Group 1 fails at 35, while it computes; it is missed at 41.

    Restart until 141, load until 144, steps 3 and 4 until 168, checkpoint until 173.
    """
    log, progress = simulated({1: [35.0]})
    assert log == [
        *TWO_STEPS,
        *lines(
            "41 missing 2 1, 41 wipe-out 2, 141 restarted 2, 144 loaded 2, 156 step 3, "
            "168 step 4, 173 checkpoint 4 0"
        ),
    ]
    assert progress.seconds == {
        "compute": 40,
        "all_reduce": 8,
        "redundancy": 0,
        "patch_compute": 0,
        "degraded": 0,
        "waiting": 0,
        "repeated": 10,
        "detection": 2,
        "reconfigure": 0,
        "checkpoint": 10,
        "restart": 100,
        "load": 3,
    }
    assert (progress.completed_steps, progress.simulated_steps, progress.checkpoints) == (4, 5, 2)
    assert progress.downtime_s == 103


@pytest.mark.parametrize(("fraction", "shows_s"), [(0.0, 39), (0.5, 40), (1.0, 41)])
def test_a_failed_all_reduce_costs_its_fraction(
    fraction: float, shows_s: float, simulated: Simulate
) -> None:
    log, progress = simulated({1: [35.0]}, failed_all_reduce_fraction=fraction)
    assert log[3] == f"{shows_s} missing 2 1"
    assert progress.seconds["detection"] == pytest.approx(2 * fraction)


@pytest.mark.parametrize("failing_s", [35.0, 40.0])
def test_a_watchdog_fires_its_time_out_after_the_all_reduce_began(
    failing_s: float, simulated: Simulate
) -> None:
    """It began at 39 and lasts 2 s; what is missing from its start, or fails in it, shows at 69."""
    log, progress = simulated({1: [failing_s]}, detection="watchdog", watchdog_s=30.0)
    assert log[3:6] == lines("69 missing 2 1, 69 wipe-out 2, 169 restarted 2")
    assert progress.seconds["detection"] == 30


@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_a_failure_in_an_all_reduce_fails_it_at_its_end(
    fraction: float, simulated: Simulate
) -> None:
    """At 40, between 39 and 41; the fraction is for those that lacked a group from the start."""
    log, _ = simulated({1: [40.0]}, failed_all_reduce_fraction=fraction)
    assert log[3] == "41 missing 2 1"


def test_a_failure_in_an_all_reduce_shows_in_the_next_step(simulated: Simulate) -> None:
    """Step 3 is done at 41; step 4 computes until 51 and fails at 53, without a checkpoint."""
    log, _ = simulated({1: [40.0]}, failure_in_all_reduce="next-step")
    assert log[3:6] == lines("41 step 3, 53 missing 3 1, 53 wipe-out 3")
    assert log[7] == "156 loaded 2"


def test_two_failures_of_one_step_show_together(simulated: Simulate) -> None:
    log, progress = simulated({2: [30.0], 0: [38.0]})
    assert log[3] == "41 missing 2 0 2"
    assert progress.restarts == 1


def test_a_failure_in_the_restart_begins_it_anew_and_all_wait(simulated: Simulate) -> None:
    """The restart begins at 41. Group 2 fails at 80 and is up at 180, the others at 141."""
    log, progress = simulated({1: [35.0], 2: [80.0]}, failure_in_restart="begins-anew")
    assert log[3:8] == lines(
        "41 missing 2 1, 41 wipe-out 2, 80 failure-in-restart 2 2, 180 restarted 2, 183 loaded 2"
    )
    assert progress.seconds["restart"] == 139
    assert progress.restarts == 1


def test_a_restart_that_keeps_failing_begins_anew_each_time(simulated: Simulate) -> None:
    """Group 2 at 80, 170 and 250, each within 100 s of the last: up at 350."""
    log, _ = simulated({1: [35.0], 2: [80.0, 90.0, 80.0]}, failure_in_restart="begins-anew")
    assert log[5:9] == lines(
        "80 failure-in-restart 2 2, 170 failure-in-restart 2 2, 250 failure-in-restart 2 2, "
        "350 restarted 2"
    )


def test_a_failure_in_the_restart_is_repaired_within_it(simulated: Simulate) -> None:
    log, progress = simulated({1: [35.0], 2: [80.0]})
    assert log[5:8] == lines("80 failure-in-restart 2 2, 141 restarted 2, 144 loaded 2")
    assert progress.seconds["restart"] == 100


def test_a_failure_while_waiting_surfaces_in_the_first_step(simulated: Simulate) -> None:
    """Group 0 is up at 141, waits for group 2 until 180 and fails at 160, which goes unseen.

    Loaded at 183, computed until 193, missed at 195.
    """
    log, progress = simulated(
        {0: [160.0], 1: [35.0], 2: [80.0]},
        failure_in_restart="begins-anew",
        failure_while_waiting="surfaces",
    )
    assert log[5:10] == lines(
        "80 failure-in-restart 2 2, 180 restarted 2, 183 loaded 2, 195 missing 2 0, 195 wipe-out 2"
    )
    assert progress.restarts == 2


def test_a_failure_while_waiting_is_repaired_within_the_wait(simulated: Simulate) -> None:
    log, progress = simulated(
        {0: [160.0], 1: [35.0], 2: [80.0]},
        failure_in_restart="begins-anew",
        failure_while_waiting="absorbed",
    )
    assert log[5:10] == lines(
        "80 failure-in-restart 2 2, 160 failure-in-restart 2 0, 180 restarted 2, "
        "183 loaded 2, 195 step 3"
    )
    assert progress.restarts == 1


@pytest.mark.parametrize(("clock", "second_s"), [("renewal", 85.0), ("from-detection", 91.0)])
def test_the_next_interval_begins_with_the_failure_or_with_its_notice(
    clock: Any, second_s: float, simulated: Simulate
) -> None:
    """Group 1 fails at 35, which is noticed at 41; its next interval is 50 s."""
    log, progress = simulated({1: [35.0, 50.0]}, clock=clock)
    assert log[5] == f"{second_s:g} failure-in-restart 2 1"
    assert progress.hits_while_down == 0


def test_a_writer_that_fails_in_its_write_is_replaced_at_once(simulated: Simulate) -> None:
    """Group 0 writes from 24 and fails at 26; group 1 writes until 31. Step 3 shows it at 43."""
    log, _ = simulated({0: [26.0]})
    assert log[2:5] == lines("26 checkpoint-skipped 2 0, 31 checkpoint 2 1, 43 missing 2 0")


def test_a_writer_that_fails_in_its_write_has_written_in_the_study(simulated: Simulate) -> None:
    log, _ = simulated({0: [26.0]}, failed_writer="skips")
    assert log[2:4] == lines("29 checkpoint 2 0, 41 missing 2 0")


def replication(**options: Any) -> Strategy:
    from faultline.strategies.schemes.replication import Replication

    return Replication(4, 2, Replication.Options(**options), JobShape())


def test_only_the_writer_is_held_up_where_the_others_do_not_wait(simulated: Simulate) -> None:
    """A step computes 2 types as one batch of 20 s. Step 1 is done at 22, and 0 writes until 27.

    Step 2: 0 computes until 47, the others until 42; all-reduced at 49, and 0 writes until 54.
    Step 3: until 74, all-reduced at 76; all wait for the last checkpoint, until 81.
    """
    log, progress = simulated(
        {}, replication(checkpoint_waits=False), steps=3, policy=EverySteps(1)
    )
    assert log == lines(
        "22 step 1, 22 checkpoint 1 0, 49 step 2, 49 checkpoint 2 0, 76 step 3, 81 checkpoint 3 0"
    )
    assert progress.seconds["checkpoint"] == 5
    assert progress.seconds["compute"] == progress.seconds["redundancy"] == 3 * 10
    assert progress.seconds["waiting"] == 2 * 5


def test_a_writer_that_fails_when_the_others_are_done_is_waited_for_until_then(
    simulated: Simulate,
) -> None:
    """Group 0 wrote until 27 and would compute until 47; the others are done at 42; 0 fails at 45.

    Missed at 47, dropped at 48, all-reduced again at 50: it is missed once and never again. Group 1
    writes until 55 and computes until 75; step 3 at 77, the last checkpoint at 82.
    """
    log, progress = simulated(
        {0: [45.0]}, replication(checkpoint_waits=False), steps=3, policy=EverySteps(1)
    )
    assert log[2:] == lines(
        "47 missing 1 0, 50 step 2, 50 checkpoint 2 1, 77 step 3, 82 checkpoint 3 1"
    )
    assert progress.restarts == 0


@pytest.mark.parametrize("failed_writer", ["skips", "replaced"])
def test_no_group_waits_to_see_whether_a_writer_gets_through(
    failed_writer: Any, simulated: Simulate
) -> None:
    """Group 0 fails at 24, in its write from 22; the others go on, and miss it in step 2, at 44."""
    log, _ = simulated(
        {0: [24.0]},
        replication(checkpoint_waits=False),
        failed_writer=failed_writer,
        steps=2,
        policy=EverySteps(1),
    )
    assert log[:3] == lines("22 step 1, 22 checkpoint 1 0, 44 missing 1 0")


def test_the_study_s_controller_sees_one_failure_a_step(simulated: Simulate) -> None:
    """Groups 0 and 2 fail at 5. Missed at 20 + 1 together; 0 is dropped, the step commits at 22.

    In the next step 2 is still missing: 22 + 20 + 1, committed at 44. The next is done at 66.
    """
    log, progress = simulated(
        {0: [5.0], 2: [5.0]}, replication(controller_sees="lowest"), STUDY, steps=3
    )
    assert log[:5] == lines(
        "21 missing 0 0 2, 22 step 1, 43 missing 1 2, 44 step 2, 49 checkpoint 2 1"
    )
    assert log[5] == "71 step 3"
    assert progress.restarts == 0


def spare() -> Strategy:
    return build_strategy("spare", 4, 2)


def test_a_lost_type_is_computed_by_the_group_that_hosts_it_too(simulated: Simulate) -> None:
    """Group w hosts the types w and w + 1. Group 1 fails at 5 and is missed at 12.

    Three groups cannot hold four types with one each, so S grows to 2: controller until 13, every
    survivor computes its second type until 23, all-reduce until 25. Step 2 takes 20 + 2.
    """
    log, progress = simulated({1: [5.0]}, spare(), steps=2)
    assert log == lines(
        "12 missing 0 1, 13 reordered 0 0 2 3, 25 step 1, 47 step 2, 52 checkpoint 2 0"
    )
    assert progress.stack_computations == 2 + 2
    assert (progress.reorderings, progress.seconds["patch_compute"]) == (1, 10)


def test_a_failure_in_patch_compute_fails_the_retried_all_reduce(simulated: Simulate) -> None:
    """As above, and group 3 fails at 15, in its patch compute: missed at 25.

    Its type 3 is the second of group 2, which has just computed it: nothing is lost, the controller
    drops group 3 until 26, and the all-reduce is repeated until 28.
    """
    log, progress = simulated({1: [5.0], 3: [15.0]}, spare(), steps=1)
    assert log == lines(
        "12 missing 0 1, 13 reordered 0 0 2 3, 25 missing 0 3, 28 step 1, 33 checkpoint 1 0"
    )
    assert progress.seconds["detection"] == 4


def test_a_type_without_hosts_is_a_wipe_out(simulated: Simulate) -> None:
    """Groups 1 and 2 are the hosts of type 2."""
    log, progress = simulated({1: [5.0], 2: [15.0]}, spare(), steps=1)
    assert log[2:4] == lines("25 missing 0 2, 25 wipe-out 0")
    assert log[-2:] == lines("140 step 1, 145 checkpoint 1 0")
    assert progress.restarts == 1


def test_a_phase_ends_with_the_failure_of_the_last_that_computes(simulated: Simulate) -> None:
    """Only group 0 has to patch, from 13 to 23, and fails at 18: its peers detect it at 20.

    The all-reduce must not be over before the failure that breaks it.
    """
    log, _ = simulated({1: [5.0], 0: [18.0]}, Obedient(3, [{0: 1}, {}]), steps=1)
    assert log == lines(
        "12 missing 0 1, 13 reordered 0 0, 20 missing 0 0, 23 step 1, 28 checkpoint 1 2"
    )


def test_failures_of_groups_that_are_dropped_count_but_change_nothing(simulated: Simulate) -> None:
    """Group 1 fails at 5 and is dropped; its failure at 15 strikes what is down.

    Step 1 is done at 12 + 1 + 2; group 2 fails at 20, in step 2, and is missed at 27.
    """
    log, progress = simulated({1: [5.0, 10.0], 2: [20.0]}, Obedient(3, [{}, None]), steps=2)
    assert log[:4] == lines("12 missing 0 1, 15 step 1, 27 missing 1 2, 27 wipe-out 1")
    assert progress.hits_while_down == 1
    assert (progress.restarts, progress.reorderings) == (1, 0)
    assert progress.seconds["reconfigure"] == 1


def test_a_failure_in_a_load_breaks_it_and_those_left_load_anew(simulated: Simulate) -> None:
    """Group 2 fails at 142.5, while all load from 141 to 144: the others load until 147.

    They miss it in step 3 at 159, and restart until 259.
    """
    log, progress = simulated({1: [35.0], 2: [142.5]})
    assert log[5:10] == lines(
        "141 restarted 2, 147 loaded 2, 159 missing 2 2, 159 wipe-out 2, 259 restarted 2"
    )
    assert progress.seconds["load"] == 9


def test_each_failure_in_a_load_costs_another(simulated: Simulate) -> None:
    log, _ = simulated({0: [35.0], 1: [142.0], 2: [145.0]}, Obedient(3, [None, {}]))
    assert log[5:8] == lines("141 restarted 2, 150 loaded 2, 162 missing 2 1 2")


def test_no_group_is_left_to_load(simulated: Simulate) -> None:
    """All three fail from 142 to 143.5; none computes, and the next all-reduce lacks them all."""
    log, _ = simulated({0: [35.0, 108.0], 1: [142.0], 2: [143.5]})
    assert log[5:8] == lines("141 restarted 2, 144 loaded 2, 146 missing 2 0 1 2")


def rejoining(**changes: Any) -> dict[str, Any]:
    stated = RecoveryPrices(stated_s={"shrink": 1.0, "rejoin": 7.0})
    return {"rejoin": "at-checkpoint", "recovery": stated, **changes}


def test_a_dropped_group_comes_back_at_the_first_checkpoint_after_its_repair(
    simulated: Simulate,
) -> None:
    """Group 1 fails at 5, is missed at 12 and dropped at 13: it may return from 43 on.

    Steps 1 to 4 at 15, 27, 44, 56 with checkpoints in between; group 1 joins from 61 to 68.
    """
    log, progress = simulated({1: [5.0]}, Obedient(3, [{}]), steps=6, repair_s=30.0, **rejoining())
    assert log == lines(
        "12 missing 0 1, 15 step 1, 27 step 2, 32 checkpoint 2 0, 44 step 3, 56 step 4, "
        "61 checkpoint 4 0, 68 rejoined 4 1, 80 step 5, 92 step 6, 97 checkpoint 6 0"
    )
    assert progress.rejoined == 1
    assert progress.seconds["load"] == 7


def test_groups_come_back_at_snapshots_that_no_group_waits_for(simulated: Simulate) -> None:
    """As above, with checkpoints in the background: groups join at 51, after step 4."""
    in_background = Tier("storage", EverySteps(2), 0.0, 9.0, Durable(), LoadTimes(1.0, 1.0))
    log, progress = simulated(
        {1: [5.0]},
        Obedient(3, [{}]),
        steps=6,
        repair_s=30.0,
        policy=Never(),
        tiers=(in_background,),
        layout=JobLayout(3, 1, 1, 1, 1),
        **rejoining(),
    )
    assert log == lines(
        "12 missing 0 1, 15 step 1, 27 step 2, 39 step 3, 51 step 4, 58 rejoined 4 1, "
        "70 step 5, 82 step 6, 87 checkpoint 6 0"
    )
    assert (progress.rejoined, progress.snapshots) == (1, 3)


def test_a_spare_takes_the_place_at_the_next_checkpoint(simulated: Simulate) -> None:
    log, progress = simulated(
        {1: [5.0]}, Obedient(3, [{}]), repair_s=1e6, spare_groups=1, **rejoining()
    )
    assert log[3:5] == lines("32 checkpoint 2 0, 39 rejoined 2 1")
    assert progress.rejoined == 1


def test_one_spare_takes_one_place(simulated: Simulate) -> None:
    """Groups 0 and 1 fail; there is one spare, and repairs take too long.

    The second verdict is for the group that stays down when the other returns.
    """
    log, _ = simulated(
        {0: [4.0], 1: [5.0]}, Obedient(3, [{}, {}]), repair_s=1e6, spare_groups=1, **rejoining()
    )
    assert [event for event in log if " rejoined " in event] == ["39 rejoined 2 0"]


def test_a_group_that_is_back_may_fail_again(simulated: Simulate) -> None:
    """Group 1 is back at 39 and fails at 45, while it computes step 3: missed at 51."""
    log, progress = simulated(
        {1: [5.0, 10.0, 30.0]}, Obedient(3, [{}, {}]), spare_groups=1, repair_s=1e6, **rejoining()
    )
    assert log[4:7] == lines("39 rejoined 2 1, 51 missing 2 1, 54 step 3")
    assert progress.hits_while_down == 1


def test_a_group_that_fails_while_it_comes_back_is_missed_in_the_next_step(
    simulated: Simulate,
) -> None:
    log, _ = simulated(
        {1: [5.0, 30.0]}, Obedient(3, [{}, {}]), spare_groups=1, repair_s=1e6, **rejoining()
    )
    assert log[4:6] == lines("39 rejoined 2 1, 51 missing 2 1")
