"""Both engines simulate the same mixes and traces, and keep snapshots alike beneath them."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.runs.record import Record

from tests.simulator.helpers import agreed, traced
from tests.simulator.test_engines_agree import settings_of
from tests.stated_times import NOTHING_MEASURED, PROTECTED

# Of 96 GPUs in 24 groups, a host takes two groups down, a switch six, and the last cause all.
CAUSES = """
source = "made up, so that every level fails"

[[cause]]
name = "gpu"
per_1000_node_days = 60_000
level = "gpu"
kind = "hardware"
repair = "3d"

[[cause]]
name = "host"
per_1000_node_days = 30_000
level = "host"
kind = "hardware"

[[cause]]
name = "switch"
per_1000_node_days = 10_000
level = "switch"
kind = "network"

[[cause]]
name = "storage"
per_1000_node_days = 2_000
level = "job"
kind = "software"
"""
JOB = [
    "job.gpus=96",
    "failures.clock=renewal",
    "failures.gpus_per_switch=24",
    *NOTHING_MEASURED,
    "restart.failure_during=absorbed",
]
BEGINS_ANEW = [
    "restart.failure_during=begins-anew",
    "restart.failure_while_waiting=surfaces",
    "times.restart_s=300",
]


def by_cause(record: Record) -> dict[str, int]:
    return {key: value for key, value in record.items() if key.startswith("events_by_cause.")}


def agreed_mix(
    tmp_path: Path, scenario: str, scheme: str, seed: int, *more: str, steps: int = 40
) -> Record:
    path = tmp_path / "causes.toml"
    path.write_text(CAUSES, encoding="utf-8")
    model = ["failures.model=mix", f"failures.mix={path}", "job.time_limit_s=40000", *JOB, *more]
    record, _ = agreed(scenario, settings_of(scheme, 24, 3, steps, *model), seed)
    counted = by_cause(record)
    assert list(counted) == [
        f"events_by_cause.{name}" for name in ("gpu", "host", "switch", "storage")
    ]
    assert sum(counted.values()) == record["events"]
    return record


@pytest.mark.parametrize("scheme", ["checkpoint", "replication", "spare"])
def test_a_mix_with_failures_of_several_groups(scheme: str, tmp_path: Path) -> None:
    record = agreed_mix(tmp_path, "spare-study", scheme, 3)
    assert record["events_by_cause.host"] + record["events_by_cause.switch"] > 0
    assert record["restarts"] > 0


@pytest.mark.parametrize(
    "option",
    [
        BEGINS_ANEW,
        ["detection.mode=watchdog", "detection.watchdog_s=300"],
        ["failures.rate=mtbf", "failures.mtbf_s=500", "failures.gpus_per_host=12"],
    ],
    ids=["begins anew", "watchdog", "rescaled, hosts across groups"],
)
def test_a_mix_with_one_option_changed(option: list[str], tmp_path: Path) -> None:
    agreed_mix(tmp_path, "spare-sound", "spare", 1, *option)


def agreed_trace(tmp_path: Path, rows: list[str], scheme: str, *more: str) -> Record:
    trace = traced(tmp_path, *rows, columns="time,component,cause")
    model = [*trace, "job.time_limit_s=40000", *JOB]
    record, _ = agreed("spare-sound", settings_of(scheme, 24, 3, 40, *model, *more), 0)
    return record


# A compute of 64 s ends an all-reduce 0.24 s before the next: some failures fall on the edges.
ROWS = [
    "64.0,gpu-5,edge of a compute",
    "128.48,gpu-9,edge of a step",
    "500,host-3,twice at once",
    "500,switch-1,twice at once",
    "500,gpu-26,twice at once",
    "1280,domain-9,round",
    "2300,host-8,round",
    "2300.5,job,all",
    "2301,group-3,while down",
    "9000,switch-0,late",
]


@pytest.mark.parametrize("scheme", ["checkpoint", "replication", "spare"])
def test_a_trace_with_failures_at_the_same_moment_and_on_the_edges_of_phases(
    scheme: str, tmp_path: Path
) -> None:
    record = agreed_trace(tmp_path, ROWS, scheme)
    assert record["events_by_cause.twice at once"] == 3
    assert record["events_by_cause.all"] == 1
    assert record["hits"] > record["events"] + 24
    assert record["hits_while_down"] > 0 or scheme == "checkpoint"


def test_a_restart_waits_for_the_repair_of_what_has_failed(tmp_path: Path) -> None:
    """Two groups fail together, one for 700 s: the restart of 300 s begins when both are repaired.

    The other failure states no repair, which takes `rejoin.repair_s`. A third strikes meanwhile.
    """
    rows = ["500,gpu-3,a,700", "500,gpu-9,b", "900,gpu-40,c,5000"]
    trace = traced(tmp_path, *rows, columns="time,component,cause,repair")
    model = [*trace, "times.restart_s=300", *JOB]
    repaired = ["recovery.hardware=repaired"]
    waits = [
        agreed("spare-sound", settings_of("checkpoint", 24, 1, 40, *model, *more), 0)[0]
        for more in ((), (*repaired, "rejoin.repair_s=600"), (*repaired, "rejoin.repair_s=800"))
    ]
    assert [one["restarts"] for one in waits] == [2, 1, 1]
    assert waits[1]["restart_s"] == pytest.approx(700 + 300)
    assert waits[2]["restart_s"] == pytest.approx(800 + 300)


# Each about six times in 40,000 s on 12 servers.
KINDS = {
    "preemption": ("host", 'at_once = 2.0'),
    "hang": ("gpu", 'lasts = "2min"'),
    "corrupt": ("gpu", 'lasts = { median = "20min", sigma = 1.0 }'),
    "slow": ("gpu", 'factor = { least = 1.1, most = 2 }\nlasts = { median = "5min", sigma = 1 }'),
    "flap": ("adapter", 'lasts = { median = "10s", sigma = 1.5 }'),
    "partial": ("switch", 'factor = 1.5\nlasts = "1h"'),
    "planned": ("host", 'lasts = "10min"'),
    "storage": ("job", 'lasts = { least = "10min", most = "1h" }'),
    "hardware": ("host", 'repair = "1h"'),
}  # fmt: skip


@pytest.mark.parametrize("scheme", ["checkpoint", "replication", "spare", "replica-drop"])
@pytest.mark.parametrize(
    "reactions", [("ski-rental", "restart", "wait"), ("evict", "abort", "migrate")]
)
def test_a_mix_of_all_kinds(scheme: str, reactions: tuple[str, str, str], tmp_path: Path) -> None:
    causes = (
        f'[[cause]]\nname = "a-{kind}"\nkind = "{kind}"\nper_1000_node_days = 1_000\n'
        f'level = "{level}"\n{rest}\n'
        for kind, (level, rest) in KINDS.items()
    )
    path = tmp_path / "kinds.toml"
    path.write_text('source = "made up"\n' + "".join(causes), encoding="utf-8")
    slow, hang, planned = reactions
    settings = [
        "failures.model=mix",
        f"failures.mix={path}",
        f"failures.kinds.slow={slow}",
        f"failures.kinds.hang={hang}",
        f"failures.kinds.planned={planned}",
        "failures.kinds.validation_share=0.0025",
        "failures.kinds.recurrence=0.3",
        "failures.kinds.correlated_excess=1.5",
        "failures.kinds.lemon_shape=0.5",
        "times.restart_s=300",
        "job.time_limit_s=40000",
        *JOB,
    ]
    redundancy = 1 if scheme == "replica-drop" else 3
    record, _ = agreed("spare-sound", settings_of(scheme, 24, redundancy, 900, *settings), 2)
    counts = [value for key, value in record.items() if key.startswith("disturbances.")]
    assert len(counts) == 7
    assert all(counts)
    assert record["degraded_s"] > 0


PROTECTIONS = ("storage", "async-storage", "reft", "gemini", "just-in-time")
COMPONENTS = ("gpu", "host", "group")
ANEW = [
    "restart.failure_during=begins-anew",
    "restart.failure_while_waiting=surfaces",
    "failures.mtbf_s=900",
]


def protected(scheme: str, protection: str, seed: int, *more: str, steps: int = 30) -> Record:
    settings = settings_of(scheme, 24, 3, steps, *PROTECTED, f"protection.name={protection}", *more)
    record, _ = agreed("spare-sound", settings, seed)
    assert record["restarts"] > 0
    return record


@pytest.mark.parametrize(
    ("scheme", "protection", "option"),
    [
        ("checkpoint", "reft", ["failures.component=group"]),
        ("replication", "async-storage", []),
        ("spare", "gemini", ["failures.mtbf_s=60"]),
    ],
)
def test_a_few_dozen_steps(scheme: str, protection: str, option: list[str]) -> None:
    record = protected(scheme, protection, 1, *option)
    assert record["snapshots"] > 0
    assert (record["restarts_from_memory"] + record["restarts_from_peers"] > 0) == (
        protection != "async-storage"
    )


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_groups_rejoin_beneath_every_protection(protection: str) -> None:
    back = ["rejoin.when=at-checkpoint", "rejoin.repair_s=600", "failures.mtbf_s=200"]
    record = protected("spare", protection, 1, *back)
    assert record["rejoined"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("protection", PROTECTIONS)
@pytest.mark.parametrize("scheme", ["checkpoint", "replication", "spare"])
def test_all_of_them(scheme: str, protection: str, component: str, seed: int) -> None:
    more = ANEW if seed == 2 else []
    protected(scheme, protection, seed, f"failures.component={component}", *more, steps=120)
