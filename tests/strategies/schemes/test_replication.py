"""Replication: a set of r groups computes the same, and is lost when all of them are."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pytest
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Continue, StepPlan, Verdict, WipeOut
from faultline.strategies.plugins.registry import build_strategy
from faultline.strategies.schemes.replication import Replication
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples


def replication(groups: int, degree: int, **options: Any) -> Replication:
    return Replication(groups, degree, Replication.Options(**options), JobShape())


def test_each_group_computes_its_set_s_types_in_one_go() -> None:
    assert replication(6, 3).plan() == StepPlan((0, 1, 2, 3, 4, 5), 1, 3)


@pytest.mark.parametrize(
    ("groups", "sees", "failures"),
    [
        # Sets 0 1 2 and 3 4 5: groups 0 and 1, then 3, are masked; 2 is the last of its set.
        (6, "all", [([0, 1], Continue((0, 1))), ([3], Continue((3,))), ([2], WipeOut((2,)))]),
        (6, "all", [([3, 4, 5], WipeOut((3, 4, 5)))]),
        # The last set is smaller where the degree does not divide: 6 by itself, or 6 and 7.
        (7, "all", [([6], WipeOut((6,)))]),
        (8, "all", [([6], Continue((6,)))]),
        # The study's controller sees the lowest only. The others stay members, are missing again
        # in the next step, and are seen one by one.
        (
            6,
            "lowest",
            [
                ([0, 1, 4], Continue((0,))),
                ([1, 4], Continue((1,))),
                ([4], Continue((4,))),
                ([2], WipeOut((2,))),
            ],
        ),
    ],
)
def test_a_set_is_lost_with_its_last_group(
    groups: int, sees: str, failures: list[tuple[list[int], Verdict]]
) -> None:
    """Of a set of three; nothing has to be computed again, and nothing moves."""
    scheme = replication(groups, 3, controller_sees=sees)
    left = set(range(groups))
    for missing, verdict in failures:
        assert scheme.on_failures(missing) == verdict
        left -= set(verdict.dropped if isinstance(verdict, Continue) else ())
        assert scheme.plan() == StepPlan(tuple(sorted(left)), 1, 3)


def test_which_groups_wait_for_the_checkpoint_is_a_choice() -> None:
    assert replication(6, 3).checkpoint_waits
    assert not replication(6, 3, checkpoint_waits=False).checkpoint_waits


@pytest.mark.parametrize("degree", [0, -1, 7])
def test_a_degree_that_does_not_fit_is_refused(degree: int) -> None:
    with pytest.raises(StrategyError, match="use a degree from 1 to 6"):
        replication(6, degree)


@given(data=st.data(), sees=st.sampled_from(["all", "lowest"]))
def test_the_gradients_of_the_survivors_are_those_of_all_types(
    data: st.DataObject, sees: str
) -> None:
    """Any failures until a wipe-out: one survivor a set provides its types, each counted once.

    A wipe-out comes exactly with the failure that takes the last group of a set.
    """
    groups = data.draw(st.integers(1, 20))
    degree = data.draw(st.integers(1, groups))
    scheme = replication(groups, degree, controller_sees=sees)
    gradients = np.random.default_rng(0).standard_normal((groups, 5))
    sets = [range(first, min(first + degree, groups)) for first in range(0, groups, degree)]
    down: set[int] = set()
    while True:
        up = sorted(set(scheme.plan().members) - down)
        if up:
            down |= data.draw(st.sets(st.sampled_from(up), min_size=1, max_size=3))
        missing = sorted(down & set(scheme.plan().members))
        verdict = scheme.on_failures(missing)
        members = set(scheme.plan().members)
        seen = missing if sees == "all" else missing[:1]
        lost = any(not (members - set(seen)) & set(one) for one in sets)
        assert isinstance(verdict, WipeOut) == lost
        if lost:
            return
        assert verdict.dropped == tuple(seen)
        providers = [min(members & set(one)) for one in sets]
        total = sum(gradients[list(sets[group // degree])].sum(axis=0) for group in providers)
        np.testing.assert_allclose(total, gradients.sum(axis=0))


@given(
    scheme=st.sampled_from(["spare", "replication"]),
    failing=st.lists(st.integers(0, 29), unique=True, max_size=12),
    returning=st.sets(st.integers(0, 29)),
)
@examples(2)
def test_a_scheme_forgets_the_failures_of_groups_that_return(
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
