"""Oobleck's pipelines: batches against brute force, losses, an iteration by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.schemes.takeover.pipelines import (
    iteration_time,
    micro_batch_shares,
    regrouped,
)
from faultline.strategies.schemes.takeover.templates import even_template
from hypothesis import assume, given
from hypothesis import strategies as st


@given(
    paces=st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.1, 7.0]), min_size=1, max_size=4),
    micro_batches=st.integers(1, 13),
)
def test_no_other_shares_vary_less(paces: list[float], micro_batches: int) -> None:
    assume(micro_batches >= len(paces))

    def spread(shares: tuple[int, ...]) -> float:
        times = [share * pace for share, pace in zip(shares, paces, strict=True)]
        return sum((time - sum(times) / len(times)) ** 2 for time in times)

    shares = micro_batch_shares(paces, micro_batches)
    assert sum(shares) == micro_batches
    assert min(shares) >= 1
    least = min(
        spread(other)
        for other in product(range(1, micro_batches + 1), repeat=len(paces))
        if sum(other) == micro_batches
    )
    assert spread(shares) == pytest.approx(least)


def test_many_pipelines_share_a_batch() -> None:
    shares = micro_batch_shares([4.0] * 5_000 + [3.0] * 4_999 + [5.0], 80_000)
    assert sum(shares) == 80_000
    assert {max(shares[:5_000]) - min(shares[:5_000]), shares[0] < shares[-2]} <= {0, 1}
    with pytest.raises(StrategyError, match="1 are too few for 2 pipelines"):
        micro_batch_shares([1.0, 1.0], 1)


def lengths(nodes: Sequence[int], least: int) -> tuple[int, ...]:
    """Return how many nodes each pipeline has; all that were left are in one, each once."""
    left = regrouped(
        [[(group, place) for place in range(n)] for group, n in enumerate(nodes)], least
    )
    if left:
        all_nodes = [(group, place) for group, n in enumerate(nodes) for place in range(n)]
        assert sorted(node for pipeline in left for node in pipeline) == all_nodes
        assert len({pipeline[0][0] for pipeline in left}) == len(left)
    return tuple(map(len, left))


def test_pipelines_are_regrouped_in_order() -> None:
    assert lengths([8, 7, 8, 6], 1) == (8, 8, 7, 6)
    assert lengths([9, 9, 7], 8) == (9, 8, 8)
    assert lengths([8, 8, 7, 8], 8) == (15, 8, 8)
    assert lengths([7, 6], 8) == (13,)
    assert lengths([7, 0], 8) == ()


@given(nodes=st.lists(st.integers(0, 12), min_size=1, max_size=7), least=st.integers(1, 9))
def test_a_loss_costs_no_node_and_no_pipeline_more_than_it_must(
    nodes: list[int], least: int
) -> None:
    """Nodes stay; pipelines are merged only where all together have too few nodes to spare."""
    left = lengths(nodes, least)
    up = [count for count in nodes if count]
    if sum(up) < least:
        assert left == ()
        return
    assert sum(left) == sum(up)
    assert min(left) >= least
    assert len(left) <= len(up)
    if sum(up) >= least * len(up):
        assert len(left) == len(up)
    if min(up) >= least:
        assert sorted(left) == sorted(up)


def test_an_iteration_by_hand() -> None:
    """Six layers on 3 and on 2 nodes: T is 6 + 7 * 2 + 6 and 6 + 5 * 3 + 6, 26/3 and 27/2 a stage.

    Of 20 micro-batches 12 and 8 differ least (104 and 108): 11 * 2 + 6 and 7 * 3 + 6.
    """
    pipelines = [even_template(6, 3), even_template(6, 2)]
    assert [one.worth for one in pipelines] == [26, 27]
    assert micro_batch_shares([one.time_per_micro_batch for one in pipelines], 20) == (12, 8)
    assert iteration_time(pipelines, 20) == 28
