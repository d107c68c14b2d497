"""Every replica in the memory of its own nodes."""

from __future__ import annotations

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


class WholeCopies(Protection):
    """Each node copies its whole part; a lost node receives it from any other replica."""

    name = "whole-copies"
    summary = "Every replica in the memory of its own nodes"

    def __init__(self, job: ProtectedJob, options: StrategyOptions) -> None:
        super().__init__(job, options)
        self._peers = peers_of_equal_shards(job, job.groups, job.groups - 1, "neighbours")

    @property
    def peers(self) -> NodeGroups:
        return self._peers

    @property
    def transfers(self) -> Transfers:
        return Transfers(self.job.state_bytes_per_gpu)

    def snapshot_cost(self, times: TransferTimes) -> SnapshotCost:
        return SnapshotCost(stall_s=times.copy_s, lag_s=0.0)

    def persist_cost(self, times: TransferTimes) -> SnapshotCost:
        return SnapshotCost(stall_s=0.0, lag_s=times.persist_s)

    def load_times(self, times: TransferTimes) -> LoadTimes:
        return LoadTimes(times.load_s, times.fetch_s)

    @property
    def memory_bytes_per_node(self) -> float:
        return 2 * self.job.state_bytes_per_gpu * self.job.gpus_per_node
