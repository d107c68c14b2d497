"""The messages of each kind of parallelism in an iteration."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.memory import Precision, stage_parameters
from faultline.simulator.workload.transformer import Transformer

LAYER_ALL_REDUCES = 4
"""Tensor-parallel all-reduces of a layer and micro-batch: two forward, two backward (Shoeybi et al.
2019, Megatron-LM, arXiv 1909.08053, section 3)."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Bytes of a job's messages, as a GPU sees them.

    Attributes
    ----------
    tensor_all_reduce_bytes : float
        Buffer of one tensor-parallel all-reduce, of which a layer has `LAYER_ALL_REDUCES` a
        micro-batch. With sequence parallelism each is a reduce-scatter and an all-gather: the same
        bytes.
    pipeline_bytes : float
        Activations, or their gradients, of a micro-batch from a rank to its peer in the next stage:
        each rank sends its share, which the receiving domain puts together (scatter-gather,
        Narayanan et al. 2021, section 4.1).
    gradient_bytes : float
        Buffer of the all-reduce between replicas: gradients of one rank of the fullest stage.
    """

    tensor_all_reduce_bytes: float
    pipeline_bytes: float
    gradient_bytes: float


def messages_of(model: Transformer, layout: Layout, micro_batch_sequences: int) -> Messages:
    """Return the messages of a job.

    Raises
    ------
    WorkloadError
        The layers do not fill the stages.
    """
    precision = Precision()
    activations = (
        precision.activation_bytes * model.sequence_tokens * micro_batch_sequences * model.hidden
    )
    return Messages(
        tensor_all_reduce_bytes=activations,
        pipeline_bytes=activations / layout.tensor,
        gradient_bytes=precision.gradient_bytes
        * max(stage_parameters(model, layout))
        / layout.tensor,
    )
