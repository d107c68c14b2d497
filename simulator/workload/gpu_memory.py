"""Bytes that a GPU keeps: parameters, gradients, optimizer state, activations.

References
----------
Korthikanti et al. 2022, Reducing activation recomputation in large transformer models, arXiv
2205.05198, equations 1 to 6 and section 4.2.3 (pipelines). Rajbhandari et al. 2020, ZeRO, SC20,
section 3.1 (16 bytes per parameter with Adam in mixed precision). Zhao et al. 2023, PyTorch FSDP,
arXiv 2304.11277, section 3: a unit's weights are gathered while the one before is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from faultline.simulator.workload.layout import Layout, stage_layers
from faultline.simulator.workload.transformer import Transformer
from faultline.strategies.interface.job_shape import Sharding, shards_weights

Recompute = Literal["none", "selective", "operator", "early-stop", "full"]
"""Activations that the backward pass recomputes: none; the scores of attention; all but the output
of attention and every second product, as torchtitan's selection by operator; every layer, up to the
input of its last product, as PyTorch's checkpoints that stop early; every layer."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Bytes per weight, per gradient, of optimizer state per weight, and per activation.

    The optimizer keeps weights, mean and variance in 32 bits (Adam, 12 bytes).
    """

    parameter_bytes: float = 2.0
    gradient_bytes: float = 4.0
    optimizer_bytes: float = 12.0
    activation_bytes: float = 2.0


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Bytes on the fullest GPU of a replica."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.parameters + self.gradients + self.optimizer + self.activations


def stage_parameters(model: Transformer, layout: Layout) -> tuple[int, ...]:
    """Return the parameters of each stage; a tied output table is held by both ends.

    Raises
    ------
    WorkloadError
        The layers do not fill the stages.
    """
    stages = [layers * model.layer_parameters for layers in stage_layers(model.layers, layout)]
    stages[0] += model.input_embedding_parameters
    stages[-1] += model.output_parameters
    if model.tied_embeddings and layout.pipeline > 1:
        stages[-1] += model.vocabulary * model.hidden
    return tuple(stages)


def layer_activation_bytes(
    model: Transformer,
    sequences: int,
    tensor: int,
    *,
    recompute: Recompute = "selective",
    fused_attention: bool = False,
) -> float:
    """Return the bytes of activations that a GPU keeps of one layer and one micro-batch.

    ``s b h/t (34 + 5 a s/h)`` with tensor and sequence parallelism. Selective recomputation drops
    the last term, and so does a fused kernel, which keeps no scores. Full recomputation keeps only
    the layer's input, ``2 s b h/t``. The formula is for 2 bytes per number, masks of one byte, and
    two matrices of four times the hidden width. For other networks the tensors that they keep are
    counted instead.
    """
    numbers = model.sequence_tokens * sequences * model.hidden
    if recompute in ("early-stop", "full"):
        return 2 * numbers / tensor
    if recompute == "operator":
        # The layer's input, the output of attention, and half of the outputs of products.
        outputs = model.query_width + 2 * model.key_value_width + 2 * model.hidden
        outputs += (model.ffn_matrices - 1) * model.active_experts * model.ffn_hidden
        kept_width = model.hidden + model.query_width + outputs / 2
        return 2 * model.sequence_tokens * sequences * kept_width / tensor
    # Inside the feed-forward network: two tensors of the inner width for two matrices (16 s b h at
    # four times the width), and a third for a gate.
    inner = 2 * model.ffn_matrices * model.active_experts * model.ffn_hidden / model.hidden
    # Inside attention: query and output as wide as all heads, key and value at their own width.
    projected = 4 * (model.query_width + model.key_value_width) / model.hidden
    scores = 5 * model.heads * model.sequence_tokens / model.hidden
    kept = 10 / tensor + (projected + inner) / tensor
    if recompute == "none" and not fused_attention:
        kept += scores / tensor
    return numbers * kept


def gpu_memory(
    model: Transformer,
    layout: Layout,
    micro_batch_sequences: int,
    micro_batches: int,
    *,
    recompute: Recompute = "selective",
    fused_attention: bool = False,
    precision: Precision | None = None,
    sharding: Sharding = "none",
    shards: int | None = None,
    keeps_gathered: bool = False,
    in_flight: float | None = None,
) -> GpuMemory:
    """Return the memory use of a replica's fullest GPU.

    The first stage of a pipeline holds the activations of ``min(m, p)`` micro-batches; interleaved
    stages hold ``(1 + (p - 1)/(p v))`` times that (Korthikanti et al. 2022, section 4.2.3). If
    `in_flight` is given, a stage holds the activations of that number of micro-batches.

    Replicas share the state of `sharding` among them, or sets of `shards` replicas do. If that
    includes weights and gradients (ZeRO stage 3), a GPU holds besides its shard the gathered
    weights of two units, of which it computes one, and the gradients of one. A unit is a layer or
    an embedding table. With `keeps_gathered` it holds all weights.

    Raises
    ------
    WorkloadError
        The layers do not fill the stages.
    """
    precision = precision or Precision()
    parameters = max(stage_parameters(model, layout)) / layout.tensor
    if in_flight is None:
        in_flight = float(min(micro_batches, layout.pipeline))
        if layout.virtual_stages > 1:
            in_flight *= 1 + (layout.pipeline - 1) / (layout.pipeline * layout.virtual_stages)
    layer_bytes = layer_activation_bytes(
        model,
        micro_batch_sequences,
        layout.tensor,
        recompute=recompute,
        fused_attention=fused_attention,
    )
    shards = layout.data if shards is None else shards
    weights = gradients = parameters
    if shards_weights(sharding) and shards > 1:
        tables = model.input_embedding_parameters, model.output_parameters
        unit = max(model.layer_parameters, *tables) / layout.tensor
        gathered = parameters if keeps_gathered else min(2 * unit, parameters)
        weights = parameters / shards + gathered
        gradients = parameters / shards + min(unit, parameters)
    return GpuMemory(
        parameters=precision.parameter_bytes * weights,
        gradients=precision.gradient_bytes * gradients,
        optimizer=precision.optimizer_bytes * parameters / (1 if sharding == "none" else shards),
        activations=in_flight * max(stage_layers(model.layers, layout)) * layer_bytes,
    )
