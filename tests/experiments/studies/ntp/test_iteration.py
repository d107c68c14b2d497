"""How long an iteration takes, by hand and by its invariants."""

from __future__ import annotations

from dataclasses import replace

import pytest
from faultline.experiments.studies.ntp.iteration import Hop, Machine, iteration_time, stage_times
from faultline.simulator.workload.known_models import GPT3_175B
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.transformer import Transformer

TINY = Transformer(
    hidden=4, ffn_hidden=16, heads=2, layers=4, sequence_tokens=2, vocabulary=8, biases=False
)
SLOW = Machine(
    peak_flop_per_s=1000.0,
    compute_efficiency=0.5,
    scale_up=Hop(0.001, 1000.0),
    scale_out=Hop(0.01, 100.0),
)


def test_an_iteration_by_hand() -> None:
    """Two stages of two layers, TP2, three micro-batches of one sequence of two tokens.

    A layer forward: 2 * 64 + 4 * 2 * 4 for attention, 2 * 128 for the network: 416 FLOP a token;
    448 for the gradient of the inputs, 384 for that of the weights. Two layers of 1248 and two
    tokens on two GPUs of 500 FLOP/s: 4.992 s; the last stage has 3 * 2 * 4 * 8 more: 0.384 s.
    An all-reduce of 2 * 2 * 4 = 16 bytes: 2 * (0.001 + 8/1000) s; four a layer: 0.144 s a stage.
    """
    layout = Layout(data=2, pipeline=2, tensor=2)
    first, last = stage_times(TINY, layout, SLOW, 1)
    assert first.compute_s == pytest.approx(2 * 1248 * 2 / (2 * 500))
    assert last.compute_s == pytest.approx(first.compute_s + 0.384)
    assert first.collectives_s == last.collectives_s == pytest.approx(8 * 0.018)
    time = iteration_time(TINY, layout, SLOW, 1, 3)
    assert time.compute_s == pytest.approx(3 * last.compute_s)
    assert time.collectives_s == pytest.approx(3 * 0.144)
    # 1F1B: (m - 1 + p)/m of the work of the slowest stage.
    work_s = 3 * last.total_s
    assert work_s + time.bubble_s == pytest.approx(work_s * (3 - 1 + 2) / 3)
    assert time.pipeline_transfer_s == pytest.approx(2 * (0.01 + 8 / 100))
    # The last stage: 2 * 200 numbers, a norm, a table of 8 * 4; 4 bytes each, half a rank.
    gradient_bytes = 4 * (2 * (64 + 128 + 8) + 4 + 32) / 2
    assert time.gradient_sync_s == pytest.approx(2 * (0.01 + gradient_bytes / 2 / 100))
    parts = (time.compute_s, time.collectives_s, time.bubble_s)
    rest = (time.pipeline_transfer_s, time.gradient_sync_s)
    assert time.total_s == pytest.approx(sum(parts) + sum(rest))


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_the_bubble_is_a_micro_batch_a_further_stage(stages: int) -> None:
    layout = Layout(2, stages, 2)
    slowest_s = max(stage.total_s for stage in stage_times(TINY, layout, SLOW, 1))
    time = iteration_time(TINY, layout, SLOW, 1, 3)
    assert time.bubble_s == pytest.approx((stages - 1) * slowest_s)


def test_interleaving_divides_the_bubble() -> None:
    plain = iteration_time(TINY, Layout(2, 2, 2), SLOW, 1, 3)
    woven = iteration_time(TINY, Layout(2, 2, 2, virtual_stages=2), SLOW, 1, 3)
    assert woven.bubble_s == pytest.approx(plain.bubble_s / 2)


def test_whole_heads_wait_for_the_fullest_rank() -> None:
    """96 heads on 90 ranks: one rank has two of them, which is 2 * 90/96 times its even share."""
    machine = replace(SLOW, peak_flop_per_s=1e15)
    layout = Layout(1, 96, 90)
    even = stage_times(GPT3_175B, layout, machine, 1)[0]
    whole = stage_times(GPT3_175B, layout, replace(machine, whole_heads=True), 1)[0]
    network_only = replace(GPT3_175B, ffn_hidden=1)
    attention_s = stage_times(network_only, layout, machine, 1)[0].forward_s
    assert whole.forward_s - even.forward_s == pytest.approx(
        (2 * 90 / 96 - 1) * attention_s, rel=1e-3
    )
