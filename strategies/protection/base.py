"""What every way of protecting the state answers.

A protection is one module of this package with one `Protection` subclass; the registry finds it by
its `name`. It lies beneath any scheme: the scheme says whether a failure forces a restart, the
protection says where the restarted job finds its state, and what it costs to put it there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from faultline.strategies.base import StrategyOptions
from faultline.strategies.checkpoint_policies import CheckpointPolicy
from faultline.strategies.errors import StrategyError
from faultline.strategies.in_memory.node_groups import NodeGroups, Placement

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


@dataclass(frozen=True, slots=True)
class LoadTimes:
    """Seconds to load the state, by where it is in memory."""

    local_s: float
    peers_s: float

    def of(self, recovery: Recovery) -> float | None:
        """Return the seconds for one way of recovery; None where storage's own time holds."""
        return {"local": self.local_s, "peers": self.peers_s, "storage": None}[recovery]


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


@dataclass(frozen=True, slots=True)
class ProtectedJob:
    """What of a job matters to those who protect its state.

    Attributes
    ----------
    groups : int
        Data-parallel groups, each of which holds a full replica of the state.
    nodes_per_group : int
        Nodes of a group; 1 where several groups share a node.
    nodes : int
        Nodes of the whole job.
    gpus_per_node : int
        GPUs of a node.
    state_bytes_per_gpu : float
        State of a replica that each GPU of its group holds, in bytes.
    compute_s : float
        Seconds of a step in which GPUs compute and the network is idle.
    shared_bytes_per_gpu : float
        The part of that state of which each replica holds a share only, in bytes.
    replicas : int
        Replicas that share it.
    slices : int
        Nodes of a server: above 1 where groups end within servers. GPUs of a node then belong to
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
        """What of the state each replica holds, in bytes a GPU."""
        return self.state_bytes_per_gpu - self.shared_bytes_per_gpu

    @property
    def held_bytes_per_gpu(self) -> float:
        """What a GPU holds of the state, in bytes."""
        return self.replicated_bytes_per_gpu + self.shared_bytes_per_gpu / self.replicas


class TransferTimes(Protocol):
    """How long it takes to move the state about; all in seconds, measured or stated."""

    @property
    def copy_s(self) -> float:
        """All GPUs copy their snapshot to the memory of their nodes."""

    @property
    def copy_interference_s(self) -> float:
        """What an all-reduce takes longer while that goes on; 0 where it is played beside steps."""

    @property
    def encode_s(self) -> float:
        """All nodes compute their parity."""

    @property
    def send_s(self) -> float:
        """All nodes send their copies to peers."""

    @property
    def send_interference_s(self) -> float:
        """What an all-reduce takes longer while that goes on; 0 where it is played beside steps."""

    @property
    def load_s(self) -> float:
        """All GPUs load the state from the memory of their nodes."""

    @property
    def rebuild_s(self) -> float:
        """A lost node is rebuilt from what its peers hold."""

    @property
    def fetch_s(self) -> float:
        """A lost node is sent its state by a peer that has all of it."""

    @property
    def persist_s(self) -> float:
        """One replica of the state goes from the memory of its nodes to storage."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """What a protection moves.

    Attributes
    ----------
    snapshot_bytes_per_gpu : float
        What every GPU copies to the memory of its node, in bytes.
    copies : int
        Copies of a node's snapshot that are sent to peers.
    share_bytes_per_gpu : float or None
        What of the snapshot peers bring back when the node is lost; None for all of it.
    loaded_bytes_per_gpu : float or None
        What every GPU loads from there; None for all that it holds of the state.
    """

    snapshot_bytes_per_gpu: float
    copies: int = 0
    share_bytes_per_gpu: float | None = None
    loaded_bytes_per_gpu: float | None = None


@dataclass(frozen=True, slots=True)
class SnapshotCost:
    """What a snapshot costs: all wait `stall_s`, and `lag_s` later it is whole; in seconds."""

    stall_s: float
    lag_s: float


class Protection(ABC):
    """A way to keep the state in memory.

    Parameters
    ----------
    job : ProtectedJob
        Whose state.
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
    """Whether it keeps snapshots in memory beforehand."""
    gathers: ClassVar[bool] = False
    """Whether each replica keeps a part of the snapshot only, so that loading ends with an
    all-gather among the replicas."""

    def __init__(self, job: ProtectedJob, options: StrategyOptions) -> None:
        self.job = job

    @property
    def copies_beside_steps(self) -> bool:
        """Whether snapshots go to memory while steps go on, which share links with them."""
        return False

    @property
    @abstractmethod
    def peers(self) -> NodeGroups | None:
        """Which nodes keep each other's state, and how many losses each group of them survives.

        None where nothing is kept in memory.
        """

    @property
    @abstractmethod
    def transfers(self) -> Transfers:
        """What is moved, for a platform to be asked how long it takes."""

    @abstractmethod
    def snapshot_cost(self, times: TransferTimes) -> SnapshotCost:
        """Return what a snapshot in memory costs."""

    @abstractmethod
    def persist_cost(self, times: TransferTimes) -> SnapshotCost:
        """Return what it costs to bring a snapshot to storage in the background."""

    @abstractmethod
    def load_times(self, times: TransferTimes) -> LoadTimes:
        """Return how long loading takes."""

    @property
    @abstractmethod
    def memory_bytes_per_node(self) -> float:
        """Host memory that a node needs, in bytes, while one snapshot is taken and one is whole."""

    def recovery(self, lost_nodes: Collection[int]) -> Recovery | None:
        """Return where the state is after servers were lost; None if it is not in memory."""
        peers = self.peers
        if peers is None or not peers.survives(peers.nodes_on(lost_nodes)):
            return None
        return "peers" if lost_nodes else "local"


def hidden_interference_s(transfer_s: float, interference_s: float, compute_s: float) -> float:
    """Return what a transfer of a stated time delays a step by, put where the network is idle.

    The transfer runs during the compute of a step; only what does not fit there meets the
    all-reduce, and delays it by its share of what the whole transfer would.
    """
    if transfer_s <= 0.0:
        return 0.0
    return interference_s * max(0.0, 1.0 - compute_s / transfer_s)


def peers_of_equal_shards(
    job: ProtectedJob, size: int, tolerated: int, placement: Placement
) -> NodeGroups:
    """Return groups of nodes of which each holds the same part of the model in another replica.

    Raises
    ------
    StrategyError
        If there are fewer nodes that hold the same part.
    """
    rows = job.nodes // job.nodes_per_group
    if size > rows:
        raise StrategyError(
            "protection",
            f"{size} nodes are to share the snapshot of one part of the model, {rows} hold it",
            f"use at most {rows}",
        )
    return NodeGroups(job.nodes, size, tolerated, placement, job.nodes_per_group, job.slices)
