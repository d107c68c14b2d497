"""Who does what in a step, in words of the job: what a scheme changes in it, without a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class StageShare(NamedTuple):
    """A stage of a pipeline, and the node that does it.

    Attributes
    ----------
    group, node : int
        The node: the GPUs that do stage `node` of that group in an undisturbed job.
    layers : int or None
        Layers of the stage; None where the pipeline is cut as in an undisturbed job.
    forward, backward : float
        Work of each pass over what it usually is.
    shadows : int or None
        Stage of the same pipeline whose forward pass the node computes besides.
    skips_attention : bool
        Whether the backward pass leaves attention out, and so what its ranks would send for it.
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
    """How a group computes a shard type, where that is not as in an undisturbed job.

    Neighbouring stages of one node are one stage of a shorter pipeline. Layers meet in the sync
    with whoever has them in other pipelines; where degrees differ, at the lowest of them.

    Attributes
    ----------
    group : int
        Whose share of the batch it is.
    stages : tuple of StageShare
        In the order of the model, all with `layers` or all without; none for a group that idles.
    micro_batches : int
        Micro-batches that it takes.
    tensor : int
        Tensor-parallel ranks of each of its nodes that work.
    orders : tuple of str
        By stage, the passes of its node in their order, where they are not one forward, one
        backward: F, B, W where weight gradients come apart, a dot where it waits. A stage with more
        than its neighbour has some of other pipelines.
    staggered : bool
        Whether steps follow each other without a barrier: then the time of each stage counts from
        its own beginning.
    """

    group: int
    stages: tuple[StageShare, ...]
    micro_batches: int
    tensor: int
    orders: tuple[str, ...] = ()
    staggered: bool = False


def reduced(
    group: int, stages: int, micro_batches: int, tensor: int, work: float = 1.0
) -> Pipeline:
    """Return the pipeline of a group's own nodes, at another tensor-parallel degree or batch.

    `work` is that of all passes over what it usually is: less for GPUs that are faster than usual.
    """
    own = tuple(StageShare(group, stage, None, work, work) for stage in range(stages))
    return Pipeline(group, own, micro_batches, tensor)


def idle(group: int) -> Pipeline:
    """Return what a group does that takes no share of the batch."""
    return Pipeline(group, (), 0, 1)
