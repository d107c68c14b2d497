"""Memory of a pipeline's node, by the stages that it holds and its techniques."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.strategies.interface.stage_work import Techniques


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Memory of a stage, in bytes."""

    state_bytes: float  # Weights, their gradients, optimizer state.
    # Activations of one micro-batch that each half of the layers keeps for the backward pass,
    # including the norm before it and the residual stream.
    attention_bytes: float
    ffn_bytes: float
    ffn_input_bytes: float  # The part of `ffn_bytes` from which the rest can be recomputed.
    layers: int  # Layers of the stage, which are recomputed one by one.
    # Projections of all feed-forward matrices, per direction.
    projection_bytes_per_rank: float = 0.0


def micro_batches_in_flight(node: int, nodes: int, micro_batches: int) -> int:
    """Return the most micro-batches for which a node of a 1F1B pipeline keeps activations."""
    return min(micro_batches, nodes - node)


def node_memory_bytes(
    stage: StageMemory,
    tasks: int,
    techniques: Techniques,
    in_flight: float,
    overhead_bytes: float = 0.0,
) -> float:
    """Return the bytes on a node with `tasks` stages of equal size.

    It keeps the activations of `in_flight` micro-batches. The overhead does not depend on the work:
    contexts, communication buffers, fragmentation. A node with one task uses no technique. If the
    backward pass of attention is skipped, its gradient buffers remain, for the average over the
    other ranks.
    """
    used = techniques if tasks > 1 else Techniques()
    attention = 0.0 if used.skip_attention else stage.attention_bytes
    ffn, recomputed = stage.ffn_bytes, 0.0
    if used.recompute_ffn:
        ffn = stage.ffn_input_bytes
        # During a layer's backward pass its recomputed activations are in memory.
        recomputed = (stage.ffn_bytes - stage.ffn_input_bytes) / stage.layers
    projections = 0.0
    if used.low_rank is not None:
        projections = used.low_rank.rank * stage.projection_bytes_per_rank
    per_task = stage.state_bytes + in_flight * (attention + ffn) + projections
    return overhead_bytes + tasks * per_task + recomputed


def overhead_from(measured_bytes: float, stage: StageMemory, in_flight: float) -> float:
    """Return the measured memory of a node with one task beyond its stage.

    This is the only calibrated constant, from a node without a fault.
    """
    return measured_bytes - node_memory_bytes(stage, 1, Techniques(), in_flight)
