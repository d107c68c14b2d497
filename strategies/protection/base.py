"""The interface of protections of a job's state.

A protection is one module of this package with one `Protection` subclass; the registry finds it by
its `name`. It works with each scheme: the scheme decides whether a failure forces a restart, the
protection decides where the restarted job finds its state, and at which cost it is stored there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.scheme import StrategyOptions
from faultline.strategies.protection.checkpoint_policies import CheckpointPolicy
from faultline.strategies.protection.node_groups import NodeGroups, Placement

Recovery = Literal["local", "peers", "storage"]
"""Place of a restarted job's state: the memory of each node; for lost nodes, the memory of their
peers; or storage for all nodes."""


class Keeper(Protocol):
    """The losses that a snapshot survives."""

    def recovery(self, lost_nodes: Collection[int]) -> Recovery | None:
        """Return where the state is after a loss of nodes; None if it is lost.

        Parameters
        ----------
        lost_nodes : collection of int
            Nodes whose memory was lost since the snapshot was taken, without duplicates.
        """


@dataclass(frozen=True, slots=True)
class LoadTimes:
    """Seconds to load the state from memory, by its place."""

    local_s: float
    peers_s: float

    def of(self, recovery: Recovery) -> float | None:
        """Return the seconds of a kind of recovery; None for storage, which has its own time."""
        return {"local": self.local_s, "peers": self.peers_s, "storage": None}[recovery]


@dataclass(frozen=True, slots=True)
class Tier:
    """One place where snapshots are kept.

    Attributes
    ----------
    name : str
        Its name.
    policy : CheckpointPolicy or None
        When a snapshot is due; None without snapshots: after a failure, the survivors hold the
        state of the last step.
    stall_s : float
        Seconds that all members wait for a snapshot, including its interference with later steps.
    lag_s : float
        Seconds from the end of the stall until the snapshot is complete; if the copy is simulated,
        from the arrival of its last byte. A failure before that makes it invalid.
    keeper : Keeper
        The losses that a complete snapshot survives.
    load : LoadTimes
        Times of loading.
    """

    name: str
    policy: CheckpointPolicy | None
    stall_s: float
    lag_s: float
    keeper: Keeper
    load: LoadTimes


VERSIONS_IN_MEMORY = 2
"""Snapshots that a node keeps: one complete, one in progress."""


class Durable:
    """Storage, which survives each loss of nodes."""

    def recovery(self, lost_nodes: Collection[int]) -> Recovery:
        """Return "storage"."""
        return "storage"


@dataclass(frozen=True, slots=True)
class ProtectedJob:
    """The properties of a job that protections use.

    Attributes
    ----------
    groups : int
        Data-parallel groups, each of which holds a full replica of the state.
    nodes_per_group : int
        Nodes per group; 1 if several groups share a node.
    nodes : int
        Nodes of the whole job.
    gpus_per_node : int
        GPUs per node.
    state_bytes_per_gpu : float
        State of a replica per GPU of its group, in bytes.
    compute_s : float
        Seconds of a step in which GPUs compute and the network is idle.
    shared_bytes_per_gpu : float
        The part of that state which is sharded over replicas, in bytes.
    replicas : int
        Replicas over which it is sharded.
    slices : int
        Nodes per server: above 1 if groups end within servers. All GPUs of a node then belong to
        one group.
    """

    groups: int
    nodes_per_group: int
    nodes: int
    gpus_per_node: int
    state_bytes_per_gpu: float
    compute_s: float
    shared_bytes_per_gpu: float = 0.0
    replicas: int = 1
    slices: int = 1

    @property
    def servers(self) -> int:
        """Servers of the whole job."""
        return -(-self.nodes // self.slices)

    @property
    def replicated_bytes_per_gpu(self) -> float:
        """The part of the state that each replica holds, in bytes per GPU."""
        return self.state_bytes_per_gpu - self.shared_bytes_per_gpu

    @property
    def held_bytes_per_gpu(self) -> float:
        """State that a GPU holds, in bytes."""
        return self.replicated_bytes_per_gpu + self.shared_bytes_per_gpu / self.replicas


@dataclass(frozen=True, slots=True)
class TransferTimes:
    """Times of moving the state on an otherwise idle platform, in seconds, measured or stated.

    Attributes
    ----------
    copy_s : float
        All GPUs copy their snapshots to host memory at once.
    copy_interference_s : float
        Delay of an all-reduce of the groups that starts with the copy, if stated; else copies are
        simulated beside steps.
    encode_s : float
        XOR parity in host memory: a member of a peer group of n nodes reads n - 1 blocks, each
        1/(n - 1) of a node's share, and writes one. 0 without peers.
    send_s : float
        Every node sends its copies to peers' host memories, all at once; 0 without copies.
    send_interference_s : float
        Delay of the all-reduce that starts with the sending, if stated.
    load_s : float
        All GPUs load their state from host memory at once.
    rebuild_s : float
        A node of the largest peer group is replaced: RAIM5's blocks from the survivors, XOR, load.
        0 without peers.
    fetch_s : float
        A replaced node gets its share from the memory of one peer that has a copy, and loads. 0
        without peers.
    persist_s : float
        The nodes of one group write their snapshots from host memory to storage, all at once.
    """

    copy_s: float
    copy_interference_s: float
    encode_s: float
    send_s: float
    send_interference_s: float
    load_s: float
    rebuild_s: float
    fetch_s: float
    persist_s: float


@dataclass(frozen=True, slots=True)
class Transfers:
    """The data that a protection moves.

    Attributes
    ----------
    snapshot_bytes_per_gpu : float
        Bytes that each GPU copies to the memory of its node.
    copies : int
        Copies of a node's snapshot that are sent to peers.
    share_bytes_per_gpu : float or None
        Bytes that peers send back if the node is lost; None for the whole snapshot.
    loaded_bytes_per_gpu : float or None
        Bytes that each GPU loads from memory; None for all of its state.
    """

    snapshot_bytes_per_gpu: float
    copies: int = 0
    share_bytes_per_gpu: float | None = None
    loaded_bytes_per_gpu: float | None = None


@dataclass(frozen=True, slots=True)
class SnapshotCost:
    """Cost of a snapshot: all wait `stall_s`, and it is complete `lag_s` later; in seconds."""

    stall_s: float
    lag_s: float


class Protection(ABC):
    """A way to keep the state in memory.

    Parameters
    ----------
    job : ProtectedJob
        The job to protect.
    options : StrategyOptions
        An instance of the class's own `Options`.

    Raises
    ------
    StrategyError
        If the job is too small for it.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    Options: ClassVar[type[StrategyOptions]] = StrategyOptions
    takes_snapshots: ClassVar[bool] = True
    """Whether it takes snapshots to memory before failures."""
    gathers: ClassVar[bool] = False
    """Whether each replica keeps only a part of the snapshot, so that loading ends with an
    all-gather among the replicas."""

    def __init__(self, job: ProtectedJob, options: StrategyOptions) -> None:
        self.job = job

    @property
    def copies_beside_steps(self) -> bool:
        """Whether snapshots are copied during steps and share links with them."""
        return False

    @property
    @abstractmethod
    def peers(self) -> NodeGroups | None:
        """Groups of nodes that keep each other's state, and the losses that each group survives.

        None if no state is kept in memory.
        """

    @property
    @abstractmethod
    def transfers(self) -> Transfers:
        """The data to move, from which a platform's times are measured."""

    @abstractmethod
    def snapshot_cost(self, times: TransferTimes) -> SnapshotCost:
        """Return the cost of a snapshot in memory."""

    @abstractmethod
    def persist_cost(self, times: TransferTimes) -> SnapshotCost:
        """Return the cost of writing a snapshot to storage in the background."""

    @abstractmethod
    def load_times(self, times: TransferTimes) -> LoadTimes:
        """Return the times of loading."""

    @property
    @abstractmethod
    def memory_bytes_per_node(self) -> float:
        """Host memory per node in bytes, for one complete snapshot and one in progress."""

    def recovery(self, lost_nodes: Collection[int]) -> Recovery | None:
        """Return where the state is after a loss of servers; None if it is not in memory."""
        peers = self.peers
        if peers is None or not peers.survives(peers.nodes_on(lost_nodes)):
            return None
        return "peers" if lost_nodes else "local"


def hidden_interference_s(transfer_s: float, interference_s: float, compute_s: float) -> float:
    """Return the delay of a step by a transfer of a stated time during its compute.

    Only the part of the transfer that outlasts the compute coincides with the all-reduce. It delays
    the all-reduce in proportion to the interference of the whole transfer.
    """
    if transfer_s <= 0.0:
        return 0.0
    return interference_s * max(0.0, 1.0 - compute_s / transfer_s)


def peers_of_equal_shards(
    job: ProtectedJob, size: int, tolerated: int, placement: Placement
) -> NodeGroups:
    """Return groups of nodes that hold the same part of the model, each in another replica.

    Raises
    ------
    StrategyError
        If too few nodes hold the same part.
    """
    rows = job.nodes // job.nodes_per_group
    if size > rows:
        raise StrategyError(
            "protection",
            f"{size} nodes share the snapshot of one part of the model, but only {rows} hold it",
            f"use at most {rows}",
        )
    return NodeGroups(job.nodes, size, tolerated, placement, job.nodes_per_group, job.slices)
