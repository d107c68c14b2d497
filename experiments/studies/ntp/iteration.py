"""The time of an iteration of a replica.

A micro-batch takes compute, tensor-parallel collectives and the transfer to the next stage; the
slowest stage counts. For m micro-batches, a pipeline of p stages with one forward, one backward
(1F1B) takes ``m - 1 + p`` times that, or ``m + (p - 1)/v`` times if each stage has v interleaved
parts (Narayanan et al. 2021, section 2.2). The gradient all-reduce follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from faultline.simulator.workload.gpu_memory import Precision, stage_parameters
from faultline.simulator.workload.layout import Layout, stage_layers
from faultline.simulator.workload.transformer import Transformer, token_flop

_LAYER_ALL_REDUCES = 4
"""Tensor-parallel all-reduces of a layer and micro-batch: two forward, two backward (Shoeybi et al.
2019, Megatron-LM, arXiv 1909.08053, section 3)."""


class Hop(NamedTuple):
    """An edge on an idle fabric: latency in s, bandwidth in bytes/s."""

    latency_s: float
    bandwidth_bytes_per_s: float

    def seconds(self, size_bytes: float) -> float:
        """Return the time of one message, in seconds."""
        return self.latency_s + size_bytes / self.bandwidth_bytes_per_s

    def all_reduce_s(self, ranks: int, size_bytes: float) -> float:
        """Return the time of a ring whose edges are all like this, in seconds.

        ``2 (n - 1) a + 2 (n - 1)/n m b`` (Patarasu and Yuan 2009).
        """
        return 2 * (ranks - 1) * self.seconds(size_bytes / ranks)


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that a job runs on."""

    peak_flop_per_s: float  # Dense peak of a GPU.
    compute_efficiency: float  # Share of the peak that matrix products reach.
    # An edge inside a domain and between domains: latency in s, bandwidth each way in bytes/s.
    scale_up: Hop
    scale_out: Hop
    # Share of the tensor-parallel collectives that hides behind compute.
    tensor_overlap: float = 0.0
    gradient_overlap: float = 0.0  # Share of the gradient all-reduce that hides behind compute.
    # Whether ranks have whole attention heads, so that the rank with most heads sets the pace;
    # otherwise heads are divided evenly.
    whole_heads: bool = False

    @property
    def flop_per_s(self) -> float:
        """FLOP/s that matrix products reach."""
        return self.peak_flop_per_s * self.compute_efficiency


@dataclass(frozen=True, slots=True)
class StageTime:
    """Seconds of one micro-batch on one stage.

    The backward pass has two halves, because some schedules reorder them. Collectives are those
    that do not hide behind compute.
    """

    forward_s: float
    input_gradient_s: float
    weight_gradient_s: float
    collectives_s: float

    @property
    def compute_s(self) -> float:
        """Forward and both gradients."""
        return self.forward_s + self.input_gradient_s + self.weight_gradient_s

    @property
    def total_s(self) -> float:
        """Compute and collectives."""
        return self.compute_s + self.collectives_s


@dataclass(frozen=True, slots=True)
class IterationTime:
    """Seconds of an iteration by purpose; they add up to `total_s`."""

    compute_s: float
    collectives_s: float
    bubble_s: float
    pipeline_transfer_s: float
    gradient_sync_s: float

    @property
    def total_s(self) -> float:
        """The whole iteration."""
        return (
            self.compute_s
            + self.collectives_s
            + self.bubble_s
            + self.pipeline_transfer_s
            + self.gradient_sync_s
        )


def stage_times(
    model: Transformer,
    layout: Layout,
    machine: Machine,
    micro_batch_sequences: int,
    *,
    speed: float = 1.0,
) -> tuple[StageTime, ...]:
    """Return the time of a micro-batch on each stage.

    The `speed` is compute over its nominal pace, for GPUs that run at another power.

    Raises
    ------
    WorkloadError
        The layers do not fill the stages.
    """
    flop = token_flop(model)
    tokens = micro_batch_sequences * model.sequence_tokens
    seconds = tokens / (layout.tensor * machine.flop_per_s * speed)
    attention = _fullest_share(model.heads, layout.tensor) if machine.whole_heads else 1.0
    size_bytes = _activation_bytes(model, micro_batch_sequences)
    all_reduce_s = machine.scale_up.all_reduce_s(layout.tensor, size_bytes)
    layer_collectives_s = _LAYER_ALL_REDUCES * all_reduce_s * (1 - machine.tensor_overlap)
    times = []
    for stage, layers in enumerate(stage_layers(model.layers, layout)):
        vocabulary = flop.vocabulary if stage == layout.pipeline - 1 else 0.0
        forward_s, input_gradient_s, weight_gradient_s = (
            seconds * (layers * (attention * each.attention + each.ffn) + vocabulary)
            for each in (flop.forward, flop.input_gradient, flop.weight_gradient)
        )
        times.append(
            StageTime(forward_s, input_gradient_s, weight_gradient_s, layers * layer_collectives_s)
        )
    return tuple(times)


def iteration_time(
    model: Transformer,
    layout: Layout,
    machine: Machine,
    micro_batch_sequences: int,
    micro_batches: int,
    *,
    speed: float = 1.0,
) -> IterationTime:
    """Return the time of an iteration of a replica.

    The `speed` is compute over its nominal pace.

    Raises
    ------
    WorkloadError
        The layers do not fill the stages.
    """
    stages = stage_times(model, layout, machine, micro_batch_sequences, speed=speed)
    slowest = max(stages, key=lambda stage: stage.total_s)
    ramps = layout.pipeline - 1
    # Each rank sends its share; the receiving domain gathers all shares (scatter-gather, Narayanan
    # et al. 2021, section 4.1).
    sent_bytes = _activation_bytes(model, micro_batch_sequences) / layout.tensor
    # Gradients of one rank of the fullest stage.
    parameters = max(stage_parameters(model, layout))
    gradient_bytes = Precision().gradient_bytes * parameters / layout.tensor
    gradients_s = machine.scale_out.all_reduce_s(layout.data, gradient_bytes)
    return IterationTime(
        compute_s=micro_batches * slowest.compute_s,
        collectives_s=micro_batches * slowest.collectives_s,
        bubble_s=ramps * slowest.total_s / layout.virtual_stages,
        # Transfers hide behind compute, except while the pipeline fills and drains.
        pipeline_transfer_s=2 * ramps * machine.scale_out.seconds(sent_bytes),
        gradient_sync_s=gradients_s * (1 - machine.gradient_overlap),
    )


def _activation_bytes(model: Transformer, micro_batch_sequences: int) -> float:
    """Return the bytes of a micro-batch's activations: the buffer of a tensor-parallel all-reduce.

    With sequence parallelism a reduce-scatter and an all-gather move the same bytes.
    """
    tokens = model.sequence_tokens * micro_batch_sequences
    return Precision().activation_bytes * tokens * model.hidden


def _fullest_share(heads: int, ranks: int) -> float:
    """Return the largest number of heads of a rank over that of an even division."""
    return ceil(heads / ranks) * ranks / heads
