"""Who takes part in the head-to-head, and what they are told."""

from __future__ import annotations

import pytest

from experiments.errors import UserError
from experiments.head_to_head.contestants import all_contestants, options_for, why_absent
from strategies.protection.registry import all_protections
from strategies.registry import all_strategies


def test_every_registered_scheme_takes_part_with_known_protections() -> None:
    contestants = all_contestants()
    assert {one.scheme for one in contestants} == set(all_strategies())
    assert {one.protection for one in contestants} <= set(all_protections())
    assert len({one.name for one in contestants}) == len(contestants)


def test_a_scheme_or_one_contestant_can_be_chosen() -> None:
    assert [one.name for one in all_contestants(["spare/reft"])] == ["spare/reft"]
    assert {one.scheme for one in all_contestants(["checkpoint"])} == {"checkpoint"}
    with pytest.raises(UserError, match="no such contestant"):
        all_contestants(["spear"])


@pytest.mark.parametrize("name", all_strategies())
def test_what_a_scheme_is_told_are_options_it_has(name: str) -> None:
    told = options_for(name)
    assert set(told) <= set(all_strategies()[name].Options.model_fields)
    all_strategies()[name].Options(**told)


def test_schemes_of_domains_are_told_their_size_and_number() -> None:
    assert options_for("ntp")["domain_gpus"] == 32
    assert options_for("mecefo")["stages"] == 16
    assert options_for("checkpoint") == {}


def test_who_cannot_be_built_says_why() -> None:
    (replication,) = all_contestants(["replication/reft"])
    assert why_absent(replication, 4, 2) is None
    assert "does not fit" in str(why_absent(replication, 4, 9))
