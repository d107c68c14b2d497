"""Mixtures of experts: parameters, FLOP, memory, messages, and a step in both engines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.single_run import run
from faultline.simulator.workload.gpu_memory import layer_activation_bytes
from faultline.simulator.workload.kernels import H100
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.parallel_job import ParallelJob
from faultline.simulator.workload.transformer import (
    Transformer,
    WorkloadError,
    training_flop_per_token,
)

DENSE = Transformer(
    hidden=4096, ffn_hidden=2048, heads=32, layers=8, sequence_tokens=4096, vocabulary=32_000,
    key_value_heads=8, ffn_matrices=3, tied_embeddings=False,
)  # fmt: skip
EXPERTS = replace(DENSE, experts=64, active_experts=4)


def _job(model: Transformer, tensor: int = 8) -> ParallelJob:
    return ParallelJob(model, Layout(2, 2, tensor), 1, 8, H100)


def test_all_experts_are_held_and_few_compute() -> None:
    one = 3 * 4096 * 2048
    attention = 2 * 4096 * (4096 + 1024)
    assert EXPERTS.ffn_matrix_parameters == 64 * one + 64 * 4096
    assert EXPERTS.layer_parameters == attention + 64 * one + 64 * 4096 + 2 * 4096
    assert EXPERTS.active_ffn_parameters == 4 * one
    # Each weight costs 6 FLOP a token; attention and its scores are those of the dense model.
    extra = training_flop_per_token(EXPERTS) - training_flop_per_token(DENSE)
    assert extra == pytest.approx(6 * 8 * 3 * one)


def test_activations_are_those_of_the_experts_that_a_token_passes() -> None:
    tokens_hidden = 4096 * 4096
    extra = layer_activation_bytes(EXPERTS, 1, 8) - layer_activation_bytes(DENSE, 1, 8)
    assert extra == pytest.approx(3 * tokens_hidden * 2 * 3 * 0.5 / 8)


def test_one_expert_is_the_dense_model() -> None:
    assert _job(replace(DENSE, experts=1, active_experts=1)).pattern() == _job(DENSE).pattern()


def test_all_to_alls_take_the_place_of_the_networks_collectives() -> None:
    """A rank has an eighth of the tokens, of which four experts each get a copy, less its own."""
    dense, experts = _job(DENSE), _job(EXPERTS)
    activations = 2.0 * 4096 * 4096
    pair = H100.ring(activations, 8, 2)
    routed = H100.exchange(activations * 4 / 8, 8)
    parts = [job.pattern().parts[0] for job in (dense, experts)]
    layers = 4
    assert parts[0].forward.tensor_bytes == pytest.approx(layers * 2 * pair.size_bytes)
    both = pair.size_bytes + 2 * routed.size_bytes
    assert parts[1].forward.tensor_bytes == pytest.approx(layers * both)
    # Dispatch and combine of a large message: 7/8 of it at the share of the link that rings reach.
    large = H100.exchange(64 * 2**20, 8).size_bytes
    assert 7 / 8 * 64 * 2**20 < large < 2 * 64 * 2**20


def test_nothing_hides_the_tokens_that_go_to_experts() -> None:
    hidden = replace(_job(EXPERTS), tensor_overlap=1.0).pattern().parts[0]
    routed = H100.exchange(2.0 * 4096 * 4096 * 4 / 8, 8)
    layers, both_ways = 4, 2
    for one in (hidden.forward, hidden.backward):
        assert one.tensor_bytes == pytest.approx(layers * both_ways * routed.size_bytes)


@pytest.mark.parametrize(("mib", "rate"), [(16, 139e9), (256, 309e9), (1024, 336e9)])
def test_an_all_to_all_takes_as_long_as_measured(mib: int, rate: float) -> None:
    """XLA's table on 8 H100: bus bandwidth, seven eighths of the size over the time."""
    carried = H100.exchange(mib * 2**20, 8)
    assert carried.hops == 1
    time_s = carried.size_bytes / H100.scale_up_bytes_per_s + 600e-9
    assert 7 / 8 * mib * 2**20 / time_s == pytest.approx(rate)


def test_few_tokens_per_expert_are_slow() -> None:
    """128 experts of 768 on H100, 512 tokens each: kernels reach 130 to 242 TFLOP/s forward.

    A dense network of the same FLOP takes less than half of that time.
    """
    experts = Transformer(
        2048, 768, 32, 48, 8192, 151_936, 4, 3, experts=128, active_experts=8, head_size=128
    )
    dense = replace(experts, experts=1, active_experts=1, ffn_hidden=8 * 768)
    seconds = {}
    for model in (experts, dense):
        job = ParallelJob(model, Layout(1, 1, 1), 1, 1, H100, compute_efficiency=0.65)
        times = job.times()
        seconds[model] = sum(times.product_s(each) for each in times.networks())
    flop = 2.0 * 8192 * 8 * 3 * 2048 * 768
    assert 130e12 < flop / seconds[experts] < 300e12
    assert 2 * seconds[dense] < seconds[experts]


def test_tokens_are_permuted_in_memory() -> None:
    """Copies are sorted by GPU, by expert, and back, and the last step sums them."""
    unlimited = replace(H100, memory_bytes_per_s=float("inf"))
    times = replace(_job(EXPERTS), compute_efficiency=1e9).times()
    in_memory_s = times.layer().forward - replace(times, kernels=unlimited).layer().forward
    permuted = 4096 * 4096 * (2 + 14 * 4) / 8
    elsewhere = 4096 * 4096 * (22 + 2 * 3 * 4 * 0.5) / 8 + 10 / 2 * 4096 * 64 / 8
    assert in_memory_s * H100.memory_bytes_per_s == pytest.approx(permuted + elsewhere)


def test_what_cannot_be_shared_is_refused() -> None:
    with pytest.raises(WorkloadError, match="8 tensor-parallel ranks cannot share 60 experts"):
        _job(replace(EXPERTS, experts=60))
    with pytest.raises(WorkloadError, match="5 active experts are more than the 4 of a layer"):
        replace(DENSE, experts=4, active_experts=5)


def test_both_engines_take_the_same_steps() -> None:
    scenario = load_scenario(
        "moe-gb200-18k",
        {
            "job.groups": 2, "job.steps": 4, "job.compute_jitter": 0.0, "platform.file": "hgx-h100",
            "model.tensor": 8, "model.pipeline": 2, "model.layers": 4, "model.hidden": 2048,
            "model.ffn_hidden": 1024, "model.heads": 16, "model.experts": 16,
            "model.micro_batches": 4, "model.kernels": "h100", "failures.mtbf_s": 1e9,
        },
    )  # fmt: skip
    records = [run(resolve(scenario), 0, engine) for engine in ("replay", "simgrid")]
    assert records[0]["time_s"] == pytest.approx(records[1]["time_s"], rel=1e-6)
    dense = resolve(scenario.change({"model.experts": 1, "model.active_experts": 1}))
    assert records[0]["step_s"] > run(dense, 0, "replay")["step_s"]
