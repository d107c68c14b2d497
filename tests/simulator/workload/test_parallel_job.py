"""What a rank of a job does in a step, and how fast GPUs do it, against published formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from faultline.simulator.workload.kernels import (
    A100,
    FLAT,
    GB200,
    H100,
    KNOWN_KERNELS,
    AffineMatmul,
    Curve,
    Kernels,
)
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.parallel_job import ParallelJob, layers_of_parts
from faultline.simulator.workload.transformer import (
    Transformer,
    WorkloadError,
    training_flop_per_token,
)
from faultline.strategies.interface.split_backward import SplitBackward
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
    usual: dict[str, Any] = {"recompute": "none", "attention": "unfused"} | changes
    return ParallelJob(model, layout, 2, 8, counting_kernels(), **usual)


def computed(job: ParallelJob) -> float:
    """Return the FLOP of a micro-batch over all ranks of a replica."""
    parts = job.pattern().parts
    each = sum(part.forward.flop + part.backward.flop for part in parts)
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


def test_recomputation_that_stops_early_leaves_out_the_last_product() -> None:
    """2 b s f h FLOP per layer, and the reduce-scatter or all-reduce after it."""
    full, early = (job_of(recompute=each, attention="flash-2") for each in ("full", "early-stop"))
    less = computed(full) - computed(early)
    assert less == pytest.approx(MODEL.layers * 2 * 2 * 2048 * 4 * 4096**2)
    for parallel, share in ((True, 3 / 4), (False, 1 / 2)):
        jobs = [
            job_of(layout=Layout(4, 1, 8), recompute=each, sequence_parallel=parallel)
            for each in ("full", "early-stop")
        ]
        whole, part = (job.pattern().parts[0] for job in jobs)
        saved = whole.backward.tensor_bytes - part.backward.tensor_bytes
        assert saved == pytest.approx((1 - share) * whole.forward.tensor_bytes)


def test_selective_recomputation_adds_the_scores_only() -> None:
    """4 b s^2 h a layer, unless the kernel is fused and recomputes what it needs by itself."""
    more = computed(job_of(recompute="selective")) - computed(job_of())
    assert more == pytest.approx(MODEL.layers * 4 * 2 * 2048**2 * 4096)
    fused: dict[str, Any] = {"attention": "flash-2"}
    assert computed(job_of(recompute="selective", **fused)) == computed(job_of(**fused))


def test_recomputation_by_operator_keeps_attention_and_half_of_the_products() -> None:
    """The other half is a sixth of the FLOP of the products of layers."""
    usual: dict[str, Any] = {"attention": "flash-2"}
    more = computed(job_of(recompute="operator", **usual)) - computed(job_of(**usual))
    matrices = MODEL.attention_matrix_parameters + MODEL.ffn_matrix_parameters
    assert more == pytest.approx(MODEL.layers * 2 * 2048 * matrices)


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
    """Two all-reduces of 2 b s h bytes a layer and pass, 2 (t - 1)/t of them on the wire.

    Each passes 2 (t - 1) latencies.
    """
    part = job_of(layout=Layout(4, 1, 8), **changes).pattern().parts[0]
    all_reduce = 2 * 7 / 8 * 2 * 2 * 2048 * 4096
    assert part.forward.tensor_hops == pytest.approx(24 * forward * 14)
    assert part.backward.tensor_hops == pytest.approx(24 * backward * 14)
    # What latencies take is no bytes.
    hop = HOP_S * counting_kernels().scale_up_bytes_per_s
    forward_bytes = part.forward.tensor_bytes + hop * part.forward.tensor_hops
    backward_bytes = part.backward.tensor_bytes + hop * part.backward.tensor_hops
    assert forward_bytes == pytest.approx(24 * forward * all_reduce)
    assert backward_bytes == pytest.approx(24 * backward * all_reduce)


def test_gathers_carry_the_precision_of_the_product_that_follows() -> None:
    """Of two reduce-scatters and two all-gathers, the latter halve; so do those of inputs."""
    kernels = replace(counting_kernels(), eight_bit_matmul=AffineMatmul(1.0, INFINITE, 0.0))
    usual = replace(job_of(LLAMA, layout=Layout(4, 1, 8)), kernels=kernels)

    def sent(**changes: Any) -> tuple[float, float]:
        """Return the bytes of a layer's passes, in those of an all-reduce in 16 bits."""
        part = replace(usual, **changes).pattern().parts[0]
        all_reduce = 2 * 7 / 8 * 2 * 2 * 4096 * 4096
        hop = HOP_S * kernels.scale_up_bytes_per_s
        passes = (part.forward, part.backward)
        forward, backward = ((one.tensor_bytes + hop * one.tensor_hops) / 24 for one in passes)
        return forward / all_reduce, backward / all_reduce

    assert sent() == pytest.approx((2.0, 3.0))
    assert sent(matmul_precision="fp8") == pytest.approx((1.5, 2.0))
    # A recomputed layer has just gathered its inputs.
    assert sent(recompute="full") == pytest.approx((2.0, 4.0))


def test_bytes_between_replicas() -> None:
    """16-bit gradients all-reduced, or 32-bit ones reduce-scattered and 16-bit weights gathered."""
    plain = job_of(sharding="none").pattern()
    sharded = job_of(sharding="optimizer", gradient_overlap=0.75).pattern()
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
    assert part.forward.context_bytes == pytest.approx(6 * keys_and_values / 2)
    assert part.backward.context_bytes == pytest.approx(2 * part.forward.context_bytes)
    # A layer that is recomputed needs the keys and values of others again.
    again = job_of(LLAMA, context=2, recompute="full").pattern().parts[0]
    assert again.backward.context_bytes == pytest.approx(3 * part.forward.context_bytes)


@pytest.mark.parametrize("context", [2, 4, 8])
def test_the_last_rank_of_an_uneven_ring_has_no_masked_blocks(context: int) -> None:
    """It attends to all c - 1 other blocks, and to half of its own, instead of to half of all."""
    usual: dict[str, Any] = {"context": context, "layout": Layout(8, 1, 1), "attention": "flash-2"}
    even, uneven = (
        computed(job_of(LLAMA, balanced_context=is_even, **usual)) for is_even in (True, False)
    )
    # Five products backward, two forward, each half of 2 b s^2 h.
    scores = LLAMA.layers * 7 * 2 * 4096**2 * 4096
    assert uneven - even == pytest.approx(scores * ((2 * context - 1) / context - 1))


def test_efficiency_slows_products_and_leaves_the_memory() -> None:
    def forward(efficiency: float, bytes_per_s: float) -> float:
        kernels = replace(counting_kernels(), memory_bytes_per_s=bytes_per_s)
        job = replace(job_of(compute_efficiency=efficiency), kernels=kernels)
        return job.pattern().parts[1].forward.flop

    products, slower = forward(1.0, INFINITE), forward(0.5, INFINITE)
    assert slower == pytest.approx(2 * products)
    assert forward(0.5, 2.0) - slower == pytest.approx(forward(1.0, 2.0) - products)


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
        ({"context": 3}, "does not divide"),
        ({"layout": Layout(4, 3, 2, 2)}, "interleaving needs a multiple"),
        ({"layout": Layout(4, 4, 2, 2), "split": SplitBackward()}, "2 parts per stage: use one"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(WorkloadError, match=match) as refused:
        job_of(**changes)
    assert "\n" not in str(refused.value)


def test_a100_spends_more_than_its_peak_would_require() -> None:
    """The sum of the parts: real kernels are slower than counting FLOP at the peak."""
    flat = computed(job_of())
    real = computed(replace(job_of(), kernels=A100))
    assert 1.1 * flat < real < 2.0 * flat


MIB = 2**20


@given(st.floats(1.0, 1e12))
def test_a_curve_stays_between_its_points(size: float) -> None:
    curve = Curve(((10.0, 1.0), (100.0, 3.0), (1000.0, 4.0)))
    assert 1.0 <= curve(size) <= 4.0
    assert curve(size) <= curve(2 * size)


def test_a_curve_runs_through_its_points_and_over_the_logarithm() -> None:
    curve = Curve(((10.0, 1.0), (1000.0, 3.0)))
    assert [curve(size) for size in (1.0, 10.0, 100.0, 1000.0, 1e6)] == [1, 1, 2, 3, 3]


@pytest.mark.parametrize(("size", "rate"), [(1024, 88e12), (4096, 258e12), (8192, 290e12)])
def test_squares_run_at_the_published_rate_of_cublas(size: int, rate: float) -> None:
    assert 2 * size**3 / A100.matmul.seconds(size, size, size) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("shape", "rate"),
    [((1024, 1024, 4096), 470e12), ((4096, 1024, 2048), 632e12), ((2048, 4096, 4096), 754e12)],
)
def test_h100_is_near_the_measured_table(shape: tuple[int, int, int], rate: float) -> None:
    """XLA's table; 5 % on average over 29 shapes."""
    m, n, k = shape
    assert 2 * m * n * k / H100.matmul.seconds(m, n, k) == pytest.approx(rate, rel=0.12)


@pytest.mark.parametrize("name", KNOWN_KERNELS)
def test_no_gpu_beats_its_specification_by_much(name: str) -> None:
    """H100's fit was made on short runs at full clocks, and 5 % is its accuracy."""
    kernels = KNOWN_KERNELS[name]
    rate = 2 * 16384**3 / kernels.matmul.seconds(16384, 16384, 16384)
    assert 0.55 * kernels.speed_flop_per_s < rate < 1.05 * kernels.speed_flop_per_s
    assert all(0 < share <= 1 for _, share in kernels.scale_up_share.points)


HOP_S = 600e-9


def ring_s(kernels: Kernels, size_bytes: float, ranks: int, passes: int) -> float:
    """Return the time of a ring on a shipped platform: its bytes, and its latencies."""
    carried = kernels.ring(size_bytes, ranks, passes)
    assert carried.hops == passes * (ranks - 1)
    return carried.size_bytes / kernels.scale_up_bytes_per_s + carried.hops * HOP_S


@pytest.mark.parametrize(("mib", "rate"), [(4, 72e9), (64, 172e9), (1024, 229e9)])
def test_a_ring_takes_as_long_as_published(mib: int, rate: float) -> None:
    sent = 2 * 7 / 8 * mib * MIB
    assert ring_s(A100, mib * MIB, 8, 2) == pytest.approx(sent / rate)


def test_reductions_in_the_switch_help_all_reduces_alone() -> None:
    """More than the 450 GB/s of a link: 466 of eight H100, and 850 of 900 of GB200."""
    size = 1024 * MIB
    sent = 2 * 7 / 8 * size
    by_switch = H100.all_reduce(size, 8)
    assert sent / (by_switch.size_bytes / 450e9 + 2 * HOP_S) == pytest.approx(466e9)
    assert sent / ring_s(H100, size, 8, 2) == pytest.approx(361e9)
    by_switch = GB200.all_reduce(size, 8)
    assert sent / (by_switch.size_bytes / 900e9 + 2 * HOP_S) == pytest.approx(850e9)
    assert A100.all_reduce(size, 8) == A100.ring(size, 8, 2)


def test_a_short_ring_takes_the_shortest_time_there_is() -> None:
    assert ring_s(A100, 1.0, 8, 2) == pytest.approx(44e-6)
    assert ring_s(A100, 1.0, 2, 1) == pytest.approx(44e-6)
    assert A100.ring(1.0, 2, 1).hops == 1


def test_no_ring_is_faster_than_its_bytes() -> None:
    """For 72 ranks 142 latencies are more than the shortest published time."""
    assert ring_s(H100, 1.0, 72, 2) == pytest.approx(142 * HOP_S, rel=1e-3)


@pytest.mark.parametrize(
    ("shape", "in_16", "in_8"),
    [((8192, 8192, 8192), 585, 1126), ((65_536, 3584, 8192), 546, 1141)],
)
def test_a_gpu_of_500_w_is_near_its_measured_products(
    shape: tuple[int, int, int], in_16: float, in_8: float
) -> None:
    """FBGEMM's table, in TFLOP/s."""
    m, n, k = shape
    for bits, rate in (("bf16", in_16), ("fp8", in_8)):
        seconds = KNOWN_KERNELS["h100-500w"].matmul_in(cast(Any, bits)).seconds(m, n, k)
        assert 2e-12 * m * n * k / seconds == pytest.approx(rate, rel=0.1)


@pytest.mark.parametrize(
    ("shape", "rate"),
    [
        ((1024, 1024, 4096), 924),
        ((1024, 4096, 4096), 1938),
        ((2048, 2048, 2048), 1428),
        ((4096, 4096, 1024), 1895),
        ((4096, 4096, 4096), 2765),
    ],
)
def test_eight_bits_follow_the_measured_table_of_b200(
    shape: tuple[int, int, int], rate: float
) -> None:
    """XLA's table: an affine fit to 125 shapes, 9 to 13 % off in the mean square."""
    m, n, k = shape
    assert 2e-12 * m * n * k / GB200.matmul_in("fp8").seconds(m, n, k) == pytest.approx(
        rate, rel=0.2
    )


def test_only_products_of_layers_are_in_eight_bits() -> None:
    """Logits and attention take as long as in 16 bits, and inputs have to be converted."""
    usual = replace(job_of(LLAMA, layout=Layout(1, 1, 1), attention="flash-2"), kernels=H100)
    in_16, in_8 = (replace(usual, matmul_precision=bits) for bits in ("bf16", "fp8"))
    assert in_8.times().output() == in_16.times().output()
    gains = in_16.times().layer().forward - in_8.times().layer().forward
    slow = replace(in_8, kernels=replace(H100, eight_bit_matmul=H100.matmul))
    converted_s = slow.times().layer().forward - in_16.times().layer().forward
    # Six bytes of each input: of queries, of the output of attention, and of both sides of the
    # network.
    numbers = 2 * 4096 * (3 * 4096 + 14_336)
    assert converted_s == pytest.approx(6 * numbers / H100.memory_bytes_per_s)
    assert 0 < converted_s < gains


@pytest.mark.parametrize(
    ("inner", "columns", "gain"),
    [(8192, 1280, 1.11), (1024, 8192, 1.43), (3584, 8192, 1.71), (8192, 7168, 1.73)],
)
def test_the_gain_of_eight_bits_is_near_that_of_a_measured_layer(
    inner: int, columns: int, gain: float
) -> None:
    """A compiled linear layer of torchao, forward and backward, on H100 with 16,384 tokens.

    At two thirds of the tabled rates, which are of short runs at full clock.
    """
    rows = 16_384
    shapes = ((rows, columns, inner), (rows, inner, columns), (columns, inner, rows))
    times = {
        bits: 1.5 * sum(H100.matmul_in(bits).seconds(*shape) for shape in shapes)
        for bits in ("bf16", "fp8")
    }
    converted_s = 6.0 * rows * (inner + columns) / H100.memory_bytes_per_s
    assert times["bf16"] / (times["fp8"] + converted_s) == pytest.approx(gain, rel=0.2)


@pytest.mark.parametrize(
    ("tokens", "kernel", "forward", "backward"),
    [(2048, "flash-2", 298, 254), (8192, "flash-2", 333, 299), (8192, "flash-3", 602, 559)],
)
def test_attention_has_the_measured_rate_of_its_length(
    tokens: int, kernel: Any, forward: float, backward: float
) -> None:
    rates = H100.attention_rates(kernel)
    assert rates is not None
    assert rates.forward(tokens) == pytest.approx(forward * 1e12)
    assert rates.backward(tokens) == pytest.approx(backward * 1e12)
    # Together as measured by its authors: 265 and 308 TFLOP/s.
    if kernel == "flash-2":
        both = 3.5 / (1 / rates.forward(tokens) + 2.5 / rates.backward(tokens))
        assert both == pytest.approx({2048: 265e12, 8192: 308e12}[tokens], rel=5e-3)


def test_later_attention_is_faster() -> None:
    later, earlier, first = (
        computed(replace(job_of(), kernels=H100, attention=kernel))
        for kernel in ("flash-3", "flash-2", "unfused")
    )
    assert later < earlier < first


@pytest.mark.parametrize(
    ("kernels", "changes", "remedy"),
    [
        (A100, {"matmul_precision": "fp8"}, 'use "bf16", or kernels of H100 or GB200'),
        (FLAT, {"attention": "flash-3"}, 'use "flash-2", or kernels of H100 or GB200'),
    ],
)
def test_an_unknown_rate_is_refused(kernels: Kernels, changes: dict[str, Any], remedy: str) -> None:
    with pytest.raises(WorkloadError, match=remedy):
        replace(job_of(), kernels=kernels, **changes)
