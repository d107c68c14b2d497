"""Moves of training state between GPUs, host memories and storage, and their times.

Schemes that keep checkpoints in memory differ in what they move: REFT (Wang et al. 2023, arXiv
2310.12670) a share of the state and a parity, GEMINI (Wang et al. 2023, SOSP) whole copies to the
memories of peers, just-in-time checkpointing (Gupta et al. 2024, EuroSys) the state of one replica
after a failure. The time of each move is measured on a platform by
`simulator.simgrid_engine.state_probe`.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultline.strategies.protection.base import TransferTimes


@dataclass(frozen=True, slots=True)
class StateTransfers:
    """Bytes that a scheme moves between GPUs, host memories and storage.

    A node is a server: GPU number over GPUs of a host. On a rail plane it is one GPU host, which
    stands for one GPU of each server of its group.

    Attributes
    ----------
    groups : int
        Data-parallel groups of the job, on the platform's GPU hosts in order.
    snapshot_bytes_per_gpu : float
        Bytes that every GPU copies to the memory of its host at a snapshot.
    state_bytes_per_gpu : float
        Bytes that every GPU loads after a restart.
    peers : tuple of tuple of int
        Groups of nodes that keep each other's state. A node is in one group at most.
    copies : int
        Copies of a node's snapshot that go to other nodes of its peer group, to those behind it in
        the group's order: m - 1 for the m replicas of GEMINI, 0 for REFT.
    gradient_bytes_per_gpu : float
        Gradients of a GPU in the all-reduce of the groups.
    share_bytes_per_gpu : float or None
        Bytes of its snapshot that a GPU's peers restore when its node is lost; None for all.
        REFT copies the blocks for its parity too, and keeps their XOR only.
    slices : int
        Nodes of a server, where its GPUs are parts of several groups.
    """

    groups: int
    snapshot_bytes_per_gpu: float
    state_bytes_per_gpu: float
    peers: tuple[tuple[int, ...], ...]
    copies: int
    gradient_bytes_per_gpu: float
    share_bytes_per_gpu: float | None = None
    slices: int = 1

    @property
    def rebuilt_bytes_per_gpu(self) -> float:
        """Bytes that a GPU's peers restore when its node is lost."""
        if self.share_bytes_per_gpu is None:
            return self.snapshot_bytes_per_gpu
        return self.share_bytes_per_gpu


@dataclass(frozen=True, slots=True)
class StateTransferTimes(TransferTimes):
    """Times of the moves, and what else the platform states.

    Attributes
    ----------
    host_memory_bytes : float or None
        Memory of a node; None if the platform does not state it.
    all_reduce_s : float
        The ring all-reduce of the groups, with nothing beside it.
    """

    host_memory_bytes: float | None
    all_reduce_s: float = 0.0
