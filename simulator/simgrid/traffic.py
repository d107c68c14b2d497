"""The phases that are simulated as messages on the platform's network, and their hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from faultline.simulator.pattern.placed_step import PlacedStep
from faultline.strategies.interface.recovery import Move, SentMove

Flow = tuple[str, str, float]
"""Source host, destination host, size in bytes."""

Readers = Literal["one-group", "every-group"]
"""The readers of a checkpoint from storage: one group, which passes it on, or all groups."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """A job's data on the network.

    A phase that is not simulated as messages takes its stated time. The rank of a group, which
    takes its orders, runs on the group's first host; in the all-reduce and for checkpoints each
    host sends and receives by itself.
    """

    hosts: Sequence[Sequence[str]]  # The GPU hosts of each group.
    storage: str  # The host of the file system; empty if there is none.
    bytes_per_rank: float  # Gradients that each GPU host carries for its group.
    all_reduce: bool  # Whether the all-reduce is simulated as messages.
    save: bool  # Whether the writing of checkpoints is.
    load: bool  # Whether the loading of checkpoints is.
    readers: Readers = "one-group"
    # Bytes of a checkpoint that each GPU host writes and loads; None if as many as of gradients.
    checkpoint_bytes: float | None = None
    step: PlacedStep | None = None  # The work of each rank in a step, if the job defines it.
    gpus_per_group: int | None = None  # GPUs that a group's hosts represent; None if one each.
    context: int = 1  # Replicas of a group that share its sequences, in the order of its hosts.
    # Training state that each GPU host holds, in bytes; None if as many as of a checkpoint.
    state_bytes: float | None = None
    snapshot: tuple[Flow, ...] = ()  # Flows to host memories while steps go on.

    def write_of(self, writer: int | None) -> list[Flow]:
        """Return the flows of a group to storage, or of all groups to memories."""
        if writer is None:
            return list(self.snapshot)
        size_bytes = self.checkpoint_bytes_per_rank
        return [(host, self.storage, size_bytes) for host in self.hosts[writer]]

    @property
    def checkpoint_bytes_per_rank(self) -> float:
        """Bytes of a checkpoint that each GPU host carries for its group."""
        return self.bytes_per_rank if self.checkpoint_bytes is None else self.checkpoint_bytes

    @property
    def _gpus(self) -> int:
        """GPUs that the hosts of a group represent."""
        return self.gpus_per_group or len(self.hosts[0])

    @property
    def _state_bytes_per_gpu(self) -> float:
        """Weights and optimizer state of a GPU; a host that represents several counts as one."""
        return self.checkpoint_bytes_per_rank if self.state_bytes is None else self.state_bytes

    def state_flows(self, moves: Sequence[SentMove]) -> list[Flow]:
        """Return the flows of some moves: from the GPUs of a stage to those that lack its state."""
        flows: list[Flow] = []
        for move, sender in self._on_one_rail(moves):
            receivers = self._hosts_of(move.group, move.receiver, move.stages)
            if sender is None:
                senders = [self.storage] * bool(self.storage)
            else:
                senders = self._hosts_of(sender, move.of, move.stages)
            # If there are more stages than GPUs, a GPU has the state of several stages.
            share = min(1.0, self._gpus / move.stages) * move.share
            size_bytes = round(self._state_bytes_per_gpu * share)
            for number, receiver in enumerate(receivers if senders else ()):
                from_host = senders[number * len(senders) // len(receivers)]
                flows.append((from_host, receiver, size_bytes))
        return flows

    def _on_one_rail(self, moves: Sequence[SentMove]) -> Sequence[SentMove]:
        """Return all moves; if a host represents several GPUs, those of one GPU per group.

        Stages are on different GPUs of a group, each with an adapter of its own: the GPU that
        receives most takes longest.
        """
        if self._gpus <= len(self.hosts[0]):
            return moves
        received: dict[int, dict[int, float]] = {}
        for move, _ in moves:
            shares = received.setdefault(move.group, {})
            shares[move.receiver] = shares.get(move.receiver, 0.0) + move.share
        # The last receiver of a group if none receives more, else the first that receives most.
        busiest = {
            group: max([max(shares), *shares], key=shares.__getitem__)
            for group, shares in received.items()
        }
        return [sent for sent in moves if busiest[sent.move.group] == sent.move.receiver]

    def state_bytes_of(self, moves: Sequence[Move]) -> float:
        """Return the bytes that arrive at all receivers together."""
        group_bytes = self._state_bytes_per_gpu * self._gpus
        return sum(group_bytes / move.stages * move.share for move in moves)

    def _hosts_of(self, group: int, stage: int, stages: int) -> list[str]:
        hosts, hosts_of_stage = self.hosts[group], list[str]()
        size = max(1, len(hosts) // self.context)
        for begin in range(0, len(hosts), size):
            first = begin + stage * size // stages
            end = max(first + 1, begin + (stage + 1) * size // stages)
            hosts_of_stage += hosts[first:end]
        return hosts_of_stage
