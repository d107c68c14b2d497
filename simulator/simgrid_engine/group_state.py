"""The place of the groups' state, and the hosts between which it moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from faultline.strategies.recovery import Move, SentMove


class Flow(NamedTuple):
    """Bytes from one host to another."""

    sender: str
    receiver: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class GroupState:
    """The place of the state of a job's groups.

    Attributes
    ----------
    hosts : sequence of sequence of str
        The GPU hosts of each group.
    bytes_per_gpu : float
        Weights and optimizer state that a GPU keeps; a host that represents several counts as one.
    gpus_per_group : int
        GPUs of a group.
    storage : str
        The host of the file system; empty without one.
    context : int
        Replicas of a group that share its sequences, one after the other on its hosts.
    """

    hosts: Sequence[Sequence[str]]
    bytes_per_gpu: float
    gpus_per_group: int
    storage: str = ""
    context: int = 1

    def flows(self, moves: Sequence[SentMove]) -> list[Flow]:
        """Return the flows of some moves: from the GPUs of a stage to those that lack its state."""
        flows = []
        for move, sender in self._on_one_rail(moves):
            to = self._hosts_of(move.group, move.receiver, move.stages)
            if sender is None:
                away = [self.storage] * bool(self.storage)
            else:
                away = list(self._hosts_of(sender, move.of, move.stages))
            # If there are more stages than GPUs, a GPU has several.
            alike = min(1.0, self.gpus_per_group / move.stages)
            each = round(self.bytes_per_gpu * alike * move.share)
            flows += [
                Flow(away[place * len(away) // len(to)], host, each)
                for place, host in enumerate(to)
                if away
            ]
        return flows

    def _on_one_rail(self, moves: Sequence[SentMove]) -> Sequence[SentMove]:
        """Return the moves of one GPU if a host represents several, else all.

        Stages are on different GPUs of a group, each with an adapter of its own: the GPU that
        receives most takes longest.
        """
        if self.gpus_per_group <= len(self.hosts[0]):
            return moves
        received: dict[tuple[int, int], float] = {}
        for move, _ in moves:
            place = move.group, move.receiver
            received[place] = received.get(place, 0.0) + move.share
        fullest: dict[int, tuple[int, int]] = {}
        for place in received:
            fullest[place[0]] = max(place, fullest.get(place[0], place))
        for place, share in received.items():
            if share > received[fullest[place[0]]]:
                fullest[place[0]] = place
        kept = set(fullest.values())
        return [one for one in moves if (one.move.group, one.move.receiver) in kept]

    def size_bytes(self, moves: Sequence[Move]) -> float:
        """Return the bytes that arrive at all receivers together."""
        whole = self.bytes_per_gpu * self.gpus_per_group
        return sum(whole / move.stages * move.share for move in moves)

    def _hosts_of(self, group: int, stage: int, stages: int) -> Sequence[str]:
        hosts, found = self.hosts[group], list[str]()
        each = max(1, len(hosts) // self.context)
        for replica in range(0, len(hosts), each):
            first = replica + stage * each // stages
            found += hosts[first : max(first + 1, replica + (stage + 1) * each // stages)]
        return found
