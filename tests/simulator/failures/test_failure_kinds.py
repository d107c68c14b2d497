"""Each kind of failure in its simplest case, its time derived by hand; simulated by both engines.

As in `helpers.small_job`: 10 s to compute a type, 2 s an all-reduce, 5 s a checkpoint every 2
steps, 100 s a restart, 3 s a load. Undisturbed, 4 steps end at 12, 24, 41 and 53, checkpoints at 29
and 58.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import pytest
from faultline.simulator.accounting.progress import Progress
from faultline.simulator.failures.failure import Failure, JobLayout, Kind, Level
from faultline.simulator.failures.reactions import Reactions, SlowResponse
from faultline.simulator.failures.trace import Trace
from faultline.simulator.job.durations import ConstantTime
from faultline.simulator.job.effects import Effects
from faultline.simulator.job.job import Job
from faultline.strategies.plugins.registry import build_strategy
from faultline.strategies.protection.base import Durable, LoadTimes, Tier
from faultline.strategies.protection.checkpoint_policies import EverySteps, Never
from faultline.strategies.schemes.replica_drop import ReplicaDropOptions
from faultline.strategies.theory.stragglers import Remedy, StragglerPolicy
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.simulator.helpers import Obedient, OnEngine, Scripted, replayed, small_job

UNDISTURBED_S = 58.0
ON_STORAGE = Tier("storage", EverySteps(2), 1.0, 4.0, Durable(), LoadTimes(0.0, 0.0))
Simulating = Callable[..., Progress]


def happening(
    kind: Kind,
    time_s: float,
    lasts_s: float = 0.0,
    factor: float = 1.0,
    level: Level = "gpu",
    groups: range = range(1),
) -> Failure:
    return Failure(time_s, level, 0, "tested", kind, None, groups, lasts_s, factor)


@dataclass(frozen=True)
class Listed(Trace):
    """A trace that keeps what its columns cannot hold: which repairs miss the culprit."""

    listed: tuple[Failure, ...] = ()

    def batches(self, seed: int) -> Iterator[Sequence[Failure]]:
        yield self.listed


def job_under(
    failures: list[Failure], reactions: Reactions | None = None, groups: int = 3, **changes: Any
) -> Job:
    """Return a small job that has failures, as reactions make them."""
    reactions = reactions or Reactions()
    stops = [one for each in failures if (one := reactions.stop(each))]
    others = tuple(one for each in failures if (one := reactions.condition(each)))
    effects = Effects(ConstantTime(2.0), JobLayout(groups, 1, 1, 1, 1), stages=2)
    changes |= {"begin": partial(iter, others), "effects": effects}
    job = small_job(Scripted({}), groups=groups, reactions=reactions, **changes)
    return replace(job, failures=Trace(sorted(stops, key=lambda one: one.time_s), groups, 1e6))


@pytest.fixture
def simulated(on_engine: OnEngine) -> Simulating:
    return lambda job, strategy=None: on_engine(
        job, strategy or build_strategy("checkpoint", 3, 1)
    )[1]


def case(
    failures: list[Failure], comes: Any, lost_s: dict[str, float] | None = None, **changes: Any
) -> tuple[list[Failure], Any, dict[str, float], dict[str, Any]]:
    """Return failures, what comes of them, what is lost under which causes, and what is changed."""
    return failures, comes, lost_s or {}, changes


# What comes of them is the time of the job.
BY_HAND = {
    # From 5 to 25: step 2 begins within and computes 15 s; step 3 begins later.
    "a slow GPU": case([happening("slow", 5.0, 20.0, 1.5)], UNDISTURBED_S + 5, {"degraded": 5}),
    # Members wait for the slowest, whatever else is slow.
    "two slow GPUs": case(
        [happening("slow", 5.0, 20.0, 1.5), happening("slow", 6.0, 1e3, 1.2, groups=range(1, 2))],
        UNDISTURBED_S + 5 + 2 + 2,
        {"degraded": 9},
    ),
    # The same, of the all-reduce only.
    "a slow adapter": case(
        [happening("slow", 5.0, 20.0, 1.5, "adapter")], UNDISTURBED_S + 1, {"degraded": 1}
    ),
    "a part of the network": case(
        [happening("partial", 5.0, 20.0, 1.25, "switch")], UNDISTURBED_S + 0.5, {"degraded": 0.5}
    ),
    # Found and stopped at 5 + 9 = 14: the others compute step 2 until 22, and miss it at 24.
    "a slow GPU that is evicted": case(
        [happening("slow", 5.0, 1e4, 1.5)],
        24 + 103 + UNDISTURBED_S,
        {"repeated": 12 + 10, "detection": 2, "restart": 100, "load": 3},
        reactions=Reactions(9.0),
    ),
    "over before it is found": case(
        [happening("slow", 5.0, 8.0, 1.5)],
        UNDISTURBED_S + 5,
        {"degraded": 5},
        reactions=Reactions(9.0),
    ),
    "a flap within the retries": case(
        [happening("flap", 5.0, 7.0, level="adapter")], UNDISTURBED_S + 7, {"degraded": 7}
    ),
    # Retries until 42; the group is down since 35, so step 2 is lost at 54.
    "a flap beyond them": case(
        [happening("flap", 5.0, 70.0, level="adapter")],
        54 + 103 + UNDISTURBED_S,
        {"detection": 30 + 2, "repeated": 12 + 10, "restart": 100, "load": 3},
    ),
    # Step 2 computes until 22 and hangs until 622; restart and load until 725.
    "a hang": case(
        [happening("hang", 5.0)],
        725 + UNDISTURBED_S,
        {"detection": 600, "repeated": 12 + 10, "restart": 100, "load": 3},
    ),
    "a hang that is aborted": case(
        [happening("hang", 5.0, 60.0)],
        UNDISTURBED_S + 10 + 60,
        {"detection": 60, "repeated": 10},
        reactions=Reactions(hang="abort"),
    ),
    # Of 8 steps, the 3rd ends at 41, after the onset; found at 70, where the 5th ends. The state of
    # step 4, saved at 58, is bad: from 173 on steps 3 to 8 with checkpoints at 4, 6 and 8.
    "corruption": case(
        [happening("corrupt", 30.0, 40.0)],
        173 + 6 * 12 + 3 * 5,
        {"repeated": 36, "restart": 100, "load": 3, "checkpoint": 5 * 5},
        steps=8,
    ),
    # Found at 41, and gone with the restart: nothing is saved between.
    "corruption that is found soon": case(
        [happening("corrupt", 30.0, 5.0)],
        41 + 103 + 2 * 12 + 5,
        {"repeated": 12, "restart": 100, "load": 3},
    ),
    # A failure at 45 restarts to step 4's state of 58? There is none: to step 2's of 29, older than
    # the onset, and so the corruption is never found.
    "corruption that a restart undoes": case(
        [happening("corrupt", 30.0, 40.0), happening("hardware", 45.0)],
        53 + 103 + 6 * 12 + 3 * 5,
        {"repeated": 12 + 10, "detection": 2, "restart": 100, "load": 3},
        steps=8,
    ),
    # Notice until 25: at 29 there is a checkpoint, one more is written, and the job restarts.
    "planned work": case(
        [happening("planned", 5.0, 20.0, level="host")],
        29 + 5 + 103 + 2 * 12 + 5,
        {"checkpoint": 15, "restart": 100, "load": 3},
    ),
    # Notice until 25: step 2 and its checkpoint are done at 29.
    "planned work on a machine that another takes over from": case(
        [happening("planned", 5.0, 20.0, level="host")],
        UNDISTURBED_S + 15,
        {"reconfigure": 15},
        reactions=Reactions(planned="migrate", migrate_s=15.0),
    ),
    # A failure at 13 restarts the job at 24, and the work is done by the way.
    "planned work that waits": case(
        [happening("planned", 5.0, 1.0, level="host"), happening("hardware", 13.0)],
        24 + 103 + UNDISTURBED_S,
        {"repeated": 12 + 10, "detection": 2, "restart": 100, "load": 3},
        reactions=Reactions(planned="wait", planned_limit_s=1e4),
    ),
    # From 20 to 40: nothing is saved at 24; step 3 ends at 36, and 4 at 48.
    "no storage to save to": case(
        [happening("storage", 20.0, 20.0, level="job")], UNDISTURBED_S - 5
    ),
    # From 20 to 26: back at the end of step 3, at 36, where step 2's checkpoint is made up for.
    "storage is back": case([happening("storage", 20.0, 6.0, level="job")], UNDISTURBED_S),
    # Snapshots on storage stall 1 s: none at 24, one at 48, and the last checkpoint.
    "no storage for snapshots": case(
        [happening("storage", 20.0, 27.0, level="job")],
        48 + 1 + 5,
        policy=Never(),
        tiers=(ON_STORAGE,),
    ),
    # Restarted at 124 from a failure at 13, there is nothing to load before 500.
    "no storage to load from": case(
        [happening("storage", 10.0, 490.0, level="job"), happening("hardware", 13.0)],
        503 + UNDISTURBED_S,
        {"repeated": 22, "detection": 2, "restart": 100, "load": 376 + 3},
    ),
    "validation": case(
        [], UNDISTURBED_S + 4, {"redundancy": 4}, reactions=Reactions(validation_share=0.1)
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_the_simplest_case_of_each_kind(name: str, simulated: Simulating) -> None:
    failures, time_s, lost_s, changes = BY_HAND[name]
    progress = simulated(job_under(failures, **changes))
    assert progress.now_s == pytest.approx(time_s, rel=1e-9)
    steps = changes.get("steps", 4)
    expected = {"compute": 10.0 * steps, "all_reduce": 2.0 * steps, "checkpoint": 2.5 * steps}
    if "storage" in {failure.kind for failure in failures} and "load" not in lost_s:
        expected["checkpoint"] = time_s - 48.0
    spent = {cause: seconds for cause, seconds in progress.seconds.items() if seconds > 1e-9}
    assert spent == pytest.approx({**expected, **lost_s})


def response(waits: bool, *remedies: Remedy) -> SlowResponse:
    """Groups have 4 micro-batches of 2.5 s; what is slow is found after 3 s."""
    return SlowResponse(StragglerPolicy(remedies, 3.0, waits), 4, 0.0, 2.0)


TWO_HOSTS = JobLayout(3, 16, 8, 8, 16)
"""Groups of two hosts each."""

SLOW = happening("slow", 5.0, 1e6, 2.0)
ALSO_SLOW = happening("slow", 6.0, 1e6, 2.0, groups=range(1, 2))
SLOW_LINK = happening("slow", 5.0, 1e6, 6.0, "adapter")

# All begin at 5 or 6; step 2 begins at 12, and so does what is done about it: what comes of them.
MITIGATED = {
    # Group 0 has 2 of 12 micro-batches, in 10 s; the others 5, in 12.5 s.
    "dealt anew": case(
        [SLOW],
        "redeal",
        {"degraded": 3 * 2.5, "reconfigure": 1},
        slow_response=response(False, Remedy("redeal", 1.0)),
    ),
    # The second is found a step later: 2, 2 and 8 in 20 s are as good as 3, 3 and 6, in 15 s? No.
    "both are dealt for": case(
        [SLOW, ALSO_SLOW],
        "redeal",
        {"degraded": 3 * 5, "reconfigure": 1},
        slow_response=response(False, Remedy("redeal", 1.0)),
    ),
    # 12 times as slow: the others have six each, in 15 s.
    "one that is too slow has none": case(
        [SLOW._replace(factor=12.0)],
        "redeal",
        {"degraded": 3 * 5, "reconfigure": 1},
        slow_response=response(False, Remedy("redeal", 1.0)),
    ),
    # Well again at 30, where step 3 begins at 25.5: dealt as before from step 4 on.
    "undone": case(
        [SLOW._replace(lasts_s=25.0)],
        "redeal",
        {"degraded": 2 * 2.5, "reconfigure": 1},
        slow_response=response(False, Remedy("redeal", 1.0)),
        policy=Never(),
    ),
    # One group has both slow nodes, and 2 of 12 micro-batches.
    "put together": case(
        [SLOW, ALSO_SLOW],
        "redeal swap",
        {"degraded": 3 * 2.5, "reconfigure": 8},
        slow_response=response(False, Remedy("redeal", 1.0), Remedy("swap", 7.0)),
        layout=TWO_HOSTS,
    ),
    "a link between stages": case(
        [SLOW_LINK],
        "swap",
        {"reconfigure": 7},
        slow_response=response(False, Remedy("redeal", 1.0), Remedy("swap", 7.0)),
    ),
    # A checkpoint more, and a restart, whose state is that of the first step.
    "left behind": case(
        [SLOW],
        "restart",
        {"checkpoint": 5, "restart": 100, "load": 3},
        slow_response=response(False, Remedy("restart", 108.0)),
    ),
    # 10 s are lost in step 2, as much as dealing costs; then 2.5 s a step: 20 s after four more.
    "one after the other": case(
        [SLOW],
        "redeal restart",
        {"degraded": 10 + 4 * 2.5, "reconfigure": 10, "checkpoint": 5, "restart": 100, "load": 3},
        slow_response=response(True, Remedy("redeal", 10.0), Remedy("restart", 20.0)),
        steps=8,
        policy=Never(),
    ),
    # Dealing does not help a link: 10 s a step.
    "what does not help is left out": case(
        [SLOW_LINK],
        "swap",
        {"degraded": 20, "reconfigure": 15},
        slow_response=response(True, Remedy("redeal", 1.0), Remedy("swap", 15.0)),
    ),
}


@pytest.mark.parametrize("name", MITIGATED)
def test_what_is_done_about_slow_parts(name: str, simulated: Simulating) -> None:
    failures, taken, lost_s, changes = MITIGATED[name]
    steps = changes.get("steps", 4)
    progress = simulated(job_under(failures, **changes))
    assert {name for name, times in progress.remedies.items() if times} == {*taken.split()}
    saved = 5.0 if "policy" in changes else 2.5 * steps
    lost_s = {**lost_s, "checkpoint": lost_s.get("checkpoint", 0.0) + saved}
    expected = {"compute": 10.0 * steps, "all_reduce": 2.0 * steps, **lost_s}
    spent = {cause: seconds for cause, seconds in progress.seconds.items() if seconds > 1e-9}
    assert spent == pytest.approx(expected)


def test_replicas_that_compute_the_same_data_find_corruption_at_once(simulated: Simulating) -> None:
    """Two copies of each type: a step computes 20 s, and the one that shows it is lost."""
    corrupt = [happening("corrupt", 30.0, 1e4)]
    progress = simulated(job_under(corrupt), build_strategy("replication", 3, 2))
    assert progress.now_s == pytest.approx(4 * 22 + 2 * 5 + 20)
    assert progress.restarts == 0


def test_a_repair_that_misses_the_culprit_is_followed_by_the_same_failure(
    simulated: Simulating,
) -> None:
    """Missed at 24, up at 124, loaded at 127; down again at 130 and missed at 139, up at 239."""
    job = job_under([])
    first = happening("hardware", 13.0)._replace(recurs_s=(6.0,))
    job = replace(job, failures=Listed((first,), 3, 1e6, listed=(first,)))
    progress = simulated(job)
    assert (progress.events, progress.restarts) == (2, 2)
    assert progress.now_s == pytest.approx(139 + 103 + UNDISTURBED_S)


def test_a_group_that_has_left_the_job_slows_no_other(simulated: Simulating) -> None:
    """Group 2 fails at 3 and is dropped; its slow GPU and adapter have no effect."""
    gone = range(2, 3)
    slow = [happening("slow", 5.0, 1e4, 3.0, level, gone) for level in ("gpu", "adapter")]
    stop = happening("hardware", 3.0, groups=gone)
    alone, beside = (
        simulated(job_under([stop, *others]), Obedient(3, [{}])) for others in ([], slow)
    )
    assert beside.now_s == alone.now_s


@pytest.mark.parametrize("broken_step", ["kept", "discarded"])
def test_a_step_that_loses_a_replica_trains_what_is_left(
    broken_step: str, simulated: Simulating
) -> None:
    """One batch in step 1, and 2/3 from step 2 on, in which the failure is missed: 4 after six."""
    options = ReplicaDropOptions.model_validate({"broken_step": broken_step})
    scheme = build_strategy("replica-drop", 3, 1, options)
    progress = simulated(job_under([happening("hardware", 13.0)]), scheme)
    assert progress.completed_steps == 6
    assert progress.completed_batches == pytest.approx(1 + 5 * 2 / 3)
    assert progress.seconds["compute"] == pytest.approx(10 * (1 + 5 * 2 / 3))
    assert progress.seconds["degraded"] == pytest.approx(12 * 5 / 3)


KINDS: list[Kind] = ["slow", "partial", "flap", "hang", "corrupt", "planned", "storage", "hardware"]


@st.composite
def histories(draw: st.DrawFn) -> list[Failure]:
    found = []
    for kind in draw(st.lists(st.sampled_from(KINDS), max_size=12)):
        group = draw(st.integers(0, 2))
        found.append(
            happening(
                kind,
                draw(st.floats(0, 600)),
                0.0 if kind == "hardware" else draw(st.floats(0, 300)),
                draw(st.floats(1, 3)) if kind in ("slow", "partial") else 1.0,
                draw(st.sampled_from(["gpu", "adapter"])),
                range(group, group + 1),
            )
        )
    return sorted(found, key=lambda one: one.time_s)


@examples(0.6)
@given(
    histories(),
    st.sampled_from([("checkpoint", 1), ("spare", 2), ("replication", 3), ("dp-drop", 1)]),
    st.sampled_from(
        [
            9.0,
            response(True, Remedy("redeal", 0.5), Remedy("swap", 7.0), Remedy("restart", 50.0)),
            None,
        ]
    ),
    st.sampled_from(["restart", "abort"]),
    st.sampled_from(["drain", "migrate", "wait"]),
    st.sampled_from([0.0, 0.03]),
)
def test_every_second_is_booked_once(
    failures: list[Failure],
    scheme: tuple[str, int],
    slow: float | SlowResponse | None,
    hang: Any,
    planned: Any,
    jitter: float,
) -> None:
    """And the kept steps are booked as compute and all-reduce, whatever has disturbed them."""
    reactions = Reactions(hang=hang, planned=planned, planned_limit_s=50.0)
    if isinstance(slow, float):
        reactions, slow = replace(reactions, evicted_after_s=slow), None
    job = job_under(failures, reactions, compute_jitter=jitter, steps=12, slow_response=slow)
    progress = replayed(job, build_strategy(scheme[0], 3, scheme[1]))
    assert sum(progress.seconds.values()) == pytest.approx(progress.now_s)
    # Steps are whole, and the last may begin with a part of a batch to go.
    assert 12 - 1e-6 <= progress.completed_batches < 13
    useful_s = progress.seconds["compute"] + progress.seconds["all_reduce"]
    assert useful_s <= 12 * progress.completed_batches + 1e-6
    assert min(one for name, one in progress.seconds.items() if name != "waiting") >= -1e-9


@pytest.mark.parametrize("factor", [1.5, 1.01])
def test_the_slowest_of_jittering_groups_one_of_which_is_slow(factor: float) -> None:
    """Steps simulated at once take on average what drawing every group of every step does."""
    steps = 4_000
    job = job_under(
        [happening("slow", 0.0, 1e9, factor)],
        compute_jitter=0.02,
        steps=steps,
        policy=EverySteps(50),
    )
    progress = replayed(job, build_strategy("checkpoint", 3, 1))
    drawn = 1 + 0.02 * np.random.default_rng(1).standard_normal((100_000, 3))
    slowest = 10.0 * (drawn * [factor, 1.0, 1.0]).max(axis=1)
    mean_s = (progress.now_s - progress.seconds["checkpoint"]) / steps - 2.0
    assert mean_s == pytest.approx(slowest.mean(), abs=4 * slowest.std() / sqrt(steps))
