"""Checkpoint-only: nothing is masked."""

from __future__ import annotations

import pytest
from faultline.strategies.base import StepPlan, WipeOut
from faultline.strategies.errors import StrategyError
from faultline.strategies.registry import all_strategies, build_strategy, strategy_class


def test_every_failure_is_a_wipe_out() -> None:
    scheme = build_strategy("checkpoint", 4, 1)
    assert scheme.plan() == StepPlan((0, 1, 2, 3), 1, 1)
    assert scheme.on_failures([2]) == WipeOut((2,))
    scheme.restart()
    assert scheme.plan() == StepPlan((0, 1, 2, 3), 1, 1)
    assert scheme.checkpoint_waits


@pytest.mark.parametrize("redundancy", [0, 2, 9])
def test_redundancy_makes_no_sense_here(redundancy: int) -> None:
    with pytest.raises(StrategyError, match=r"strategy\.redundancy: checkpoint has no redundancy"):
        build_strategy("checkpoint", 4, redundancy)


def test_every_scheme_is_found_by_its_name() -> None:
    assert {"checkpoint", "replication", "spare"} <= set(all_strategies())
    for name, scheme in all_strategies().items():
        assert strategy_class(name) is scheme
        assert scheme.name == name
        assert scheme.summary


def test_an_unknown_scheme_is_told_with_those_there_are() -> None:
    with pytest.raises(StrategyError, match=r"no scheme 'hope'; use one of .*checkpoint, "):
        strategy_class("hope")
