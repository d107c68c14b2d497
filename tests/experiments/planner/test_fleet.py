"""A fleet that is split into groups and standbys."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import pytest
from faultline.experiments.analysis.design import Design, design_by_name
from faultline.experiments.job.choices import Choice
from faultline.experiments.planner import race
from faultline.experiments.planner.fleet import (
    MOST_SPLITS,
    Fleet,
    fleet_answers,
    read_fleet,
    splits_of,
)
from faultline.experiments.planner.planning import Effort
from faultline.experiments.planner.simulation import Lives, simulate_worlds
from faultline.experiments.planner.situation import choices_of
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


def fleet_of(*settings: str, mtbf_s: float, machines: int = 20) -> Fleet:
    return read_fleet("spare-study", [*SETTINGS, *settings], machines, mtbf_s)


def lives_of(fleet: Fleet, worlds: int) -> list[Lives]:
    """Return the runs of checkpoints alone at each split, at the values of the scenario."""
    choices = [choices_of(one.situation, "checkpoint", "storage")[0] for one in fleet.splits]
    designs = [design_by_name({}, worlds, 0)] * len(choices)
    steps = fleet.splits[0].situation.scenario.job.steps
    return simulate_worlds(choices, designs, range(worlds), steps, 1e12)


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


def test_all_splits_train_the_same_samples() -> None:
    fleet = fleet_of(mtbf_s=1e12)
    jobs = [one.situation.scenario.job for one in fleet.splits]
    splits = [(job.groups, one.standbys) for job, one in zip(jobs, fleet.splits, strict=True)]
    assert splits == [(10, 0), (9, 2), (8, 4)]
    for job in jobs:
        assert job.groups * job.steps == pytest.approx(10 * jobs[0].steps, rel=0.01)


def test_without_failures_each_group_counts_in_full() -> None:
    fleet = fleet_of(mtbf_s=1e12)
    alone, *others = (float(one.time_s.mean()) for one in lives_of(fleet, 1))
    for split, time_s in zip(fleet.splits[1:], others, strict=True):
        # A step of fewer groups has a shorter all-reduce: 0.01 s a group, of 64 s.
        groups = split.situation.scenario.job.groups
        assert alone / time_s == pytest.approx(groups / 10, rel=0.01)
    *_, answer = fleet_answers(fleet, ["checkpoint"], ["storage"], Effort(4), at_values=True)
    assert answer.advised == "0 standbys"


def test_without_standbys_the_job_waits_for_repairs() -> None:
    """Half a machine is under repair on average: each failure without a standby waits for it."""
    repair_s, mtbf_s = 20_000.0, 40_000.0
    fleet = fleet_of(f"rejoin.repair_s={repair_s:g}", "job.steps=20000", mtbf_s=mtbf_s)
    assert "of which 0.5 are under repair on average" in fleet.splits[0].situation.fleet
    alone, *others = (float(one.goodput.mean()) for one in lives_of(fleet, 2))
    # Of each cycle of working and waiting, the job works for its mean time between failures.
    assert alone == pytest.approx(mtbf_s / (mtbf_s + repair_s), rel=0.1)
    assert alone < others[0] <= others[-1] + 0.02
    *_, answer = fleet_answers(fleet, ["checkpoint"], ["storage"], Effort(4), at_values=True)
    assert answer.rows[0].choice.resolved.scenario.recovery.standbys > 0


def test_fewer_groups_fail_less_often_in_the_same_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean time between failures is uncertain, and that of a split is scaled to its groups."""
    drawn: dict[int, float] = {}

    def simulated(choices: Sequence[Choice], designs: Sequence[Design], *rest: Any) -> list[Lives]:
        for choice, design in zip(choices, designs, strict=True):
            drawn[choice.resolved.scenario.job.groups] = design.sample(0)["failures.mtbf_s"]
        return simulate_worlds(choices, designs, *rest)

    settings = [one for one in SETTINGS if not one.startswith("failures")]
    fleet = read_fleet(
        "spare-study",
        [*settings, "failures.model=mix", "failures.clock=renewal", "~failures.mtbf_s"],
        20,
    )
    mtbfs_s = [one.situation.mtbf_s for one in fleet.splits]
    assert mtbfs_s == pytest.approx([mtbfs_s[0] * 10 / groups for groups in (10, 9, 8)])
    monkeypatch.setattr(race, "simulate_worlds", simulated)
    *_, answer = fleet_answers(fleet, ["checkpoint"], ["storage"], Effort(4))
    assert "failures.mtbf_s" in {key.dotted for key in answer.keys}
    assert len(drawn) > 1
    for groups, mtbf_s in drawn.items():
        assert mtbf_s == pytest.approx(drawn[9] * 9 / groups)


def test_the_answer_is_a_number_of_standbys(cli: Cli) -> None:
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    words += ["--nodes", "20", "--mtbf", "10h", "--schemes", "checkpoint,spare"]
    words += ["--protections", "storage", "--quick"]
    printed = cli("spare-study", *words, "--price", "2")
    assert "20 machines of 8 GPUs" in printed
    assert "take 2 standbys or 0 standbys" in printed
    content = cli.json("spare-study", *words)
    assert {row["standbys"] + 2 * row["groups"] for row in content["schemes"]} == {20}
    # No scheme can drop a group below its redundancy, and none is named twice.
    assert len({row["candidate"] for row in content["schemes"]}) == len(content["schemes"])


def test_a_fleet_without_room_for_a_group_is_refused(cli: Cli) -> None:
    printed = cli.refused("spare-study", "--nodes", "100")
    assert "--nodes 100: 800 GPUs do not make a group of 3,000; use at least 375" in printed
    assert "has no effect with --nodes" in cli.refused("spare-study", "--nodes", "9", "--gpus", "8")
