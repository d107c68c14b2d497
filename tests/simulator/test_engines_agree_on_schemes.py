"""SimGrid and replay have the same course of every scheme.

Of schemes that work around lost stages or broken GPUs, of steps that SimGrid runs with what
schemes change in them, and under every preset of recovery, moves of state included.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product
from pathlib import Path

import pytest
from faultline.experiments.config.grid import EngineName
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.config.tables.recovery import PRESETS
from faultline.experiments.runs.single_run import run
from faultline.simulator.accounting.timeline import EventKind
from faultline.strategies.plugins.registry import all_strategies

from tests.simulator.helpers import agreed, alike, traced
from tests.stated_times import NOTHING_MEASURED

SLOW = pytest.mark.slow

RESTART_S = 20
AROUND_STAGES = [
    "job.steps=60",
    "failures.mtbf_s=16",
    "rejoin.repair_s=40",
    "recovery.launch_s=3",
    "recovery.communicator_s=0.2",
    f"times.restart_s={RESTART_S}",
    "times.checkpoint_write_s=9",
    "job.time_limit_s=900",
]
STAGES_LOST = {
    "mecefo": [],
    "mecefo, little memory": ["model.stages_that_fit=1", "rejoin.repair_s=80"],
    "mecefo, approximation charged": ["strategy.approximation_loss=0.5"],
    "bamboo": ["strategy.name=bamboo"],
    # Of 64 nodes, one that is overloaded is no reason to re-form all pipelines.
    "bamboo, overloaded": ["strategy.name=bamboo", "job.groups=8"],
    "oobleck": ["strategy.name=oobleck"],
    "recycle": ["strategy.name=recycle", "model.pipeline=2", "rejoin.repair_s=80"],
    "varuna": [
        "strategy.name=varuna",
        "job.steps=20",
        "failures.mtbf_s=15",
        "checkpoint.interval_steps=2",
        "times.checkpoint_write_s=5",
    ],
    "standbys": ["recovery.hardware=standby", "recovery.standbys=2", "recovery.standby_s=6"],
    "nothing left": ["model.pipeline=2", "failures.mtbf_s=8", "rejoin.repair_s=120"],
    "hosts": [
        "failures.component=host",
        "failures.gpus_per_host=2",
        "failures.mtbf_s=20",
        "model.pipeline=4",
    ],
}


@pytest.mark.parametrize("option", STAGES_LOST)
def test_schemes_that_work_around_lost_stages(option: str) -> None:
    record, events = agreed("mecefo-7b", [*AROUND_STAGES, *STAGES_LOST[option]], 1)
    assert EventKind.MISSING in {event.kind for event in events}
    assert record["events"] > 3
    assert record["degraded_s"] > 0
    if option in ("varuna", "nothing left"):
        assert record["restarts"] > 1
    if option == "nothing left":
        # Restarts wait for repairs.
        assert record["restart_s"] > 1.5 * record["restarts"] * RESTART_S
    elif option not in ("varuna", "mecefo, little memory"):
        # A node that idles has nothing to do again.
        assert record["reorderings"] > 0


WATCHDOG_S = 0.4
PLAYED = [
    "model.name=custom",
    "model.layers=8",
    "model.hidden=4096",
    "model.ffn_hidden=14336",
    "model.heads=32",
    "model.sequence_tokens=4096",
    "model.vocabulary=32000",
    "model.pipeline=2",
    "model.tensor=4",
    "model.micro_batches=4",
    "job.groups=4",
    "job.steps=20",
    "job.time_limit_s=300",
    "detection.mode=watchdog",
    f"detection.watchdog_s={WATCHDOG_S}",
    "failures.mtbf_s=1.2",
    "failures.component=gpu",
    "times.restart_s=0.5",
    "recovery.launch_s=0.05",
    "recovery.communicator_s=0.01",
    "rejoin.repair_s=2",
    "times.checkpoint_write_s=0.02",
    "checkpoint.interval_steps=4",
]
WIDE = ["model.tensor=8", "model.pipeline=1"]
PLAYED_SCHEMES = {
    "mecefo": ["strategy.name=mecefo"],
    "oobleck": ["strategy.name=oobleck", "model.least_stages=1"],
    "bamboo": ["strategy.name=bamboo"],
    "recycle": ["strategy.name=recycle"],
    "spare": ["strategy.name=spare", "strategy.redundancy=2"],
    "replication": ["strategy.name=replication", "strategy.redundancy=2"],
    "replica drop": ["strategy.name=replica-drop"],
    "ntp": ["strategy.name=ntp", *WIDE],
    "varuna": ["strategy.name=varuna", "model.least_stages=1"],
}
PLAYED_QUICKLY = ("recycle",)


@pytest.mark.parametrize(
    "option",
    [name if name in PLAYED_QUICKLY else pytest.param(name, marks=SLOW) for name in PLAYED_SCHEMES],
)
def test_twenty_simulated_steps(servers_of: Callable[..., Path], option: str) -> None:
    path = servers_of(domains=4, domains_per_leaf=4)
    changes = [*PLAYED, *PLAYED_SCHEMES[option], f"platform.file={path}"]
    record, events = agreed("llama3-70b-stress", changes, 3, rel=1e-5, record_rel=1e-2)
    found = sum(event.kind is EventKind.MISSING for event in events)
    assert found
    assert record["degraded_s"] >= 0.0
    # A group that fails in the passes is missed at once: sooner than the watchdog's time.
    assert 0.0 < record["detection_s"] < WATCHDOG_S * found


NEARLY_FREE = [
    *PLAYED,
    "model.pipeline=4",
    "model.tensor=2",
    "job.steps=60",
    "detection.watchdog_s=0.03",
    "checkpoint.interval_steps=40",
    "times.checkpoint_write_s=1e-6",
    "times.restart_s=1e-6",
    "recovery.launch_s=0",
    "recovery.communicator_s=0",
    "rejoin.repair_s=1e6",
]


@pytest.mark.parametrize("engine", ["replay", pytest.param("simgrid", marks=SLOW)])
@pytest.mark.parametrize("schedule", ["1f1b", pytest.param("split-backward", marks=SLOW)])
@pytest.mark.parametrize("scheme", sorted(all_strategies()))
def test_no_scheme_gains_by_failing(
    servers_of: Callable[..., Path], tmp_path: Path, scheme: str, schedule: str, engine: EngineName
) -> None:
    """Recoveries cost next to nothing: all else that is gained would be a gain over sound steps."""
    rows = traced(tmp_path, "0.5,gpu-3,hardware", "1.1,gpu-21,hardware")
    redundancy = ["strategy.redundancy=2"] if "spare" in scheme or "replication" in scheme else []
    path = servers_of(domains=4, domains_per_leaf=4)
    changes = [*NEARLY_FREE, *rows, *redundancy, f"strategy.name={scheme}"]
    changes.append(f"model.schedule={schedule}")
    record = run(load_scenario("llama3-70b-stress", [*changes, f"platform.file={path}"]), 1, engine)
    assert record["events"] > 0
    assert record["goodput"] <= 1.0


@SLOW
def test_two_fail_in_one_step_of_pipelines_that_compute_for_one_another() -> None:
    """A group that computes for itself and one that is simulated never share a GPU."""
    changes = ["strategy.name=recycle", "failures.component=gpu", "failures.mtbf_s=40"]
    changes += ["rejoin.repair_s=100", "job.steps=14"]
    _, events = agreed("llama3-70b-stress", changes, 3)
    assert any(len(event.groups) > 1 for event in events if event.kind is EventKind.MISSING)


RECOVERING = {
    "job.steps": 25,
    "job.time_limit_s": 3000.0,
    "failures.mtbf_s": 40.0,
    "checkpoint.interval_steps": 5,
    "times.checkpoint_write_s": 5.0,
    "times.restart_s": None,
    "recovery.detect_s": None,
    "recovery.launch_s": 4.0,
    "rejoin.repair_s": 90.0,
}
COUNTS = (
    "events",
    "hits",
    "restarts",
    "rejoined",
    "reorderings",
    "states_refused",
    "standby_failures",
)
SCHEMES = sorted(all_strategies())
EACH_ONCE = set(zip(SCHEMES, cycle(PRESETS), strict=False))


@pytest.mark.parametrize(
    ("scheme", "preset"),
    [
        pytest.param(*pair, marks=() if pair in EACH_ONCE else SLOW)
        for pair in product(SCHEMES, PRESETS)
    ],
)
def test_every_preset_of_recovery(scheme: str, preset: str) -> None:
    """Within 1 %; what happens is the same."""
    redundancy = 2 if "spare" in scheme or "replication" in scheme else None
    named = {"strategy.name": scheme, "strategy.redundancy": redundancy}
    scenario = load_scenario("mecefo-7b", {**RECOVERING, **named, "recovery.preset": preset})
    times = ("time_s", "restart_s", "reconfigure_s", "load_s", "patch_compute_s")
    assert alike(scenario, 1, *COUNTS, *times, rel=0.01, abs_s=1e-3)["events"] > 0


AROUND_GPUS = [
    "job.groups=12",
    "job.gpus=1536",
    "job.compute_jitter=0",
    "checkpoint.interval_steps=5",
    "rejoin.repair_s=20000",
    "failures.distribution=exponential",
    *NOTHING_MEASURED,
]
RESTARTING = [
    *AROUND_GPUS,
    "job.steps=30",
    "failures.mtbf_s=700",
    "failures.gpus_per_host=4",
    "times.restart_s=600",
]


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
    record, _ = agreed("spare-sound", settings, seed=3)
    assert record["restarts"] >= 4
    if scheme != "ntp-pw":
        assert record["degraded_s"] > 0


@SLOW
@pytest.mark.parametrize(
    "more",
    [
        ["restart.failure_during=begins-anew", "restart.failure_while_waiting=surfaces"],
        ["strategy.ntp.pod_groups=1", "failures.component=group"],
        ["detection.failure_in_all_reduce=next-step", "checkpoint.failed_writer=skips"],
        ["rejoin.when=at-checkpoint", "rejoin.spare_groups=1", "failures.component=group"],
    ],
    ids=str,
)
def test_groups_that_stay_away_under_other_rules(more: list[str]) -> None:
    agreed("spare-sound", [*RESTARTING, "strategy.name=dp-drop", *more], seed=5)


def test_stages_migrate_where_the_state_is_in_memory() -> None:
    """A stage of 1e12 bytes over 128 GPUs, behind 12.5 GB/s each, on both engines."""
    failing = ["strategy.name=ntp", "failures.component=gpu", "model.pipeline=4"]
    settings = [*RESTARTING, *failing, "job.parameter_bytes=1e12"]
    times = ("copy", "load", "rebuild", "fetch")
    kept = ["protection.name=just-in-time", *(f"times.snapshot_{one}_s=10" for one in times)]
    in_memory, _ = agreed("spare-sound", [*settings, *kept], seed=3)
    pods = run(load_scenario("spare-sound", [*settings, *kept, "strategy.ntp.pod_groups=1"]), 3)
    assert in_memory["restarts_from_peers"] == pods["restarts_from_peers"] == 3
    stages = (in_memory["load_s"] - pods["load_s"]) / (1e12 / 128 / 12.5e9)
    assert stages == pytest.approx(round(stages), rel=1e-5)
    assert stages >= 1
    assert run(load_scenario("spare-sound", settings), 3)["load_s"] == 0


NOTHING_LEFT = (
    "1000,gpu-5,hardware,,,9000",
    "3000,gpu-133,hardware,,,30000",
    "5000,gpu-260,hardware,,,15000",
)


def absent(third_s: float) -> tuple[str, ...]:
    """Return failures of three groups, of which the third comes at this time."""
    return (
        "1000,gpu-5,hardware,,,9000",
        "3000,gpu-120005,hardware,,,500",
        f"{third_s},gpu-240005,hardware,,,500",
    )


def dropping(tmp_path: Path, rows: tuple[str, ...], *more: str) -> list[str]:
    """Return the settings of DP-DROP on three replicas that fail as in a trace."""
    return [
        "strategy.name=dp-drop",
        "strategy.ntp.pod_groups=1",
        "job.groups=3",
        "job.gpus=384",
        "job.parameter_bytes=1e12",
        "job.compute_jitter=0",
        "checkpoint.interval_steps=5",
        "times.checkpoint_write_s=58.8",
        "times.all_reduce_per_group_s=0.01",
        "times.restart_s=600",
        *traced(tmp_path, *rows),
        *more,
    ]


def test_a_job_of_which_no_replica_is_left_waits_for_repairs(tmp_path: Path) -> None:
    """The first of three broken replicas is repaired at 10,000 s; the job restarts with it."""
    settings = dropping(tmp_path, NOTHING_LEFT, "job.steps=60", "~restart.readers")
    record, events = agreed("spare-sound", settings, seed=0)
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
    calm = dropping(tmp_path, absent(50_000), *MEASURED_LOAD)
    _, events = agreed("spare-sound", calm, seed=0)
    begun = [event.time_s for event in events if event.kind == EventKind.RESTARTED]
    ended = [event.time_s for event in events if event.kind == EventKind.LOADED]
    load_s = ended[1] - begun[1]
    assert load_s > 10.0
    broken = dropping(tmp_path, absent(begun[1] + load_s / 3), *MEASURED_LOAD)
    _, events = agreed("spare-sound", broken, seed=0)
    again = [event.time_s for event in events if event.kind == EventKind.LOADED]
    assert again[1] - begun[1] == pytest.approx(2 * load_s, rel=1e-6)
