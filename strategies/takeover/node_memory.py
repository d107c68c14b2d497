"""What a node keeps in memory when it does the work of several stages."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.strategies.errors import StrategyError
from faultline.strategies.takeover.techniques import Techniques


@dataclass(frozen=True, slots=True)
class StageMemory:
    """What a stage needs; all in bytes.

    Attributes
    ----------
    state_bytes : float
        Weights, their gradients, optimizer state.
    attention_bytes, ffn_bytes : float
        Activations that one micro-batch leaves for the backward pass in each half of the layers,
        the norm before it and the residual stream included.
    ffn_input_bytes : float
        The part of `ffn_bytes` from which the rest can be computed again.
    layers : int
        Layers of the stage; recomputation goes one by one.
    projection_bytes_per_rank : float
        Projections of all feed-forward matrices, for each direction that they keep.
    """

    state_bytes: float
    attention_bytes: float
    ffn_bytes: float
    ffn_input_bytes: float
    layers: int
    projection_bytes_per_rank: float = 0.0


def micro_batches_in_flight(node: int, nodes: int, micro_batches: int) -> int:
    """Return for how many micro-batches a node of a 1F1B pipeline keeps activations at most."""
    if not 0 <= node < nodes:
        raise StrategyError("node", f"there is no node {node}", f"use 0 to {nodes - 1}")
    return min(micro_batches, nodes - node)


def node_memory_bytes(
    stage: StageMemory,
    tasks: int,
    techniques: Techniques,
    in_flight: float,
    overhead_bytes: float = 0.0,
) -> float:
    """Return the bytes on a node that does the work of some stages of equal size.

    A node with one task uses no technique. Buffers for gradients of attention stay where its
    backward pass is skipped: the average over the other ranks comes there.

    Parameters
    ----------
    stage : StageMemory
        One stage.
    tasks : int
        Stages that the node does.
    techniques : Techniques
        What it uses if it does several.
    in_flight : float
        Micro-batches whose activations it keeps.
    overhead_bytes : float
        What is there whatever the work: contexts, buffers for communication, fragments.
    """
    used = techniques if tasks > 1 else Techniques()
    attention = 0.0 if used.skip_attention else stage.attention_bytes
    ffn, once = stage.ffn_bytes, 0.0
    if used.recompute_ffn:
        ffn = stage.ffn_input_bytes
        # While a layer goes backward, its activations are there again.
        once = (stage.ffn_bytes - stage.ffn_input_bytes) / stage.layers
    projections = 0.0
    if used.low_rank is not None:
        projections = used.low_rank.rank * stage.projection_bytes_per_rank
    each = stage.state_bytes + in_flight * (attention + ffn) + projections
    return overhead_bytes + tasks * each + once


def overhead_from(measured_bytes: float, stage: StageMemory, in_flight: float) -> float:
    """Return what a measurement of a node with one task shows beyond its stage.

    The only constant that is calibrated: on a node without a fault.
    """
    return measured_bytes - node_memory_bytes(stage, 1, Techniques(), in_flight)
