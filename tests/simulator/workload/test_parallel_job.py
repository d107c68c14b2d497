"""What a rank of a job does in a step, against published formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from faultline.simulator.workload.errors import WorkloadError
from faultline.simulator.workload.flops import training_flop_per_token
from faultline.simulator.workload.kernels import A100, FLAT, Curve, Kernels
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.parallel_job import ParallelJob, layers_of_parts
from faultline.simulator.workload.transformer import Transformer
from hypothesis import given
from hypothesis import strategies as st

MODEL = Transformer(4096, 4 * 4096, 32, 24, 2048, 51_200)
LLAMA = Transformer(4096, 14_336, 32, 24, 4096, 128_256, 8, 3, tied_embeddings=False)
INFINITE = float("inf")
"""Of a memory that takes no time: then only matrix products count."""


def counting_kernels() -> Kernels:
    """Return a GPU that reaches its speed whatever it computes, and the whole of its links."""
    return replace(FLAT, scale_up_share=Curve(((1e-9, 1.0),)), scale_out_share=1.0)


def job_of(model: Transformer = MODEL, **changes: Any) -> ParallelJob:
    layout = changes.pop("layout", Layout(4, 4, 2))
    usual: dict[str, Any] = {"recompute": "none", "fused_attention": False} | changes
    return ParallelJob(model, layout, 2, 8, counting_kernels(), **usual)


def computed(job: ParallelJob) -> float:
    """Return the FLOP of a micro-batch over all ranks of a replica."""
    parts = job.pattern().parts
    each = sum(part.forward_flop + part.backward_flop for part in parts)
    return each * job.layout.tensor * job.context


@pytest.mark.parametrize("model", [MODEL, LLAMA])
@pytest.mark.parametrize("layout", [Layout(4, 1, 1), Layout(4, 4, 2), Layout(4, 4, 8, 4)])
def test_flop_are_those_of_the_model(model: Transformer, layout: Layout) -> None:
    """However it is cut: 6 FLOP a weight and token, and all scores."""
    job = job_of(model, layout=layout, **({"context": 2} if model is LLAMA else {}))
    tokens = job.micro_batch_sequences * model.sequence_tokens
    assert computed(job) == pytest.approx(tokens * training_flop_per_token(model))


def test_flop_of_full_recomputation_are_those_of_megatron() -> None:
    """96 B s l h^2 (1 + s/6h + V/16lh): Narayanan et al. 2021, equation 3."""
    s, h, layers, vocabulary = MODEL.sequence_tokens, MODEL.hidden, MODEL.layers, MODEL.vocabulary
    expected = 96 * 2 * s * layers * h**2 * (1 + s / (6 * h) + vocabulary / (16 * layers * h))
    assert computed(job_of(recompute="full")) == pytest.approx(expected)


def test_selective_recomputation_adds_the_scores_only() -> None:
    """4 b s^2 h a layer, unless the kernel is fused and recomputes what it needs by itself."""
    more = computed(job_of(recompute="selective")) - computed(job_of())
    assert more == pytest.approx(MODEL.layers * 4 * 2 * 2048**2 * 4096)
    fused: dict[str, Any] = {"fused_attention": True}
    assert computed(job_of(recompute="selective", **fused)) == computed(job_of(**fused))


@pytest.mark.parametrize(
    ("changes", "forward", "backward"),
    [
        ({"sequence_parallel": False}, 2, 2),
        ({"sequence_parallel": False, "recompute": "full"}, 2, 4),
        # Inputs were kept in parts: two all-gathers more, each half of an all-reduce.
        ({"sequence_parallel": True}, 2, 3),
        ({"tensor_overlap": 0.75}, 0.5, 0.75),
    ],
)
def test_bytes_of_tensor_parallelism(
    changes: dict[str, Any], forward: float, backward: float
) -> None:
    """Two all-reduces of 2 b s h bytes a layer and pass, 2 (t - 1)/t of them on the wire."""
    part = job_of(layout=Layout(4, 1, 8), **changes).pattern().parts[0]
    all_reduce = 2 * 7 / 8 * 2 * 2 * 2048 * 4096
    assert part.forward_tensor_bytes == pytest.approx(24 * forward * all_reduce)
    assert part.backward_tensor_bytes == pytest.approx(24 * backward * all_reduce)


def test_bytes_between_replicas() -> None:
    """16-bit gradients all-reduced, or 32-bit ones reduce-scattered and 16-bit weights gathered."""
    plain = job_of(shard_optimizer=False).pattern()
    sharded = job_of(shard_optimizer=True, gradient_overlap=0.75).pattern()
    weights = job_of().stage_parameters()
    for stage, number in enumerate(weights):
        assert plain.gradient_bytes[stage] == pytest.approx(2 * 3 / 4 * 2 * number)
        assert sharded.gradient_bytes[stage] == pytest.approx(0.25 * 3 / 4 * 6 * number)
        assert sharded.hidden_gradient_bytes[stage] == pytest.approx(0.75 * 3 / 4 * 4 * number)
        assert sharded.hidden_weight_bytes[stage] == pytest.approx(0.75 * 3 / 4 * 2 * number)


def test_bytes_of_stages_and_of_divided_sequences() -> None:
    pattern = job_of(LLAMA, context=2, pipeline_overlap=0.5).pattern()
    tokens = 2 * 4096
    assert pattern.send_bytes == pytest.approx(2 * tokens / 2 * 4096 / 2)
    assert pattern.send_blocks == 0.5
    keys_and_values = 4 * tokens * (4096 / 4) / 2
    part = pattern.parts[0]
    assert part.forward_context_bytes == pytest.approx(6 * keys_and_values / 2)
    assert part.backward_context_bytes == pytest.approx(2 * part.forward_context_bytes)


def test_efficiency_slows_products_and_leaves_the_memory() -> None:
    def forward(efficiency: float, bytes_per_s: float) -> float:
        kernels = replace(counting_kernels(), memory_bytes_per_s=bytes_per_s)
        job = replace(job_of(compute_efficiency=efficiency), kernels=kernels)
        return job.pattern().parts[1].forward_flop

    products, slower = forward(1.0, INFINITE), forward(0.5, INFINITE)
    assert slower == pytest.approx(2 * products)
    assert forward(0.5, 2e12) - slower == pytest.approx(forward(1.0, 2e12) - products)


@given(layers=st.integers(1, 200), parts=st.integers(1, 128))
def test_layers_are_spread_evenly(layers: int, parts: int) -> None:
    if 2 * layers < parts:
        with pytest.raises(WorkloadError, match="too few"):
            layers_of_parts(layers, parts)
        return
    counts = layers_of_parts(layers, parts)
    assert sum(counts) == layers
    assert max(counts) - min(counts) <= 1


def test_llama_goes_without_at_both_ends() -> None:
    """126 layers on 16 stages of eight parts (Llama 3, section 3.3.2)."""
    counts = layers_of_parts(126, 128)
    assert (counts[0], counts[-1], sum(counts[1:-1])) == (0, 0, 126)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"compute_efficiency": 0.0}, "above 0"),
        ({"tensor_overlap": 1.5}, "share from 0 to 1"),
        ({"context": 3}, "does not divide"),
        ({"layout": Layout(4, 3, 2, 2)}, "interleaving needs a multiple"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(WorkloadError, match=match) as refused:
        job_of(**changes)
    assert "\n" not in str(refused.value)


def test_a100_spends_more_than_its_peak_would_ask_for() -> None:
    """The sum of the parts: real kernels are slower than counting FLOP at the peak."""
    flat = computed(job_of())
    real = computed(replace(job_of(), kernels=A100))
    assert 1.1 * flat < real < 2.0 * flat
