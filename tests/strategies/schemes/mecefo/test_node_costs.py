"""What a node with several tasks costs: by FLOP, and as measured."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
from faultline.experiments.studies.mecefo.node_memory import (
    StageMemory,
    micro_batches_in_flight,
    node_memory_bytes,
    overhead_from,
)
from faultline.simulator.workload.known_models import LLAMA2_7B
from faultline.simulator.workload.transformer import token_flop
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.pipeline_schedule import approximate_iteration, stage_passes
from faultline.strategies.interface.stage_work import (
    LayerShape,
    LowRank,
    Techniques,
    low_rank_share,
    task_flop,
)
from faultline.strategies.schemes.mecefo.node_costs import (
    NO_FAULT,
    NO_TECHNIQUE,
    SHAPE_7B,
    SKIP,
    SKIP_RECOMPUTE,
    CostModel,
    calibrated_costs,
    doubled_cost,
    flop_costs,
    measured_cost,
)
from hypothesis import given
from hypothesis import strategies as st

TOKENS = 256 // 8 * 256
"""A micro-batch of the ablation's batch of 256 sequences."""


def doubled(techniques: Techniques) -> float:
    return flop_costs(SHAPE_7B, techniques, TOKENS)(2)


def test_flop_of_the_techniques_one_by_one() -> None:
    assert doubled(Techniques()) == pytest.approx(2.0)
    assert doubled(Techniques(skip_attention=True)) == pytest.approx(1.549, abs=5e-4)
    assert doubled(Techniques(True, True)) == pytest.approx(1.990, abs=5e-4)
    # A low rank takes back what recomputation adds, but for its own share.
    assert doubled(Techniques(True, True, LowRank(1))) == pytest.approx(1.549, abs=5e-4)
    assert round(doubled(Techniques(True, True, LowRank(3))), 3) == 1.549
    assert round(doubled(Techniques(True, True, LowRank(4))), 3) == 1.550
    assert doubled(Techniques(True, True, LowRank(1024))) == pytest.approx(1.755, abs=5e-4)


def test_flop_agree_with_those_of_the_workload() -> None:
    flop = token_flop(LLAMA2_7B)
    normal = LayerShape(4096, 11_008, LLAMA2_7B.sequence_tokens).normal_flop
    assert normal.total == pytest.approx(flop.layer_total)
    assert normal.forward.attention == pytest.approx(flop.forward.attention)
    assert normal.forward.ffn == pytest.approx(flop.forward.ffn)


@given(st.integers(1, 512), st.integers(1, 100_000))
def test_low_rank_flop_are_those_of_its_three_products(rank: int, tokens: int) -> None:
    shape = LayerShape(512, 1376, 256)
    exact = approximate = 0
    for inputs, outputs in ((512, 1376), (512, 1376), (1376, 512)):
        exact += 2 * tokens * inputs * outputs
        approximate += 2 * tokens * rank * (inputs + outputs) + 2 * rank * inputs * outputs
    assert low_rank_share(shape, rank, tokens) == pytest.approx(approximate / exact)
    task = task_flop(shape, Techniques(low_rank=LowRank(rank)), tokens)
    assert task.weight_gradient.ffn * tokens == pytest.approx(approximate)
    assert task.weight_gradient.attention == shape.forward_flop.attention


def test_the_measured_cost() -> None:
    assert measured_cost() == pytest.approx(1.129, abs=5e-4)
    assert measured_cost(512) == pytest.approx(1.322, abs=5e-4)
    # What is not fitted: a node without techniques does two tasks in twice the time.
    assert measured_cost(256, NO_TECHNIQUE) == pytest.approx(2.0, rel=0.005)
    assert measured_cost(256, SKIP) < 1 < measured_cost(256, SKIP_RECOMPUTE)
    with pytest.raises(StrategyError, match="ran out of memory at 512"):
        measured_cost(512, SKIP)


@given(st.floats(0.05, 4.0), st.integers(2, 16), st.integers(1, 32))
def test_a_calibrated_pipeline_is_as_slow_as_measured(cost: float, stages: int, count: int) -> None:
    slowdown = approximate_iteration([1.0] * (stages - 2) + [cost], count) / (
        approximate_iteration([1.0] * stages, count)
    )
    if stages > 2:
        assert doubled_cost(slowdown, stages, count) == pytest.approx(cost)


def test_the_published_throughputs_come_back() -> None:
    assert NO_FAULT.tokens_per_s_512 is not None
    for batch, faulty in ((256, 28_060), (512, 27_190)):
        cost = measured_cost(batch)  # type: ignore[arg-type]
        slowed = approximate_iteration([1.0] * 6 + [cost], 8) / 15
        healthy = NO_FAULT.tokens_per_s_256 if batch == 256 else NO_FAULT.tokens_per_s_512
        assert healthy / slowed == pytest.approx(faulty)


@pytest.mark.parametrize(
    "costs",
    [
        calibrated_costs(measured_cost()),
        flop_costs(SHAPE_7B, Techniques(), TOKENS),
        flop_costs(SHAPE_7B, Techniques(True, True, LowRank(1024)), TOKENS),
    ],
)
def test_more_tasks_cost_more_and_one_costs_one(costs: CostModel) -> None:
    each = [pickle.loads(pickle.dumps(costs))(tasks) for tasks in range(1, 6)]
    assert each[0] == 1.0
    assert all(more > less for less, more in pairwise(each))
    assert each[2] == pytest.approx(1.5 * each[1])


def test_techniques_have_names() -> None:
    assert Techniques().name == "none"
    assert Techniques(True, True, LowRank(8)).name == "skip + recompute + low rank"


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
    for step in stage_passes(node, nodes, 1, micro_batches):
        now += 1 if step.forward else -1
        most = max(most, now)
    assert micro_batches_in_flight(node, nodes, micro_batches) == most
