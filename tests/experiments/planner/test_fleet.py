"""A fleet that is split into groups and standbys."""

from __future__ import annotations

from math import ceil

import pytest
from faultline.experiments.planner.fleet import MOST_SPLITS, Fleet, split_fleet, splits_of
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.command_line import Cli

COMMAND = ("plan",)
SETTINGS = (
    *("job.groups=8", "job.gpus=128", "job.steps=400"),
    *("times.checkpoint_write_s=5", "restart.failure_during=absorbed"),
    *("times.restart_s=120", "job.compute_jitter=0", "failures.distribution=exponential"),
)
"""A job of 16 GPUs, two machines, a group; 64 s a step."""


def split(*settings: str, mtbf_s: float, machines: int = 20, seeds: int = 2) -> Fleet:
    changes, chosen = [*SETTINGS, *settings], (["checkpoint"], ["storage"])
    return split_fleet("spare-study", changes, machines, *chosen, range(seeds), mtbf_s=mtbf_s)


@given(st.integers(1, 400), st.integers(1, 8), st.integers(1, 100), st.integers(0, 50))
def test_groups_and_standbys_fill_the_fleet(
    machines: int, per_machine: int, of_group: int, most_standbys: int
) -> None:
    if machines * per_machine < of_group:
        return
    pairs = splits_of(machines, per_machine, of_group, most_standbys)
    assert 1 <= len(pairs) <= MOST_SPLITS
    assert pairs[0][0] == machines * per_machine // of_group
    for groups, standbys in pairs:
        assert groups >= 1
        assert standbys == machines - ceil(groups * of_group / per_machine)
        # Another group would need a machine that stands by.
        more = ceil((groups + 1) * of_group / per_machine)
        assert more > machines - standbys
    assert [standbys for _, standbys in pairs] == sorted({standbys for _, standbys in pairs})


def test_without_failures_each_group_counts_in_full() -> None:
    fleet = split(mtbf_s=1e12)
    assert [(one.groups, one.standbys) for one in fleet.splits] == [(10, 0), (9, 2), (8, 4)]
    for one in fleet.splits:
        outcome = one.outcomes[0]
        # A step of fewer groups has a shorter all-reduce: 0.01 s a group, of 64 s.
        assert outcome.share.mean == pytest.approx(one.groups / 10 * outcome.goodput.mean, rel=1e-3)
        assert outcome.goodput.mean == pytest.approx(1.0, abs=0.01)
    assert fleet.best.standbys == 0


def test_without_standbys_the_job_waits_for_repairs() -> None:
    """Half a machine is under repair on average: each failure without a standby waits for it."""
    repair_s, mtbf_s = 20_000.0, 40_000.0
    fleet = split(f"rejoin.repair_s={repair_s:g}", "job.steps=20000", mtbf_s=mtbf_s, seeds=4)
    assert fleet.mean_under_repair == pytest.approx(0.5)
    alone, *others = (one.outcomes[0].goodput.mean for one in fleet.splits)
    # Of each cycle of working and waiting, the job works for its mean time between failures.
    assert alone == pytest.approx(mtbf_s / (mtbf_s + repair_s), rel=0.1)
    assert alone < others[0] <= others[-1] + 0.02
    assert fleet.best.standbys > 0


def test_goodput_is_printed_against_standbys(cli: Cli) -> None:
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    words += ["--nodes", "20", "--mtbf", "10h", "--schemes", "checkpoint,spare"]
    printed = cli("spare-study", *words, "--protections", "storage", "--price", "2")
    assert "20 machines (160 GPUs)" in printed
    assert "Keep " in printed.splitlines()[-1]
    content = cli.json("spare-study", *words, "--protections", "storage")
    for one in content["splits"]:
        assert one["standbys"] + 2 * one["groups"] == 20
        for scheme in one["schemes"]:
            assert 0.0 < scheme["share_of_fleet"]["mean"] <= scheme["goodput"]["mean"] <= 1.0


def test_a_fleet_without_room_for_a_group_is_refused(cli: Cli) -> None:
    printed = cli.refused("spare-study", "--nodes", "100")
    assert "--nodes 100: 800 GPUs do not make a group of 3,000; use at least 375" in printed
    assert "has no effect with --nodes" in cli.refused("spare-study", "--nodes", "9", "--quick")
