"""Rings over scale-up domains: what leaves a domain is what one ring sends, by all its adapters."""

from __future__ import annotations

from collections import Counter

import pytest
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.pattern.step_pattern import (
    PartWork,
    PassWork,
    RingEdge,
    StepPattern,
    ring_edges,
)
from faultline.simulator.pattern.teams import Teams
from hypothesis import given
from hypothesis import strategies as st


def test_single_members_form_one_ring() -> None:
    assert ring_edges("ABC") == (RingEdge(0, 1, 1.0), RingEdge(1, 2, 1.0), RingEdge(2, 0, 1.0))
    assert ring_edges("A") == ()


def test_members_of_one_domain_use_no_adapter() -> None:
    assert ring_edges("AA") == (RingEdge(0, 1, 1.0), RingEdge(1, 0, 1.0))


@given(st.lists(st.integers(1, 8), min_size=2, max_size=6))
def test_each_domain_sends_and_receives_the_bytes_of_one_ring(sizes: list[int]) -> None:
    """Each of min(sizes) adapters has its equal part; inside, the hops of all rings are even."""
    domains = [number for number, size in enumerate(sizes) for _ in range(size)]
    left, entered = Counter[int](), Counter[int]()
    for here, there, share in ring_edges(domains):
        if domains[here] != domains[there]:
            assert share == 1.0 / min(sizes)
            left[domains[here]] += 1
            entered[domains[there]] += 1
        else:
            assert share == pytest.approx(1.0 - 1.0 / sizes[domains[here]])
    assert set(left.values()) == set(entered.values()) == {min(sizes)}
    assert len(left) == len(entered) == len(sizes)


@pytest.mark.parametrize("servers", [2, 3])
@pytest.mark.parametrize("replicas", [2, 4])
def test_replicas_of_equal_servers_stand_for_each_other(servers: int, replicas: int) -> None:
    """One replica is simulated then, and a few of its micro-batches."""
    groups = servers * replicas
    pattern = StepPattern(
        groups, 2, 8 // replicas, 1, 8, (PartWork(PassWork(1.0), PassWork(2.0)),) * 2, 0.0, 1.0,
        hidden_gradient_bytes=(1.0, 1.0), gradient_bytes=(1.0, 1.0), optimizer_flop=(1.0, 1.0),
    )  # fmt: skip
    everybody = StepShares(tuple(range(groups)))
    teams = Teams(pattern, everybody, lambda rank: (rank.replica // replicas, rank.stage))
    apart, near = teams.kinds(dict.fromkeys(range(groups)))
    assert (len(apart), near) == (1, [])
