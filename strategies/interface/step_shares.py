"""How a scheme changes the work of groups and stages in a step, without times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class StageShare(NamedTuple):
    """A stage of a pipeline, and the node that computes it.

    Attributes
    ----------
    group, node : int
        The node: the GPUs that compute stage `node` of that group in a healthy job.
    layers : int or None
        Layers of the stage; None if the pipeline is divided as in a healthy job.
    forward, backward : float
        Work of each pass, relative to that of a healthy job.
    shadows : int or None
        Stage of the same pipeline whose forward pass the node computes as well.
    skips_attention : bool
        Whether the backward pass omits attention and the messages of its ranks.
    """

    group: int
    node: int
    layers: int | None = None
    forward: float = 1.0
    backward: float = 1.0
    shadows: int | None = None
    skips_attention: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How a group computes a shard type, if that differs from a healthy job.

    Neighbouring stages on one node are one stage of a shorter pipeline. Each layer is synchronised
    with its copies in other pipelines, at the lowest tensor-parallel degree among them.

    Attributes
    ----------
    group : int
        The group whose share of the batch it computes.
    stages : tuple of StageShare
        In the order of the model, all with `layers` or all without; empty for an idle group.
    micro_batches : int
        Its micro-batches.
    tensor : int
        Tensor-parallel ranks of each working node.
    orders : tuple of str
        For each stage, the passes of its node in order, if that is not 1F1B: F (forward), B
        (backward), W (separate weight gradients), a dot for a wait. A stage with more micro-batches
        than its neighbour computes some of other pipelines.
    staggered : bool
        Whether steps follow each other without a barrier. Then the time of each stage counts from
        its own first pass.
    """

    group: int
    stages: tuple[StageShare, ...]
    micro_batches: int
    tensor: int
    orders: tuple[str, ...] = ()
    staggered: bool = False


def reduced_pipeline(
    group: int, stages: int, micro_batches: int, tensor: int, work: float = 1.0
) -> Pipeline:
    """Return the pipeline of a group's own nodes, at another tensor-parallel degree or batch.

    `work` is that of all passes relative to a healthy job: below 1 for faster GPUs.
    """
    own = tuple(StageShare(group, stage, None, work, work) for stage in range(stages))
    return Pipeline(group, own, micro_batches, tensor)


def idle(group: int) -> Pipeline:
    """Return the pipeline of a group without a share of the batch."""
    return Pipeline(group, (), 0, 1)
