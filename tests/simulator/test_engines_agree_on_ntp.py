"""SimGrid and replay tell the same story of jobs that work around broken GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.single_run import run
from faultline.simulator.timeline import Event, EventKind

from tests.simulator.test_engines_agree import compare
from tests.stated_times import NOTHING_MEASURED

SMALL = [
    "job.groups=12",
    "job.gpus=1536",
    "job.compute_jitter=0",
    "checkpoint.interval_steps=5",
    "rejoin.repair_s=20000",
    "failures.distribution=exponential",
    *NOTHING_MEASURED,
]
RESTARTING = [
    *SMALL,
    "job.steps=30",
    "failures.mtbf_s=700",
    "failures.gpus_per_host=4",
    "times.restart_s=600",
]
WITHIN = [
    *SMALL,
    "job.steps=40",
    "failures.mtbf_s=200",
    "failures.component=gpu",
    "strategy.redundancy=3",
    "model.tensor=32",
]


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("scheme", "component"),
    [
        ("dp-drop", "host"),
        ("ntp", "gpu"),
        pytest.param("dp-drop", "gpu", marks=SLOW),
        pytest.param("ntp", "host", marks=SLOW),
        pytest.param("ntp-pw", "gpu", marks=SLOW),
        pytest.param("ntp-pw", "host", marks=SLOW),
    ],
)
def test_replicas_that_shrink_or_stay_away(scheme: str, component: str) -> None:
    """Hosts of 4 GPUs: two in one domain leave TP24; replicas are 4 domains of 32."""
    settings = [*RESTARTING, f"strategy.name={scheme}", f"failures.component={component}"]
    record, _ = compare("spare-sound", settings, seed=3)
    assert record["restarts"] >= 4
    if scheme != "ntp-pw":
        assert record["degraded_s"] > 0


@SLOW
@pytest.mark.parametrize(
    "more",
    [
        ["restart.failure_during=begins-anew", "restart.failure_while_waiting=surfaces"],
        ["strategy.dp-drop.packing=false", "failures.component=group"],
        ["detection.failure_in_all_reduce=next-step", "checkpoint.failed_writer=skips"],
        ["rejoin.when=at-checkpoint", "rejoin.spare_groups=1", "failures.component=group"],
    ],
    ids=str,
)
def test_groups_that_stay_away_under_other_rules(more: list[str]) -> None:
    compare("spare-sound", [*RESTARTING, "strategy.name=dp-drop", *more], seed=5)


NOTHING_LEFT = """time,component,kind,repair
1000,gpu-5,hardware,9000
3000,gpu-133,hardware,30000
5000,gpu-260,hardware,15000
"""
ABSENT = """time,component,kind,repair
1000,gpu-5,hardware,9000
3000,gpu-120005,hardware,500
%f,gpu-240005,hardware,500
"""


def traced(tmp_path: Path, trace: str, *more: str) -> list[str]:
    """Return the settings of DP-DROP on three replicas that fail as a trace says."""
    path = tmp_path / "trace.csv"
    path.write_text(trace)
    return [
        "strategy.name=dp-drop",
        "strategy.dp-drop.packing=false",
        "job.groups=3",
        "job.gpus=384",
        "job.parameter_bytes=1e12",
        "job.compute_jitter=0",
        "checkpoint.interval_steps=5",
        "times.checkpoint_write_s=58.8",
        "times.all_reduce_per_group_s=0.01",
        "failures.model=trace",
        f"failures.trace={path}",
        "times.restart_s=600",
        *more,
    ]


def test_a_job_of_which_no_replica_is_left_waits_for_repairs(tmp_path: Path) -> None:
    """The first of three broken replicas is repaired at 10,000 s; the job restarts with it."""
    settings = traced(tmp_path, NOTHING_LEFT, "job.steps=60", "~restart.readers")
    record, events = compare("spare-sound", settings, seed=0)
    restarted = [event.time_s for event in events if event.kind == EventKind.RESTARTED]
    assert len(restarted) == 3
    assert restarted[2] == pytest.approx(10_600.0)
    missing = [event.time_s for event in events if event.kind == EventKind.MISSING]
    waited_s = 10_000.0 - missing[2]
    assert record["restart_s"] == pytest.approx(3 * 600.0 + waited_s)
    assert record["completed_steps"] == 60


MEASURED_LOAD = [
    "restart.readers=one-group",
    "job.groups=5",
    "job.gpus=600000",
    "job.parameter_bytes=1e14",
    "job.steps=60",
]


def test_a_load_with_a_replica_absent_is_broken_by_a_failure(tmp_path: Path) -> None:
    """At 3,000 s the second replica fails, with the first absent; the third in the load after."""
    calm = traced(tmp_path, ABSENT % 50_000, *MEASURED_LOAD)
    _, events = compare("spare-sound", calm, seed=0)
    begun = [event.time_s for event in events if event.kind == EventKind.RESTARTED]
    ended = [event.time_s for event in events if event.kind == EventKind.LOADED]
    load_s = ended[1] - begun[1]
    assert load_s > 10.0
    broken = traced(tmp_path, ABSENT % (begun[1] + load_s / 3), *MEASURED_LOAD)
    _, events = compare("spare-sound", broken, seed=0)
    again = [event.time_s for event in events if event.kind == EventKind.LOADED]
    assert again[1] - begun[1] == pytest.approx(2 * load_s, rel=1e-6)


def test_a_load_with_a_replica_absent_is_played_by_messages(tmp_path: Path) -> None:
    """Where all read at once, four share the storage's bandwidth that five would share."""
    settings = traced(tmp_path, ABSENT % 50_000, *MEASURED_LOAD, "restart.readers=every-group")
    asked = load_scenario("spare-sound", settings)
    events: list[Event] = []
    run(asked, 0, "simgrid", events.append)
    begun = [event.time_s for event in events if event.kind == EventKind.RESTARTED]
    ended = [event.time_s for event in events if event.kind == EventKind.LOADED]
    # After the first failure four replicas load, after the second three.
    all_five_s = resolve(asked).durations.load_s
    assert ended[0] - begun[0] == pytest.approx(4 / 5 * all_five_s, rel=1e-3)
    assert ended[1] - begun[1] == pytest.approx(3 / 5 * all_five_s, rel=1e-3)


@pytest.mark.parametrize(
    ("scheme", "mode"),
    [
        ("spare-ntp", "slow"),
        ("replication-ntp", "smaller-batch"),
        pytest.param("spare-ntp", "smaller-batch", marks=SLOW),
        pytest.param("replication-ntp", "slow", marks=SLOW),
    ],
)
def test_groups_that_work_on(scheme: str, mode: str) -> None:
    settings = [*WITHIN, f"strategy.name={scheme}", f"strategy.{scheme}.hit_groups={mode}"]
    record, _ = compare("spare-sound", settings, seed=1)
    assert record["degraded_s"] > 0
    assert record["completed_steps"] == pytest.approx(40, abs=1)


@SLOW
def test_groups_that_work_on_or_die_and_rejoin() -> None:
    """Hosts of 8 GPUs are more than a domain may lose, and half of the failures are of one."""
    settings = [*WITHIN, "strategy.name=spare-ntp", "model.tensor=64"]
    die = ["failures.component=host", "rejoin.when=at-checkpoint", "rejoin.repair_s=600"]
    record, _ = compare("spare-sound", [*settings, *die], seed=2)
    assert record["failures"] > 10
