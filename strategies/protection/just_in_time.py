"""Just-in-time checkpoints: written after the failure by the surviving replicas (EuroSys'24)."""

from __future__ import annotations

from typing import ClassVar

from faultline.strategies.interface.scheme import StrategyOptions
from faultline.strategies.protection.base import (
    LoadTimes,
    ProtectedJob,
    Protection,
    SnapshotCost,
    Transfers,
    TransferTimes,
    peers_of_equal_shards,
)
from faultline.strategies.protection.node_groups import NodeGroups


class JustInTime(Protection):
    """A healthy replica saves its state after another has failed; there are no earlier snapshots.

    Only the current step is lost, as long as some replica has each part of the model (Gupta et al.
    2024, Just-In-Time Checkpointing, EuroSys'24) and each share of a sharded optimizer state is
    left, which the job checks. Saving and loading both count as loading.
    """

    name: ClassVar[str] = "just-in-time"
    summary: ClassVar[str] = "Just-in-time checkpoints: after the failure, from a healthy replica"
    takes_snapshots: ClassVar[bool] = False

    def __init__(self, job: ProtectedJob, options: StrategyOptions) -> None:
        super().__init__(job, options)
        rows = job.nodes // job.nodes_per_group
        self._peers = peers_of_equal_shards(job, rows, rows - 1, "neighbours")

    @property
    def peers(self) -> NodeGroups:
        return self._peers

    @property
    def transfers(self) -> Transfers:
        return Transfers(self.job.held_bytes_per_gpu)

    def snapshot_cost(self, times: TransferTimes) -> SnapshotCost:
        return SnapshotCost(0.0, 0.0)

    def persist_cost(self, times: TransferTimes) -> SnapshotCost:
        """Return the cost: a copy to host memory, then a background write to storage."""
        return SnapshotCost(times.copy_s, times.persist_s)

    def load_times(self, times: TransferTimes) -> LoadTimes:
        saved_s = times.copy_s
        return LoadTimes(saved_s + times.load_s, saved_s + times.fetch_s)

    @property
    def memory_bytes_per_node(self) -> float:
        return self.job.held_bytes_per_gpu * self.job.gpus_per_node
