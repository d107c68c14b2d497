"""A job as schemes see it: parallel layout, memory limits, placement of state."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from faultline.strategies.interface.pipeline_schedule import approximate_iteration
from faultline.strategies.interface.split_backward import SplitBackward

Sharding = Literal["none", "optimizer", "full", "hybrid"]
"""State that replicas share: nothing, the optimizer's, or weights and gradients too, among all
replicas or among those of a scale-up domain."""
OptimizerBackup = Literal["neighbour", "none"]
"""Which other group has a copy of a group's share of the state."""


def shards_weights(sharding: Sharding) -> bool:
    """Return whether replicas share weights and gradients."""
    return sharding in ("full", "hybrid")


def loses_a_share(
    members: Sequence[int],
    missing: Sequence[int],
    backup: OptimizerBackup | None,
    domain_groups: int | None = None,
) -> bool:
    """Return whether the failure of some groups loses a share of the state that groups share.

    Neighbouring members back up each other's shares in pairs; the last three of an odd number form
    a ring. Shares are redistributed whenever members leave or join. A backup of the optimizer state
    has the weights in 32 bits, so it restores shares of weights, too. With hybrid sharding each
    domain has all shares: one is counted as lost once every domain lacks a member.

    Parameters
    ----------
    members : sequence of int
        Groups that shared the state, in ascending order.
    missing : sequence of int
        Members that are lost at the same time.
    backup : {"neighbour", "none"} or None
        Which other member has a copy of a share; None if each member has all of the state.
    domain_groups : int, optional
        Neighbouring groups that share the state, if each such set has all of it.
    """
    if backup is None or not missing:
        return False
    if domain_groups is not None:
        struck = {group // domain_groups for group in missing}
        return struck.issuperset(group // domain_groups for group in members)
    if backup == "none" or len(members) < 2:
        return True
    last = len(members) // 2 - 1
    lost = Counter(min(bisect_left(members, group) // 2, last) for group in missing)
    return max(lost.values()) > 1


@dataclass(frozen=True, slots=True)
class JobShape:
    """The layout and memory limits of a job, without times and bandwidths.

    The defaults are a 7B model on pipelines of eight GPUs (MeCeFO, NeurIPS 2025).

    Attributes
    ----------
    stages : int
        Pipeline stages of a group, one node each. A group's GPUs are assigned to stages in order;
        with context parallelism, the GPUs of each replica are.
    tensor : int
        Tensor-parallel degree of a whole group: GPUs of a scale-up domain that work together.
    context : int
        Replicas of a group that share its sequences, placed in order on its GPUs.
    virtual_stages : int
        Interleaved parts of the model on each stage.
    micro_batches, micro_batch_sequences : int
        Micro-batches per group and step, and sequences per micro-batch.
    layers, hidden, ffn_hidden, sequence_tokens : int
        Dimensions of the model.
    stages_that_fit : int or None
        Stages whose state and activations fit into one GPU together; None for any number.
    micro_batches_that_fit : float
        Micro-batches whose activations fit into a GPU beside the state of its stage.
    least_stages : int
        Stages of the shortest pipeline that holds the model.
    least_tensor : int
        Lowest tensor-parallel degree at which the model fits.
    least_groups : int
        Fewest groups that can hold the state that they share.
    sharding : {"none", "optimizer", "full", "hybrid"}
        State that groups share.
    optimizer_backup : {"neighbour", "none"} or None
        Which other group has a copy of a share of that state; None if it is not sharded.
    domain_groups : int or None
        Groups of a scale-up domain, which share the state, under hybrid sharding.
    backward_share : float
        Share of a step's compute that is the backward pass.
    split : SplitBackward or None
        How pipelines split their backward pass; None for one forward, one backward (1F1B).
    """

    stages: int = 8
    tensor: int = 32
    context: int = 1
    virtual_stages: int = 1
    micro_batches: int = 8
    micro_batch_sequences: int = 1
    layers: int = 32
    hidden: int = 4096
    ffn_hidden: int = 11_008
    sequence_tokens: int = 256
    stages_that_fit: int | None = None
    micro_batches_that_fit: float = inf
    least_stages: int = 1
    least_tensor: int = 1
    least_groups: int = 1
    sharding: Sharding = "none"
    optimizer_backup: OptimizerBackup | None = None
    domain_groups: int | None = None
    backward_share: float = 2 / 3
    split: SplitBackward | None = None

    @property
    def slots(self) -> float:
        """Length of a healthy iteration in micro-batches: those of a group, and `idle_slots`."""
        return self.micro_batches + self.idle_slots

    @property
    def idle_slots(self) -> float:
        """Micro-batches for which a stage of a healthy pipeline idles in an iteration.

        ``(p - 1) / v`` with v virtual stages (Narayanan et al. 2021, arXiv 2104.04473, 2.2.2).
        With a split backward pass, the idle time of its schedule.
        """
        if self.split:
            return self.split.healthy(self.stages, self.micro_batches).time - self.micro_batches
        return (self.stages - 1) / self.virtual_stages

    def iteration(self, costs: Sequence[float], micro_batches: int | None = None) -> float:
        """Return the time of a pipeline's iteration, in micro-batches of a healthy stage.

        `costs` are the times of a micro-batch on each stage. `micro_batches` defaults to those of a
        healthy pipeline.
        """
        count = self.micro_batches if micro_batches is None else micro_batches
        if self.split:
            return self.split.iteration(costs, count)
        return approximate_iteration(costs, count, self.virtual_stages)

    @property
    def sequences(self) -> int:
        """Sequences per group and step."""
        return self.micro_batches * self.micro_batch_sequences

    @property
    def micro_batch_tokens(self) -> int:
        """Tokens per micro-batch."""
        return self.micro_batch_sequences * self.sequence_tokens
