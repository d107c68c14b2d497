"""How long the parts of a job take, if the scenario states it."""

from __future__ import annotations

from faultline.simulator.job.phases import AllReduce, Compute

from tests.simulator.helpers import Scripted, small_job

TIMER = small_job(Scripted({})).timer
"""Of a job whose shard types take 10 s, an all-reduce 2 s, a checkpoint 5 s and a load 3 s."""


def test_a_stack_takes_its_types_at_the_pace_of_the_scheme() -> None:
    """Three types of 10 s, 1.2 times as long by the scheme, and 1.5 times by validation."""
    phase = Compute((0, 1, 2), stacks=4, stack_size=3, pace=1.2, factor=1.5)
    assert TIMER.stack_s(phase) == 3 * 10.0 * (1.2 * 1.5)


def test_slower_computations_make_longer_stacks() -> None:
    phase = Compute((0, 1), stacks=1, stack_s=10.0, factor=1.5)
    slower = TIMER.slower(phase, 2.0)
    assert (slower.stack_s, slower.factor) == (20.0, 3.0)


def test_stated_phases_take_their_times() -> None:
    assert TIMER.exchange_s(AllReduce((0, 1))) == 2.0
    assert (TIMER.save_s(1), TIMER.load_s((0, 2))) == (5.0, 3.0)
    assert TIMER.network_slowdown(AllReduce((0, 1))) == 1.0
