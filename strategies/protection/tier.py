"""A tier: one place where snapshots of the state are kept, and what it takes to use it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Protocol

from faultline.strategies.checkpoint_policies import CheckpointPolicy

Recovery = Literal["local", "peers", "storage"]
"""Where a restarted job finds its state: every node in its own memory, lost nodes at others that
were left, or all of them on storage."""


class Keeper(Protocol):
    """Knows which losses a snapshot survives."""

    def recovery(self, lost_nodes: Collection[int]) -> Recovery | None:
        """Return where the state is after nodes were lost; None if it is gone.

        Parameters
        ----------
        lost_nodes : collection of int
            Nodes whose memory was lost since the snapshot was taken, each named once.
        """
        ...


@dataclass(frozen=True, slots=True)
class LoadTimes:
    """Seconds to load the state, by where it is; None where storage's own time holds."""

    local_s: float
    peers_s: float
    storage_s: float | None = None

    def of(self, recovery: Recovery) -> float | None:
        """Return the seconds for one way of recovery."""
        return {"local": self.local_s, "peers": self.peers_s, "storage": self.storage_s}[recovery]


@dataclass(frozen=True, slots=True)
class Tier:
    """One place where snapshots are kept.

    Attributes
    ----------
    name : str
        What it is called.
    policy : CheckpointPolicy or None
        When a snapshot is due; None where nothing is taken beforehand: after a failure, the
        survivors hold the state of the last step.
    stall_s : float
        What all members wait for a snapshot, its interference with the next steps included.
    lag_s : float
        Seconds from there until the snapshot is whole, or from when its last byte has arrived where
        that is played; a failure before that spoils it.
    keeper : Keeper
        Which losses a whole snapshot survives.
    load : LoadTimes
        How long loading takes.
    """

    name: str
    policy: CheckpointPolicy | None
    stall_s: float
    lag_s: float
    keeper: Keeper
    load: LoadTimes


class Durable:
    """Storage: no node that is lost takes anything with it."""

    def recovery(self, lost_nodes: Collection[int]) -> Recovery:
        """Return "storage", whatever is lost."""
        return "storage"
