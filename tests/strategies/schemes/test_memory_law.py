"""What does not fit into a GPU is not entered, whichever scheme, and is counted."""

from __future__ import annotations

from typing import Any

import pytest
from faultline.simulator.loop.contract import Contract
from faultline.strategies.interface.job_shape import loses_a_share
from faultline.strategies.interface.scheme import Continue, Hit, StepPlan, WipeOut
from faultline.strategies.schemes import bamboo
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.helpers import built

EIGHT = {"stages": 8, "layers": 32}
DOMAIN = {"stages": 1, "tensor": 16}
ONE_NODE = [Hit(0, 3, 3, 8)]
ONE_GPU = [Hit(0, 3, 3, 16)]
ALL_BUT_FOUR = [Hit(group, 0, 6, 8) for group in range(4)]


@pytest.mark.parametrize(
    ("scheme", "redundancy", "job", "little", "hits", "refused", "allowed"),
    [
        # No pipeline has a second stage: the pipeline idles, or all are formed anew at once.
        ("mecefo", 1, EIGHT, {"stages_that_fit": 1}, ONE_NODE, {"batch_share": 0.75}, None),
        ("bamboo", 1, EIGHT, {"stages_that_fit": 1}, ONE_NODE, {"pace": 32 / 31}, {"pace": 1.5}),
        # The pipeline of seven has to merge with another.
        ("oobleck", 1, EIGHT, {"least_stages": 8}, ONE_NODE, {}, None),
        # Four nodes make up no pipeline of eight.
        (
            "varuna",
            1,
            EIGHT,
            {"least_stages": 8},
            ALL_BUT_FOUR,
            {"members": ()},
            {"pace": 256 / 60},
        ),
        # 15 GPUs of a domain hold no more than 16 have to: its replica is out.
        ("ntp", 1, DOMAIN, {"least_tensor": 16}, ONE_GPU, {"members": (1, 2, 3)}, None),
        ("ntp-pw", 1, DOMAIN, {"least_tensor": 16}, ONE_GPU, {"members": (1, 2, 3)}, None),
    ],
)
def test_what_does_not_fit_is_not_entered(
    scheme: str,
    redundancy: int,
    job: dict[str, Any],
    little: dict[str, Any],
    hits: list[Hit],
    refused: dict[str, Any],
    allowed: dict[str, Any] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bamboo, "_OVERLOADED_SHARE", 1.0)
    plans: list[StepPlan] = []
    for memory, times in ({}, 0), (little, 1):
        strategy = built(scheme, 4, redundancy, **job, **memory)
        for hit in hits:
            strategy.on_hit(hit)
        verdict = strategy.on_failures(sorted({hit.group for hit in hits}))
        if isinstance(verdict, WipeOut):
            strategy.restart()
            for hit in hits:
                strategy.on_hit(hit)
        plans.append(strategy.plan())
        assert strategy.states_refused == times
    assert plans[0] != plans[1]
    for plan, expected in zip(plans, (allowed or {}, refused), strict=True):
        for name, value in expected.items():
            assert getattr(plan, name) == pytest.approx(value), name


def test_a_shared_optimizer_needs_so_many_groups() -> None:
    """Three replicas are enough, and what two would have to hold does not fit."""
    strategy = built("spare", 4, 2, least_groups=3)
    contract = Contract(strategy, 4)
    assert isinstance(contract.verdict((1,)), Continue)
    assert isinstance(contract.verdict((3,)), WipeOut)
    assert strategy.states_refused == 1


@pytest.mark.parametrize("scheme", ["dp-drop", "ntp"])
def test_nor_does_a_restart_go_on_with_fewer(scheme: str) -> None:
    """Three of four replicas have lost a GPU each, and are dropped; one is too few, two are not."""
    stated: dict[str, Any] = {"least_groups": 2, "least_tensor": 16, "pod_groups": 1, **DOMAIN}
    strategy = built(scheme, **stated)
    for group, left in enumerate([(1, 2, 3), (2, 3), ()]):
        strategy.on_hit(Hit(group, 3, 3, 16))
        before = strategy.states_refused
        assert strategy.on_failures([group]) == WipeOut((group,))
        assert strategy.plan().members == left
        refused_degree = scheme == "ntp"
        assert strategy.states_refused - before == refused_degree + (not left)


def holders_of(members: list[int]) -> list[set[int]]:
    """Return the holders of each share: two by two, three at the end of an odd number."""
    pairs = [set(members[at : at + 2]) for at in range(0, len(members) - 1, 2)]
    if len(members) % 2:
        last = pairs.pop() if pairs else set()
        pairs.append(last | {members[-1]})
    return pairs


@given(members=st.sets(st.integers(0, 30), min_size=1, max_size=9), data=st.data())
def test_a_share_is_lost_with_two_that_keep_each_others(
    members: set[int], data: st.DataObject
) -> None:
    """Of three in a ring, any two are one and the keeper of its share."""
    group = sorted(members)
    missing = sorted(data.draw(st.sets(st.sampled_from(group), min_size=1)))
    alone = len(group) == 1
    together = any(len(pair.intersection(missing)) > 1 for pair in holders_of(group))
    assert loses_a_share(group, missing, "neighbour") == (alone or together)
    assert loses_a_share(group, missing, "none")
    assert not loses_a_share(group, missing, None)


def test_without_members_nothing_is_lost() -> None:
    assert not loses_a_share([0, 1], [], "none")
