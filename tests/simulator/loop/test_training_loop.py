"""The training loop, simulated by an engine that follows a script: whole event logs, by hand.

In all of them a type takes 10 s to compute, an all-reduce 2 s, a checkpoint 5 s, a restart 100 s, a
load 3 s and the controller 1 s, so a step without failures takes 12 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
from faultline.simulator.accounting.progress import Progress
from faultline.simulator.accounting.timeline import Event, EventKind
from faultline.simulator.failures.failure import UNSTATED_CAUSE, Failure
from faultline.simulator.job.phases import (
    AllReduce,
    Compute,
    Load,
    Outcome,
    Phase,
    QuietSteps,
    Reconfigure,
    Restart,
    Save,
)
from faultline.simulator.loop.run import simulate
from faultline.simulator.loop.training import Training
from faultline.strategies.interface.scheme import Strategy
from faultline.strategies.plugins.registry import build_strategy
from hypothesis import given
from hypothesis import strategies as st

from tests.simulator.helpers import Obedient, Scripted, lines, log_of, small_job

Missing = Sequence[int]


class ScriptedEngine:
    """Ends the n-th all-reduce (and the n-th save) with the n-th entry of a list.

    An entry names the members that are missing; after the last entry no group is missing any more.
    No step is quiet.
    """

    def __init__(self, all_reduces: Sequence[Missing] = (), saves: Sequence[Missing] = ()) -> None:
        self.clocks: Any = SimpleNamespace(
            events=0, hits=0, hits_while_down=0, events_by_cause={}, next_failure_s=[inf] * 64
        )
        self.phases: list[Phase] = []
        self.now_s = 0.0
        self._scripts = {AllReduce: list(all_reduces), Save: list(saves)}

    def execute(self, phase: Phase) -> Outcome:
        self.phases.append(phase)
        script = self._scripts.get(type(phase), [])
        missing = script.pop(0) if script else ()
        self.now_s += self._time_s(phase, missing)
        return Outcome(self.now_s, {group: self._failure_of(group) for group in missing})

    def _failure_of(self, group: int) -> Failure:
        groups = range(group, group + 1)
        return Failure(self.now_s, "group", group, UNSTATED_CAUSE, "hardware", None, groups)

    @staticmethod
    def _time_s(phase: Phase, missing: Missing) -> float:
        if isinstance(phase, Compute):
            stacks = max(phase.patch.values()) if phase.patch else phase.stacks
            return 10.0 * stacks * phase.stack_size
        if isinstance(phase, Save):
            return 0.0 if missing or not phase.waits else 5.0
        times_s = {AllReduce: 2.0, QuietSteps: 0.0, Reconfigure: 1.0, Restart: 100.0, Load: 3.0}
        return times_s[type(phase)]


def log_and_progress(
    strategy: Strategy, engine: ScriptedEngine, **changes: Any
) -> tuple[list[Event], Progress]:
    job = small_job(Scripted({}), groups=strategy.groups, **changes)
    events: list[Event] = []
    training = Training(job, strategy, events.append)
    simulate(training, engine)
    progress = training.progress
    assert sum(progress.seconds.values()) == pytest.approx(progress.now_s)
    assert progress.now_s == engine.now_s
    return events, progress


@pytest.mark.parametrize(
    ("resume", "log_after_loading"),
    [
        ("after", lines("144 loaded 2, 156 step 3, 168 step 4, 173 checkpoint 4 0")),
        (
            "redo",
            lines(
                "144 loaded 1, 156 step 2, 161 checkpoint 2 0, "
                "173 step 3, 185 step 4, 190 checkpoint 4 0"
            ),
        ),
    ],
)
def test_a_restarted_job_goes_on_after_its_checkpoint_or_redoes_that_step(
    resume: Any, log_after_loading: list[str]
) -> None:
    """The third step is lost at 29 + 10 + 2 = 41; restart and load end at 144."""
    engine = ScriptedEngine([(), (), (1,)])
    events, progress = log_and_progress(Obedient(3, [None]), engine, resume=resume)
    assert engine.phases[7:9] == [Restart(3), Load((0, 1, 2))]
    assert log_of(events)[3:6] == lines("41 missing 2 1, 41 wipe-out 2, 141 restarted 2")
    assert log_of(events)[6:] == log_after_loading
    assert progress.restarts == 1
    assert progress.downtime_s == 103


@pytest.mark.parametrize("resume", ["after", "redo"])
def test_a_job_that_fails_before_its_first_checkpoint_begins_at_step_0(resume: Any) -> None:
    engine = ScriptedEngine([(), (0,)])
    events, progress = log_and_progress(Obedient(3, [None]), engine, resume=resume, steps=2)
    assert log_of(events) == lines(
        "12 step 1, 24 missing 1 0, 24 wipe-out 1, 124 restarted 1, 127 loaded 0, "
        "139 step 1, 151 step 2, 156 checkpoint 2 0"
    )
    assert progress.simulated_steps == 4


@pytest.mark.parametrize("fixed_step", ["commits", "retries"])
def test_patch_compute_is_always_followed_by_an_all_reduce(fixed_step: Any) -> None:
    """12 until the failure shows, 1 for the controller, 2 types of 10 s, 2 for the all-reduce."""
    engine = ScriptedEngine([(2,)])
    events, progress = log_and_progress(
        Obedient(3, [{0: 1, 1: 2}]), engine, fixed_step=fixed_step, steps=1
    )
    assert log_of(events) == lines(
        "12 missing 0 2, 13 reordered 0 0 1, 35 step 1, 40 checkpoint 1 0"
    )
    assert engine.phases[3] == Compute((0, 1), 0, 1, {0: 1, 1: 2}, 10.0)
    assert progress.seconds["patch_compute"] == 20
    assert progress.stack_computations == 3
    assert progress.reorderings == 1


def test_a_second_failure_in_the_retried_all_reduce_is_patched_again() -> None:
    engine = ScriptedEngine([(3,), (1,)])
    events, progress = log_and_progress(Obedient(4, [{0: 1}, {2: 1}]), engine, steps=1)
    assert log_of(events) == lines(
        "12 missing 0 3, 13 reordered 0 0, 25 missing 0 1, 26 reordered 0 2, 38 step 1, "
        "43 checkpoint 1 0"
    )
    assert engine.phases[-2] == AllReduce((0, 2))
    assert progress.seconds["detection"] == 4
    assert progress.simulated_steps == 1


def test_the_checkpoint_of_a_writer_that_is_down_is_left_out() -> None:
    """So that the wipe-out in step 3 takes the job back to the start."""
    engine = ScriptedEngine([(), (), (1,)], saves=[(0,)])
    events, progress = log_and_progress(Obedient(3, [None]), engine, failed_writer="skips", steps=3)
    assert log_of(events)[:4] == lines(
        "12 step 1, 24 step 2, 24 checkpoint-skipped 2 0, 36 missing 2 1"
    )
    assert log_of(events)[6] == "139 loaded 0"
    assert progress.simulated_steps == 6


def test_the_checkpoint_of_a_writer_that_is_down_is_written_by_the_next() -> None:
    engine = ScriptedEngine([(), (), (2,)], saves=[(0,), (1,)])
    events, progress = log_and_progress(Obedient(3, [None]), engine, steps=3)
    assert log_of(events)[2:6] == lines(
        "24 checkpoint-skipped 2 0, 24 checkpoint-skipped 2 1, 29 checkpoint 2 2, 41 missing 2 2"
    )
    assert log_of(events)[8] == "144 loaded 2"
    assert progress.simulated_steps == 4


def test_the_last_checkpoint_is_never_left_out_and_every_group_waits_for_it() -> None:
    engine = ScriptedEngine(saves=[(), (0,)])
    strategy = Obedient(3, [], checkpoint_waits=False)
    events, _ = log_and_progress(strategy, engine, failed_writer="skips", steps=3)
    assert log_of(events) == lines(
        "12 step 1, 24 step 2, 24 checkpoint 2 0, 36 step 3, 36 checkpoint-skipped 3 0, "
        "41 checkpoint 3 1"
    )


def test_a_job_is_not_done_before_its_last_checkpoint_is_written() -> None:
    """All three writers are down: restart until 112 + 3, and the step once more, until 127."""
    engine = ScriptedEngine(saves=[(0,), (1,), (2,)])
    events, progress = log_and_progress(Obedient(3, []), engine, steps=1)
    assert log_of(events) == lines(
        "12 step 1, 12 checkpoint-skipped 1 0, 12 checkpoint-skipped 1 1, "
        "12 checkpoint-skipped 1 2, 12 wipe-out 1, 112 restarted 1, 115 loaded 0, "
        "127 step 1, 132 checkpoint 1 0"
    )
    assert (progress.restarts, progress.completed_steps) == (1, 1)


def test_a_job_without_a_new_checkpoint_gives_up_after_so_many_restarts() -> None:
    engine = ScriptedEngine([(0,), (1,), (2,), (0,)])
    strategy = Obedient(3, [None] * 4)
    _, progress = log_and_progress(strategy, engine, steps=1, give_up_after_restarts=3)
    assert (progress.restarts, progress.completed_steps) == (3, 0)


def test_a_job_gives_up_at_the_first_step_after_its_time_limit() -> None:
    events, progress = log_and_progress(Obedient(3, []), ScriptedEngine(), time_limit_s=40.0)
    assert log_of(events)[-1] == "41 step 3"
    assert progress.completed_steps == 3
    _, progress = log_and_progress(Obedient(3, []), ScriptedEngine(), time_limit_s=29.0)
    assert progress.completed_steps == 2


@pytest.mark.parametrize(
    ("limits", "repairs"), [({"time_limit_s": 40.0}, 3), ({"give_up_after_restarts": 5}, 5)]
)
def test_a_job_gives_up_in_a_step_that_each_recovery_loses_again(
    limits: dict[str, Any], repairs: int
) -> None:
    """After a step of 12 s another member is missing at the end of each recovery, 13 s later."""
    engine = ScriptedEngine([(group,) for group in range(20)])
    events, progress = log_and_progress(Obedient(21, [{20: 1}] * 20), engine, steps=1, **limits)
    assert [event.kind for event in events].count(EventKind.REORDERED) == repairs
    assert (progress.restarts, progress.completed_steps) == (0, 0)


def test_every_checkpoint_is_reported_as_progress_on_request() -> None:
    job = small_job(Scripted({}))
    reported: list[tuple[int, float]] = []
    training = Training(job, Obedient(3, []), None, lambda *now: reported.append(now))
    simulate(training, ScriptedEngine())
    assert reported == [(2, 29.0), (4, 58.0)]


@pytest.mark.parametrize("rule", ["sound", "study"])
@given(data=st.data())
def test_whatever_fails_time_is_accounted_for_and_the_job_is_done(
    rule: str, data: st.DataObject
) -> None:
    """Up to six all-reduces lack a group; then all goes well, and the job comes to its end.

    The seconds by phase add up to the time, no event is earlier than the one before it, and steps
    count up by one but for the leaps back that restarts make.
    """
    name = data.draw(st.sampled_from(["checkpoint", "replication", "spare"]))
    groups = data.draw(st.integers(7, 14))
    strategy = build_strategy(name, groups, 1 if name == "checkpoint" else 3)
    failing = data.draw(st.lists(st.booleans(), max_size=6))
    rules = {}
    if rule == "study":
        rules = {"fixed_step": "commits", "resume": "redo", "failed_writer": "skips"}

    class Capricious(ScriptedEngine):
        def execute(self, phase: Phase) -> Outcome:
            if isinstance(phase, AllReduce) and failing and failing.pop():
                missing = data.draw(st.sets(st.sampled_from(phase.members), min_size=1))
                self._scripts[AllReduce] = [sorted(missing)]
            return super().execute(phase)

    events, progress = log_and_progress(strategy, Capricious(), steps=7, **rules)
    assert progress.completed_steps == 7
    times = [event.time_s for event in events]
    assert times == sorted(times)
    done = 0
    for event in events:
        if event.kind is EventKind.STEP:
            assert event.step == done + 1
        if event.kind is EventKind.LOADED:
            assert event.step <= done
        done = event.step
    assert progress.restarts == sum(event.kind is EventKind.WIPE_OUT for event in events)
    assert progress.simulated_steps == 7 + sum(
        before.step - after.step + 1
        for before, after in pairwise(events)
        if after.kind is EventKind.LOADED
    )
