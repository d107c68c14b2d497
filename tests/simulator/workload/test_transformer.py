"""Parameters, FLOP and bytes of known models, against formulas of the literature and by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from faultline.simulator.workload.gpu_memory import (
    Recompute,
    gpu_memory,
    layer_activation_bytes,
    stage_parameters,
)
from faultline.simulator.workload.known_models import GPT3_175B, KNOWN_MODELS, NTP_480B
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.transformer import (
    Transformer,
    WorkloadError,
    token_flop,
    training_flop_per_token,
)

# Of the published weights, counted tensor by tensor by those who serve them.
EXACT = {
    "llama2-7b": 6_738_415_616,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
}
TINY = Transformer(
    hidden=4, ffn_hidden=6, heads=2, layers=3, sequence_tokens=5, vocabulary=7, ffn_matrices=3
)


@pytest.mark.parametrize(("name", "parameters"), EXACT.items())
def test_parameters_of_published_weights(name: str, parameters: int) -> None:
    assert KNOWN_MODELS[name].parameters == parameters


def test_gpt3_follows_the_formula_of_megatron() -> None:
    """12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)), and the last norm; 175 billion."""
    model = KNOWN_MODELS["gpt3-175b"]
    h, layers = model.hidden, model.layers
    tables = model.vocabulary + model.sequence_tokens
    formula = 12 * layers * h**2 * (1 + 13 / (12 * h) + tables / (12 * layers * h))
    assert model.parameters == pytest.approx(formula + 2 * h, rel=1e-12)
    assert model.parameters == pytest.approx(175e9, rel=0.003)


def test_the_model_of_ntp_is_larger_than_its_name() -> None:
    """12 * 20480^2 * 100 are 503 billion numbers in matrices; 96 layers would be 483."""
    matrices = NTP_480B.attention_matrix_parameters + NTP_480B.ffn_matrix_parameters
    assert matrices * 100 == 503_316_480_000
    assert replace(NTP_480B, layers=96).layers * matrices == 483_183_820_800


def test_a_small_model_by_hand() -> None:
    """Attention 4 x 4 four times, three matrices of 4 x 6, two norms; 7 x 4 numbers to look up."""
    assert TINY.attention_matrix_parameters == 64
    assert TINY.ffn_matrix_parameters == 72
    assert TINY.layer_parameters == 64 + 72 + 8
    assert TINY.parameters == 3 * 144 + 28 + 4
    shared = replace(TINY, key_value_heads=1)
    assert shared.attention_matrix_parameters == 2 * 16 + 2 * 8
    untied = replace(TINY, tied_embeddings=False, learned_positions=True)
    assert untied.parameters == TINY.parameters + 28 + 5 * 4
    with_biases = replace(TINY, biases=True)
    assert with_biases.layer_parameters == 144 + 8 + 16 + (2 * 6 + 4)


def test_flop_of_a_small_model_by_hand() -> None:
    """Two FLOP a weight and pass; scores and their product with V: 2 x 2 x 5 x 4 a token."""
    flop = token_flop(TINY)
    assert (flop.forward.attention, flop.forward.ffn) == (128 + 80, 144)
    assert (flop.input_gradient.attention, flop.input_gradient.ffn) == (128 + 160, 144)
    assert (flop.weight_gradient.attention, flop.weight_gradient.ffn) == (128, 144)
    assert flop.vocabulary == 2 * 28
    assert training_flop_per_token(TINY) == 3 * (208 + 288 + 128 + 3 * 144) + 3 * 56


@pytest.mark.parametrize("name", ["gpt3-175b", "ntp-480b"])
def test_flop_follow_the_formula_of_megatron(name: str) -> None:
    """72 l h^2 (1 + s/(6 h) + V/(12 l h)) a token: 3/4 of the published form, which recomputes."""
    model = KNOWN_MODELS[name]
    h, layers, s, v = model.hidden, model.layers, model.sequence_tokens, model.vocabulary
    once = 72 * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))
    assert training_flop_per_token(model) == pytest.approx(once)


def test_gpt3_training_takes_what_was_published() -> None:
    """Brown et al. 2020, table D.1: 3.14e23 FLOP for 300 billion tokens, attention left out."""
    model = KNOWN_MODELS["gpt3-175b"]
    assert training_flop_per_token(model) * 300e9 == pytest.approx(3.14e23, rel=0.04)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "3 heads do not divide a hidden width of 4"),
        ({"heads": 4, "key_value_heads": 3}, "3 key-value heads do not divide 4 heads"),
    ],
)
def test_impossible_models_are_refused_in_one_line(changes: dict[str, int], message: str) -> None:
    with pytest.raises(WorkloadError, match=message) as error:
        replace(TINY, **changes)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("tensor", [1, 8])
def test_activations_follow_the_formulas(tensor: int) -> None:
    """Table 2 of the paper: s b h (10 + 24/t + 5 a s/(h t)), and so on; by operator: torchtitan."""
    s, h, a = GPT3_175B.sequence_tokens, GPT3_175B.hidden, GPT3_175B.heads
    b = 3
    scores = 5 * a * s / h
    cases: dict[Recompute, float] = {
        "none": s * b * h / tensor * (34 + scores),
        "selective": s * b * h * 34 / tensor,
        # The layer's input, the output of attention, and half of 3 h, h, 4 h and h.
        "operator": 2 * s * b * h * (1 + 1 + 9 / 2) / tensor,
        "early-stop": 2 * s * b * h / tensor,
        "full": 2 * s * b * h / tensor,
    }
    for recompute, expected in cases.items():
        found = layer_activation_bytes(GPT3_175B, b, tensor, recompute=recompute)
        assert found == pytest.approx(expected, rel=1e-12)


def test_a_fused_kernel_keeps_no_scores() -> None:
    """A flash kernel recomputes them, so that nothing is saved by recomputing them again."""
    none = layer_activation_bytes(GPT3_175B, 1, 1, recompute="none", fused_attention=True)
    assert none == layer_activation_bytes(GPT3_175B, 1, 1, recompute="selective")


def test_heads_may_be_wider_or_narrower_than_their_share_of_the_model() -> None:
    """Qwen3-30B-A3B: 32 heads of 128 and four of keys and values on a width of 2,048."""
    qwen = Transformer(
        hidden=2048,
        ffn_hidden=768,
        heads=32,
        layers=48,
        sequence_tokens=4096,
        vocabulary=151_936,
        key_value_heads=4,
        ffn_matrices=3,
        tied_embeddings=False,
        experts=128,
        active_experts=8,
        head_size=128,
    )
    assert (qwen.query_width, qwen.key_value_width) == (4096, 512)
    assert qwen.attention_matrix_parameters == 2048 * (4096 + 512 + 512 + 4096)
    # Published: 30.5 billion parameters, of which 3.3 are active.
    assert qwen.parameters == pytest.approx(30.5e9, rel=0.005)
    scores = 4 * 4096 * 4096
    products = 2 * (qwen.attention_matrix_parameters + qwen.active_ffn_parameters)
    assert token_flop(qwen).forward.total == products + scores
    # gpt-oss-120b has 64 heads of 64 on a width of 2,880.
    assert replace(TINY, hidden=45 * TINY.heads + 1, head_size=64).query_width == 64 * TINY.heads


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
    few = gpu_memory(GPT3_175B, layout, 1, 4, sharding="optimizer")
    assert few.activations == pytest.approx(4 * 12 * layer)
    assert few.optimizer == 3 * parameters
    # Interleaved by 3: 1 + 7/24 times as much.
    woven = gpu_memory(GPT3_175B, Layout(4, 8, 8, virtual_stages=3), 1, 32)
    assert woven.activations == pytest.approx(memory.activations * (1 + 7 / 24))
