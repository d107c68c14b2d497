"""Which phases are messages on the platform's network, and between which hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from faultline.simulator.pattern.placed_step import PlacedStep
from faultline.strategies.recovery import Move, SentMove

Flow = tuple[str, str, float]
"""Source host, destination host, size in bytes."""

Readers = Literal["one-group", "every-group"]
"""The readers of a checkpoint from storage: one group, which passes it on, or all at once."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """A job's data on the network.

    Attributes
    ----------
    hosts : sequence of sequence of str
        The GPU hosts of each group. The group's rank, which takes its orders, runs on the first;
        in the all-reduce and for checkpoints each host sends and receives by itself.
    storage : str
        The host of the file system; empty without one.
    bytes_per_rank : float
        Bytes of gradients that each GPU host carries for its group.
    all_reduce, save, load : bool
        Whether the phase is simulated as messages; else it takes its stated time.
    readers : {"one-group", "every-group"}
        The readers of a checkpoint from storage.
    checkpoint_bytes : float or None
        Bytes of a checkpoint that each GPU host writes and loads; None for as many as of gradients.
    step : PlacedStep or None
        The work of every rank in a step, if the job defines it.
    gpus_per_group : int or None
        GPUs that the hosts of a group represent; None for one each.
    context : int
        Replicas of a group that share its sequences, one after the other on its hosts.
    state_bytes : float or None
        Bytes of training state that each GPU host holds; None for as many as of a checkpoint.
    snapshot : tuple of Flow
        Flows to host memories while steps go on.
    """

    hosts: Sequence[Sequence[str]]
    storage: str
    bytes_per_rank: float
    all_reduce: bool
    save: bool
    load: bool
    readers: Readers = "one-group"
    checkpoint_bytes: float | None = None
    step: PlacedStep | None = None
    gpus_per_group: int | None = None
    context: int = 1
    state_bytes: float | None = None
    snapshot: tuple[Flow, ...] = ()

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
            to = self._hosts_of(move.group, move.receiver, move.stages)
            if sender is None:
                away = [self.storage] * bool(self.storage)
            else:
                away = self._hosts_of(sender, move.of, move.stages)
            # If there are more stages than GPUs, a GPU has several.
            alike = min(1.0, self._gpus / move.stages)
            each = round(self._state_bytes_per_gpu * alike * move.share)
            if away:
                count = len(to)
                flows += [(away[n * len(away) // count], host, each) for n, host in enumerate(to)]
        return flows

    def _on_one_rail(self, moves: Sequence[SentMove]) -> Sequence[SentMove]:
        """Return the moves of one GPU if a host represents several, else all.

        Stages are on different GPUs of a group, each with an adapter of its own: the GPU that
        receives most takes longest.
        """
        if self._gpus <= len(self.hosts[0]):
            return moves
        received: dict[int, dict[int, float]] = {}
        for move, _ in moves:
            shares = received.setdefault(move.group, {})
            shares[move.receiver] = shares.get(move.receiver, 0.0) + move.share
        # Of equal receivers of a group the one with the highest number, or else the first.
        fullest = {
            group: max([max(shares), *shares], key=shares.__getitem__)
            for group, shares in received.items()
        }
        return [one for one in moves if fullest[one.move.group] == one.move.receiver]

    def state_bytes_of(self, moves: Sequence[Move]) -> float:
        """Return the bytes that arrive at all receivers together."""
        whole = self._state_bytes_per_gpu * self._gpus
        return sum(whole / move.stages * move.share for move in moves)

    def _hosts_of(self, group: int, stage: int, stages: int) -> list[str]:
        hosts, found = self.hosts[group], list[str]()
        each = max(1, len(hosts) // self.context)
        for replica in range(0, len(hosts), each):
            first = replica + stage * each // stages
            found += hosts[first : max(first + 1, replica + (stage + 1) * each // stages)]
        return found
