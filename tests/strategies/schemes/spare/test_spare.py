"""SPARe: whatever fails, every type is computed by a survivor and its gradient counts once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Continue, StepPlan, WipeOut
from faultline.strategies.schemes.spare.golomb import largest_redundancy
from faultline.strategies.schemes.spare.spare import Spare
from hypothesis import given
from hypothesis import strategies as st


def spare(groups: int, redundancy: int, **options: Any) -> Spare:
    return Spare(groups, redundancy, Spare.Options(**options), JobShape())


def test_the_stacks_of_seven_groups_by_the_ruler_0_1_3() -> None:
    """Group w hosts w, w + 1 and w + 3, and computes the first."""
    scheme = spare(7, 3)
    assert [scheme.shards.stack(group) for group in range(7)] == [
        [0, 1, 3],
        [1, 2, 4],
        [2, 3, 5],
        [3, 4, 6],
        [4, 5, 0],
        [5, 6, 1],
        [6, 0, 2],
    ]
    assert scheme.plan() == StepPlan(tuple(range(7)), 1)
    assert scheme.shards.assignment() == list(range(7))


@pytest.mark.parametrize(
    ("then", "verdict", "members", "assigned"),
    [
        # Group 5's type 5 stands second at group 4: covered, no patch, same S.
        (5, Continue((5,)), (0, 1, 2, 4, 6), (5, 4)),
        # Type 3 is left on group 0 alone, third: swapped with the second, so that group 0 computes
        # 0 and 3. Type 2, third at 6 and second at 1, needs no move; type 1 is group 1's first.
        (2, Continue((2,), {0: 1}, 1), (0, 1, 4, 5, 6), (3, 0)),
    ],
)
def test_a_failure_after_the_first_moves_what_stands_nowhere_else(
    then: int, verdict: Continue, members: tuple[int, ...], assigned: tuple[int, int]
) -> None:
    """Six groups cannot hold seven types with one each. S = 2: type 3 stands second at group 2."""
    scheme = spare(7, 3)
    assert scheme.on_failures([3]) == Continue((3,), dict.fromkeys([0, 1, 2, 4, 5, 6], 1), 0)
    assert scheme.plan() == StepPlan((0, 1, 2, 4, 5, 6), 2)
    assert scheme.shards.assignment()[3] == 2
    assert scheme.on_failures([then]) == verdict
    assert scheme.plan() == StepPlan(members, 2)
    assert scheme.shards.assignment()[assigned[0]] == assigned[1]
    assert scheme.shards.stack(0) == ([0, 3, 1] if verdict.patch else [0, 1, 3])


def test_a_type_that_has_lost_its_three_hosts_is_a_wipe_out() -> None:
    """Type 3 lives on 3, 2 and 0, which may go one by one or at once."""
    scheme = spare(7, 3)
    scheme.on_failures([3])
    scheme.on_failures([2])
    assert scheme.on_failures([0]) == WipeOut((0,))
    assert spare(7, 3).on_failures([0, 2, 3]) == WipeOut((0, 2, 3))


@pytest.mark.parametrize("redundancy", [1, 2])
def test_without_copies_to_spare_the_first_or_second_failure_is_the_last(redundancy: int) -> None:
    """R = 1: any failure; r = 2 with neighbours as hosts: two neighbours."""
    scheme = spare(8, redundancy)
    verdicts = [scheme.on_failures([group]) for group in range(3, 3 + redundancy)]
    assert isinstance(verdicts[-1], WipeOut)
    assert all(isinstance(verdict, Continue) for verdict in verdicts[:-1])


def test_patch_compute_of_the_study_is_one_stack_a_group() -> None:
    """Losing 12 of 24 at once makes S grow by more than 1: the study computes one all the same."""
    failed = [0, 1, 2, 4, 5, 8, 10, 13, 17, 20, 21]
    study, sound = (spare(24, 5, patch_compute=kind) for kind in ("one-stack", "as-needed"))
    in_study, soundly = study.on_failures(failed), sound.on_failures(failed)
    assert isinstance(in_study, Continue)
    assert isinstance(soundly, Continue)
    assert study.plan() == sound.plan()
    assert set(in_study.patch.values()) == {1}
    assert in_study.patch.keys() == soundly.patch.keys()
    assert min(soundly.patch.values()) >= study.plan().stacks - 1


def test_a_layout_without_a_ruler_is_refused() -> None:
    with pytest.raises(StrategyError, match="redundancy 9 needs more than 88 groups"):
        spare(24, 9)


@given(data=st.data())
def test_every_gradient_counts_exactly_once_after_any_failures(data: st.DataObject) -> None:
    """Over any batches of failures until a wipe-out.

    - every type is provided by one survivor, which has it among its first S;
    - the survivors' sum over the types they provide is the sum over all types;
    - what a group computed before and its patch make up what it has to compute: no group provides
      a type that it never computed;
    - a wipe-out comes exactly when a type has lost all its hosts.
    """
    groups = data.draw(st.integers(2, 26))
    redundancy = data.draw(st.integers(1, min(5, largest_redundancy(groups))))
    scheme = spare(groups, redundancy)
    shards = scheme.shards
    gradients = np.random.default_rng(1).standard_normal((groups, 4))
    hosts = [{u for u in range(groups) if i in shards.stack(u)} for i in range(groups)]
    order = data.draw(st.permutations(range(groups)))
    failed: set[int] = set()
    while True:
        size = data.draw(st.integers(1, 4))
        batch, order = sorted(order[:size]), order[size:]
        failed |= set(batch)
        computed = {u: set(shards.stack(u)[: shards.stacks]) for u in scheme.plan().members}
        verdict = scheme.on_failures(batch)
        assert isinstance(verdict, WipeOut) == any(host <= failed for host in hosts)
        if isinstance(verdict, WipeOut):
            return
        assert verdict.dropped == tuple(batch)
        members = scheme.plan().members
        assert members == tuple(sorted(set(range(groups)) - failed))
        providers = shards.assignment()
        for shard_type, group in enumerate(providers):
            assert group in members
            assert shard_type in shards.stack(group)[: shards.stacks]
        total = np.zeros(4)
        for group in members:
            decided = [i for i, provider in enumerate(providers) if provider == group]
            assert len(decided) <= shards.stacks
            total += gradients[decided].sum(axis=0)
        np.testing.assert_allclose(total, gradients.sum(axis=0))
        for group in members:
            to_compute = set(shards.stack(group)[: shards.stacks]) - computed[group]
            assert len(to_compute) == verdict.patch.get(group, 0)
