"""Both engines keep snapshots alike: the same events at the same times, whatever is lost.

24 groups of two servers each, with a failure every few steps and snapshots that are not whole at
once, so that failures spoil some of them.
"""

from __future__ import annotations

import pytest
from faultline.experiments.runs.record import Record

from tests.simulator.helpers import agreed
from tests.simulator.test_engines_agree import settings_of
from tests.stated_times import PROTECTED, SNAPSHOTS

PROTECTIONS = ("storage", "async-storage", "reft", "gemini", "just-in-time")
COMPONENTS = ("gpu", "host", "group")
BEGINS_ANEW = [
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
@pytest.mark.parametrize(
    "option",
    [
        ["failures.component=group", "protection.reft.placement=neighbours"],
        ["failures.component=gpu", "failures.hardware_share=1", "protection.reft.code=none"],
        ["protection.reft.copying=free-running"],
        ["protection.reft.copying=blocking"],
        BEGINS_ANEW,
    ],
    ids=["whole groups", "no code", "free-running", "blocking", "begins anew"],
)
def test_reft_with_one_option_changed(option: list[str]) -> None:
    record = protected("checkpoint", "reft", 2, *option)
    assert record["snapshots"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["checkpoint", "replication", "spare"])
def test_with_measured_times(scheme: str) -> None:
    measured = [
        "job.gpus=600000",
        *(f"~{key}" for key in SNAPSHOTS),
        "~times.all_reduce_per_group_s",
        "~times.checkpoint_write_s",
        "restart.readers=one-group",
        "failures.mtbf_s=100",
    ]
    record = protected(scheme, "reft", 0, *measured)
    assert record["restarts_from_memory"] + record["restarts_from_peers"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("protection", PROTECTIONS)
@pytest.mark.parametrize("scheme", ["checkpoint", "replication", "spare"])
def test_all_of_them(scheme: str, protection: str, component: str, seed: int) -> None:
    more = BEGINS_ANEW if seed == 2 else []
    protected(scheme, protection, seed, f"failures.component={component}", *more, steps=120)
