"""SimGrid and replay tell the same story of jobs that work around broken GPUs."""

from __future__ import annotations

import pytest

from tests.simulator.test_engines_agree import compare

SMALL = [
    "job.groups=12",
    "job.gpus=1536",
    "job.compute_jitter=0",
    "checkpoint.interval_steps=5",
    "rejoin.repair_s=20000",
    "failures.distribution=exponential",
    "all_reduce.time=stated",
    "checkpoint.write=stated",
    "restart.load=included",
]
RESTARTING = [
    *SMALL,
    "job.steps=30",
    "failures.mtbf_s=700",
    "failures.gpus_per_host=4",
    "restart.duration_s=600",
]
WITHIN = [
    *SMALL,
    "job.steps=40",
    "failures.mtbf_s=200",
    "failures.component=gpu",
    "strategy.redundancy=3",
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
    settings = [*WITHIN, "strategy.name=spare-ntp", "strategy.spare-ntp.domain_gpus=64"]
    die = ["failures.component=host", "rejoin.when=at-checkpoint", "rejoin.repair_s=600"]
    record, _ = compare("spare-sound", [*settings, *die], seed=2)
    assert record["failures"] > 10
