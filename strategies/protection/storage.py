"""Checkpoints on storage, written while the job waits, or in the background."""

from __future__ import annotations

from typing import ClassVar

from faultline.strategies.protection.base import (
    LoadTimes,
    Protection,
    SnapshotCost,
    Transfers,
    TransferTimes,
)


class Storage(Protection):
    """Checkpoints are written to storage while the job waits; none are kept in memory."""

    name: ClassVar[str] = "storage"
    summary: ClassVar[str] = "Checkpoints on storage only, written while the job waits"
    takes_snapshots: ClassVar[bool] = False

    @property
    def peers(self) -> None:
        return None

    @property
    def transfers(self) -> Transfers:
        return Transfers(0.0)

    def snapshot_cost(self, times: TransferTimes) -> SnapshotCost:
        return SnapshotCost(0.0, 0.0)

    def persist_cost(self, times: TransferTimes) -> SnapshotCost:
        """Return the cost: the job waits until all is written."""
        return SnapshotCost(times.persist_s, 0.0)

    def load_times(self, times: TransferTimes) -> LoadTimes:
        return LoadTimes(0.0, 0.0)

    @property
    def memory_bytes_per_node(self) -> float:
        return 0.0


class AsynchronousStorage(Storage):
    """The job waits only for the copy to host memory; the write is in the background.

    Like the snapshot and persist phases of CheckFreq (Mohan et al. 2021). Each GPU copies an equal
    part of one replica.
    """

    name: ClassVar[str] = "async-storage"
    summary: ClassVar[str] = "Checkpoints on storage, written in the background"

    @property
    def transfers(self) -> Transfers:
        return Transfers(self.job.state_bytes_per_gpu)

    def persist_cost(self, times: TransferTimes) -> SnapshotCost:
        return SnapshotCost(times.copy_s, times.persist_s)

    @property
    def memory_bytes_per_node(self) -> float:
        """One copy of the state of its GPUs, until it is written."""
        return self.job.state_bytes_per_gpu * self.job.gpus_per_node
