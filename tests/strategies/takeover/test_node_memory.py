"""What a node keeps when it does several stages: by hand, and what must hold for any stage."""

from __future__ import annotations

import pytest
from faultline.strategies.errors import StrategyError
from faultline.strategies.takeover.node_costs import (
    StageMemory,
    micro_batches_in_flight,
    node_memory_bytes,
    overhead_from,
)
from faultline.strategies.takeover.pipeline_schedule import stage_order
from faultline.strategies.takeover.techniques import LowRank, Techniques
from hypothesis import given
from hypothesis import strategies as st

STAGE = StageMemory(
    state_bytes=100.0,
    attention_bytes=12.0,
    ffn_bytes=20.0,
    ffn_input_bytes=2.0,
    layers=2,
    projection_bytes_per_rank=0.5,
)


@pytest.mark.parametrize(
    ("techniques", "by_hand"),
    [
        (Techniques(), 7 + 2 * (100 + 3 * 32)),
        (Techniques(True), 7 + 2 * (100 + 3 * 20)),
        (Techniques(True, True), 7 + 2 * (100 + 3 * 2) + 9),
        (Techniques(True, True, LowRank(4)), 7 + 2 * (100 + 3 * 2 + 4 * 0.5) + 9),
    ],
)
def test_two_tasks_by_hand(techniques: Techniques, by_hand: float) -> None:
    assert node_memory_bytes(STAGE, 2, techniques, 3, 7) == pytest.approx(by_hand)


@given(st.integers(1, 4), st.integers(1, 8), st.booleans(), st.booleans())
def test_techniques_save_memory_but_not_for_one_task(
    tasks: int, in_flight: int, skip: bool, recompute: bool
) -> None:
    plain = node_memory_bytes(STAGE, tasks, Techniques(), in_flight)
    used = node_memory_bytes(STAGE, tasks, Techniques(skip, recompute), in_flight)
    if tasks == 1:
        assert used == plain
    elif skip or recompute:
        assert used < plain
    more = node_memory_bytes(STAGE, tasks + 1, Techniques(), in_flight)
    assert more > plain


@given(st.floats(0.0, 1e3), st.floats(0.0, 8.0))
def test_the_overhead_is_what_is_measured_beyond_the_stage(extra: float, in_flight: float) -> None:
    measured = node_memory_bytes(STAGE, 1, Techniques(), in_flight, extra)
    assert overhead_from(measured, STAGE, in_flight) == pytest.approx(extra, abs=1e-9)


@given(st.integers(1, 9), st.integers(0, 8), st.integers(1, 12))
def test_micro_batches_in_flight_are_those_of_the_order(
    nodes: int, place: int, micro_batches: int
) -> None:
    node = place % nodes
    most = now = 0
    for direction, _ in stage_order(node, nodes, micro_batches):
        now += 1 if direction == "forward" else -1
        most = max(most, now)
    assert micro_batches_in_flight(node, nodes, micro_batches) == most


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(StrategyError, match="no node 8"):
        micro_batches_in_flight(8, 8, 8)
