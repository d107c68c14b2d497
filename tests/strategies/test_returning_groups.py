"""Groups that come back at a checkpoint: any scheme stands as if only the others had failed."""

from __future__ import annotations

from math import ceil

import pytest
from faultline.strategies.base import Continue
from faultline.strategies.registry import build_strategy
from hypothesis import given, settings
from hypothesis import strategies as st


@given(
    scheme=st.sampled_from(["spare", "replication"]),
    failing=st.lists(st.integers(0, 29), unique=True, max_size=12),
    returning=st.sets(st.integers(0, 29)),
)
@settings(max_examples=200, deadline=None)
def test_a_scheme_forgets_the_failures_of_those_who_return(
    scheme: str, failing: list[int], returning: set[int]
) -> None:
    strategy = build_strategy(scheme, 30, 4)
    down: set[int] = set()
    for group in failing:
        if not isinstance(strategy.on_failures([group]), Continue):
            return
        down.add(group)
    strategy.on_return(sorted(returning & down))
    left = down - returning
    plan = strategy.plan()
    assert set(plan.members) == set(range(30)) - left
    fresh = build_strategy(scheme, 30, 4)
    if left:
        fresh.on_failures(sorted(left))
    assert fresh.plan() == plan
    if scheme == "spare":
        assert plan.stacks >= ceil(30 / (30 - len(left)))


@pytest.mark.parametrize("scheme", ["spare", "replication"])
def test_all_back_is_a_fresh_start(scheme: str) -> None:
    strategy = build_strategy(scheme, 30, 4)
    at_first = strategy.plan()
    strategy.on_failures([3, 9])
    strategy.on_return([3, 9])
    assert strategy.plan() == at_first


def test_a_controller_that_sees_one_failure_at_a_time_drops_all_that_are_down() -> None:
    from faultline.strategies.replication import Replication

    strategy = Replication(12, 3, Replication.Options(controller_sees="lowest"))
    for group in (1, 4, 9):
        strategy.on_failures([group])
    strategy.on_return([4])
    assert set(strategy.plan().members) == set(range(12)) - {1, 9}
