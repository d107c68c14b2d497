"""What schemes are told of the job: how it is cut, what fits into a GPU, who has which state."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from faultline.strategies.pipeline_schedule import approximate_iteration
from faultline.strategies.rerouted_schedule import SplitBackward

OptimizerBackup = Literal["neighbour", "none"]
"""Who else has a group's share of the optimizer's state."""


def loses_a_share(
    members: Sequence[int], missing: Sequence[int], backup: OptimizerBackup | None
) -> bool:
    """Return whether a share of the optimizer's state is lost with some groups.

    Members that lie next to each other keep each other's shares, two by two, the last three of an
    odd number in a ring; shares are dealt anew whenever members leave or come. Weights are to be
    had from any member.

    Parameters
    ----------
    members : sequence of int
        Groups among whom the state was shared, in ascending order.
    missing : sequence of int
        Those of them that are lost at the same time.
    backup : {"neighbour", "none"} or None
        Who else has a member's share; None where each has all of the state.
    """
    if backup is None or not missing:
        return False
    if backup == "none" or len(members) < 2:
        return True
    last = len(members) // 2 - 1
    lost = Counter(min(bisect_left(members, group) // 2, last) for group in missing)
    return max(lost.values()) > 1


@dataclass(frozen=True, slots=True)
class JobShape:
    """A job in words that schemes need, none of them a second or a byte a second.

    The defaults are a 7B model on pipelines of eight GPUs (MeCeFO, NeurIPS 2025).

    Attributes
    ----------
    stages : int
        Pipeline stages of a group, a node each; a group's GPUs are dealt out to them in order, or
        those of each replica are where several share its sequences.
    tensor : int
        Tensor-parallel degree of a whole group: GPUs of a scale-up domain that work together.
    context : int
        Replicas of a group that share its sequences, one after the other on its GPUs.
    virtual_stages : int
        Interleaved parts of the model on each stage.
    micro_batches, micro_batch_sequences : int
        Micro-batches of a group in a step, and sequences of each.
    layers, hidden, ffn_hidden, sequence_tokens : int
        Of the model.
    stages_that_fit : int or None
        Stages whose state and activations fit into a GPU together; None for any number.
    micro_batches_that_fit : float
        Micro-batches whose activations fit into a GPU beside the state of its stage.
    least_stages : int
        Stages of the shortest pipeline that the model fits into.
    least_tensor : int
        Lowest tensor-parallel degree at which it fits.
    least_groups : int
        Fewest groups among whom the optimizer's state fits, where they share it.
    optimizer_backup : {"neighbour", "none"} or None
        Who else has a group's share of the optimizer's state; None where they do not share it.
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
    optimizer_backup: OptimizerBackup | None = None
    backward_share: float = 2 / 3
    split: SplitBackward | None = None

    @property
    def slots(self) -> float:
        """Length of a sound iteration in micro-batches: those of a group, and `idle_slots`."""
        return self.micro_batches + self.idle_slots

    @property
    def idle_slots(self) -> float:
        """Micro-batches for which a stage of a sound pipeline idles in an iteration.

        ``(p - 1) / v`` with v virtual stages (Narayanan et al. 2021, arXiv 2104.04473, 2.2.2);
        where the backward pass is split, what its schedule leaves idle.
        """
        if self.split:
            return self.split.sound(self.stages, self.micro_batches).time - self.micro_batches
        return (self.stages - 1) / self.virtual_stages

    def iteration(self, costs: Sequence[float], micro_batches: int | None = None) -> float:
        """Return the time of a pipeline's iteration, in sound micro-batches.

        By the time that a micro-batch takes on each stage, and the micro-batches, by default those
        of a sound pipeline.
        """
        cut = self.micro_batches if micro_batches is None else micro_batches
        if self.split:
            return self.split.iteration(costs, cut)
        return approximate_iteration(costs, cut, self.virtual_stages)

    @property
    def sequences(self) -> int:
        """Sequences of a group in a step."""
        return self.micro_batches * self.micro_batch_sequences

    @property
    def micro_batch_tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.micro_batch_sequences * self.sequence_tokens
