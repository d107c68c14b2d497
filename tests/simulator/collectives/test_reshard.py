"""Gradient sync between replicas of different degrees: real sums, what moves, and how long."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from faultline.simulator.collectives.schedule import Hop
from faultline.strategies.nonuniform.replica_plan import resharding_bytes
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.simulator.collectives.numeric_runner import simulate
from tests.simulator.collectives.resharded_all_reduce import (
    NonuniformAllReduce,
    even_sharding,
    nested_shardings,
    reduced_sharding,
    shard_elements,
    transfers,
)
from tests.simulator.collectives.stage_hand import Simulate, gpu, one_after_the_other

NVLINK = Hop(2 * 250e-9 + 100e-9, 450e9)
RAIL = Hop(2 * (0.5e-6 + 0.25e-6) + 0.2e-6, 50e9)
"""Below one leaf switch of the HGX servers here."""

degree_lists = st.lists(st.integers(1, 9), min_size=1, max_size=5)


def sync_of(degrees: list[int], elements: int, size_bytes: float = 1.0) -> NonuniformAllReduce:
    return NonuniformAllReduce(sum(degrees), size_bytes, tuple(degrees), elements)


def scatter(sync: NonuniformAllReduce, gradients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give each rank its shard of its replica's gradients, and NaN elsewhere."""
    buffers = np.full((sync.members, sync.elements), np.nan)
    starts = [0, *accumulate(sync.degrees)]
    for replica, degree in enumerate(sync.degrees):
        for position in range(starts[replica], starts[replica] + degree):
            for first, count in sync.shard(position):
                columns = slice(first, first + count)
                buffers[position, columns] = gradients[replica, columns]
    return buffers


def assert_summed(
    sync: NonuniformAllReduce, buffers: NDArray[np.float64], sums: NDArray[np.float64]
) -> None:
    for position in range(sync.members):
        for first, count in sync.shard(position):
            np.testing.assert_array_equal(
                buffers[position, first : first + count], sums[first : first + count]
            )


@given(degree_lists, st.integers(1, 200))
def test_every_gradient_arrives_summed_exactly_once(degrees: list[int], elements: int) -> None:
    """Replica r gives 16^r times 1 + element: the sum's digits tell who is in it, and how often."""
    sync = sync_of(degrees, elements)
    base = 16.0 ** np.arange(len(degrees))
    gradients = base[:, np.newaxis] * (1 + np.arange(elements) % 15)
    buffers = scatter(sync, gradients)
    simulate(sync, buffers)
    assert_summed(sync, buffers, gradients.sum(axis=0))


@given(degree_lists, st.integers(1, 200))
def test_shards_make_up_the_vector_and_nest(degrees: list[int], elements: int) -> None:
    shardings = nested_shardings(elements, degrees)
    for degree, sharding in shardings.items():
        held = [
            element
            for shard in sharding
            for first, count in shard
            for element in range(first, first + count)
        ]
        assert sorted(held) == list(range(elements))
        sizes = [shard_elements(shard) for shard in sharding]
        assert len(sizes) == degree
        assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 40), st.data())
def test_only_spare_ranks_send(healthy: int, data: st.DataObject) -> None:
    """Each sends all it has, to core ranks only, as the closed form counts."""
    reduced = data.draw(st.integers(1, healthy))
    elements = healthy * reduced * data.draw(st.integers(1, 3))
    before = even_sharding(elements, healthy)
    after = nested_shardings(elements, [healthy, reduced])[reduced]
    moved = transfers(before, after)
    expected = resharding_bytes(float(elements), healthy, reduced)
    sent = [0] * healthy
    received = [0] * healthy
    for transfer in moved:
        assert transfer.receiver < reduced <= transfer.sender
        sent[transfer.sender] += transfer.piece.elements
        received[transfer.receiver] += transfer.piece.elements
    assert sent[reduced:] == [expected.spare_sends] * (healthy - reduced)
    assert received[:reduced] == [expected.core_receives] * reduced
    assert all(shard_elements(shard) == expected.core_syncs for shard in after)


def test_resharding_by_hand() -> None:
    """Twelve elements on four ranks; the fourth gives its three to the others, one each."""
    before = even_sharding(12, 4)
    assert before == (((0, 3),), ((3, 3),), ((6, 3),), ((9, 3),))
    after = reduced_sharding(before, 3)
    assert after == (((0, 3), (9, 1)), ((3, 3), (10, 1)), ((6, 3), (11, 1)))
    assert transfers(before, after) == [(3, 0, (9, 1)), (3, 1, (10, 1)), (3, 2, (11, 1))]


def test_the_formula_by_hand() -> None:
    """TP4 and TP3, 12 GB: 3 GB leave the spare rank, twice; each core rank syncs 4 GB, 2 a block.

    At 10 GB/s inside and 1 GB/s between, 1 ms latency: 2 * 0.301 + 2 * 2.001 s.
    """
    sync = sync_of([4, 3], 12, 12e9)
    time_s = sync.alpha_beta_s(Hop(1e-3, 1e9), Hop(1e-3, 10e9))
    assert time_s == pytest.approx(2 * 0.301 + 2 * 2.001)
    # Equal degrees have nothing to reshard: a ring for each rank.
    assert sync_of([4, 4], 8, 8e9).alpha_beta_s(Hop(1e-3, 1e9)) == pytest.approx(2 * 1.001)
    assert sync_of([4], 8, 8e9).alpha_beta_s(Hop(1e-3, 1e9)) == 0.0


@pytest.fixture(scope="module")
def servers(servers_of: Callable[..., Path]) -> Path:
    return servers_of(domains=4)


def hosts_of(degrees: list[int]) -> list[str]:
    """The first GPUs of each server: rank k of every replica on rail k."""
    return [gpu(8 * n + k) for n, degree in enumerate(degrees) for k in range(degree)]


@pytest.mark.parametrize("degrees", [[8, 7], [8, 8, 6], [8, 7, 6], [8, 7, 6, 8]])
def test_it_takes_its_alpha_beta_time_on_simgrid(degrees: list[int], servers: Path) -> None:
    """At both fidelities, within 2 %."""
    sync = sync_of(degrees, 8 * 7 * 6 * len(degrees), size_bytes=8e9)
    simulates = [Simulate(sync, hosts_of(degrees), how) for how in ("flow", "chunk")]
    for time_s in one_after_the_other(servers, simulates):
        assert time_s == pytest.approx(sync.alpha_beta_s(RAIL, NVLINK), rel=0.02)
