"""Who takes part in the head-to-head, and what they are told."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.studies.head_to_head.playing import Entry, enter
from faultline.experiments.studies.head_to_head.setting import (
    Cell,
    all_candidates,
    measured_ground,
)
from faultline.strategies.protection.registry import all_protections
from faultline.strategies.recovery import Move, Recovery, RecoveryKind
from faultline.strategies.registry import all_strategies


def test_every_registered_scheme_takes_part_with_known_protections() -> None:
    candidates = all_candidates()
    assert {one.scheme for one in candidates} == set(all_strategies())
    assert {one.protection for one in candidates} <= set(all_protections())
    assert len({one.name for one in candidates}) == len(candidates)


def test_a_scheme_or_one_candidate_can_be_chosen() -> None:
    assert [one.name for one in all_candidates(["spare/reft"])] == ["spare/reft"]
    assert {one.scheme for one in all_candidates(["checkpoint"])} == {"checkpoint"}
    with pytest.raises(UserError, match="no such candidate"):
        all_candidates(["spear"])


def test_every_scheme_is_told_the_same_job() -> None:
    shape = job_shape(load_scenario("head-to-head"))
    assert (shape.stages, shape.tensor, shape.sequences) == (16, 32, 64)
    assert shape.stages_that_fit == 2


def test_combinations_have_their_controls() -> None:
    names = [one.name for one in all_candidates(["spare-ntp", "replication-ntp", "spare"])]
    assert names == [
        "replication-ntp/reft",
        "replication-ntp/reft/r=1",
        "spare/storage",
        "spare/reft",
        "spare-ntp/reft",
        "spare-ntp/reft/r=1",
    ]


def test_where_all_recoveries_cost_the_same_they_do() -> None:
    ground = measured_ground(["reft"])
    (mecefo,) = all_candidates(["mecefo/reft"])
    cell = Cell("stalls", 0.0, 0.0, 1e5, 300.0, stall_s=77.0)
    entry = enter(mecefo, cell, ground)
    assert isinstance(entry, Entry)
    prices = entry.question.durations.recovery
    # A migration is part of a restart.
    others_s = {"restart": 300.0, "migrate": 0.0}
    for known in get_args(RecoveryKind):
        stated_s = others_s.get(known, 77.0)
        assert prices.duration_s(Recovery(known, moves=(Move(0, 0, 0, 1),)), 60) == stated_s


def test_who_cannot_be_built_says_why() -> None:
    (replication,) = all_candidates(["replication/reft"])
    cell = Cell("domains", 4 * 512, 0.0, 1e5, 300.0, groups=4)
    ground = measured_ground(["reft"])
    assert isinstance(enter(replication, cell, ground), Entry)
    assert "does not fit" in str(enter(replace(replication, redundancy=9), cell, ground))
