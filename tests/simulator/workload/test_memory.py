"""Bytes on a GPU, against the formulas of Korthikanti et al. 2022 and by hand."""

from __future__ import annotations

import pytest
from faultline.simulator.workload.known_models import GPT3_175B, KNOWN_MODELS, NTP_480B
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.memory import (
    Precision,
    gpu_memory,
    layer_activation_bytes,
    stage_parameters,
)
from faultline.simulator.workload.messages import messages_of


@pytest.mark.parametrize("tensor", [1, 8])
def test_activations_follow_the_formulas(tensor: int) -> None:
    """Table 2 of the paper: s b h (10 + 24/t + 5 a s/(h t)), and so on."""
    s, h, a = GPT3_175B.sequence_tokens, GPT3_175B.hidden, GPT3_175B.heads
    b = 3
    scores = 5 * a * s / h
    cases = {
        ("none", False): s * b * h * (10 + 24 / tensor + scores / tensor),
        ("none", True): s * b * h / tensor * (34 + scores),
        ("selective", False): s * b * h * (10 + 24 / tensor),
        ("selective", True): s * b * h * 34 / tensor,
        ("full", False): 2 * s * b * h,
        ("full", True): 2 * s * b * h / tensor,
    }
    for (recompute, parallel), expected in cases.items():
        found = layer_activation_bytes(
            GPT3_175B,
            b,
            tensor,
            recompute=recompute,  # type: ignore[arg-type]
            sequence_parallel=parallel,
        )
        assert found == pytest.approx(expected, rel=1e-12)


def test_grouped_queries_and_gates_keep_what_flows_through_them() -> None:
    """Llama 3 8B: keys and values a quarter as wide, three tensors of 3.5 times the width."""
    model = KNOWN_MODELS["llama3-8b"]
    per_number = layer_activation_bytes(model, 1, 1) / (model.sequence_tokens * model.hidden)
    assert per_number == pytest.approx(10 + (4 + 1) + 3 * 2 * 3.5)


def test_stages_hold_the_whole_model() -> None:
    """All but a tied output table, which the last stage holds as well as the first."""
    layout = Layout(1, 8, 1)
    assert sum(stage_parameters(NTP_480B, layout)) == (
        NTP_480B.parameters + NTP_480B.vocabulary * NTP_480B.hidden
    )
    untied = KNOWN_MODELS["llama3-70b"]
    assert sum(stage_parameters(untied, layout)) == untied.parameters
    assert stage_parameters(NTP_480B, Layout(1, 1, 1)) == (NTP_480B.parameters,)


def test_memory_of_a_gpu_by_hand() -> None:
    """GPT-3 on 8 stages of 8: 12 layers; 18 bytes a parameter; 8 micro-batches of activations."""
    layout = Layout(4, 8, 8)
    parameters = max(stage_parameters(GPT3_175B, layout)) / 8
    layer = 34 * 2048 * 12288 / 8
    memory = gpu_memory(GPT3_175B, layout, 1, 32)
    assert memory.parameters + memory.gradients + memory.optimizer == 18 * parameters
    assert memory.activations == pytest.approx(8 * 12 * layer)
    assert memory.total == pytest.approx(18 * parameters + 96 * layer)
    # Four micro-batches are all there is to hold; shared optimizer state is a quarter.
    few = gpu_memory(GPT3_175B, layout, 1, 4, shard_optimizer=True)
    assert few.activations == pytest.approx(4 * 12 * layer)
    assert few.optimizer == 3 * parameters
    # Interleaved by 3: 1 + 7/24 times as much.
    woven = gpu_memory(GPT3_175B, Layout(4, 8, 8, virtual_stages=3), 1, 32)
    assert woven.activations == pytest.approx(memory.activations * (1 + 7 / 24))


def test_messages_by_hand() -> None:
    """Two bytes a number: s b h activations; a rank passes on its share, has its own gradients."""
    layout = Layout(4, 8, 8)
    sent = messages_of(GPT3_175B, layout, 2)
    assert sent.tensor_all_reduce_bytes == 2 * 2 * 2048 * 12288
    assert sent.pipeline_bytes == sent.tensor_all_reduce_bytes / 8
    assert sent.gradient_bytes == 4 * max(stage_parameters(GPT3_175B, layout)) / 8
    short = messages_of(GPT3_175B, layout, 2, Precision(gradient_bytes=2))
    assert short.gradient_bytes == sent.gradient_bytes / 2
