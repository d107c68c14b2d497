"""REFT: sharded snapshots in host memory under an erasure code (Wang et al. 2023, 2310.12670)."""

from __future__ import annotations

from typing import ClassVar, Literal

from faultline.strategies.interface.scheme import StrategyOptions
from faultline.strategies.protection.base import (
    VERSIONS_IN_MEMORY,
    LoadTimes,
    ProtectedJob,
    Protection,
    SnapshotCost,
    Transfers,
    TransferTimes,
    hidden_interference_s,
    peers_of_equal_shards,
)
from faultline.strategies.protection.node_groups import NodeGroups, Placement
from pydantic import Field


class ReftOptions(StrategyOptions):
    """Named choices of REFT."""

    sharding_group: int = Field(
        16,
        ge=1,
        le=100_000,
        description="Nodes that share the snapshot of one part of the model: at most the number of "
        "data-parallel groups.",
        json_schema_extra={"source": "Wang et al. 2023 (REFT): groups of 16", "unit": "1"},
    )
    code: Literal["raim5", "none"] = Field(
        "raim5",
        description="Erasure code of the snapshots.",
        json_schema_extra={
            "source": "choice: as in REFT",
            "choices": {
                "raim5": "parity across the sharding group: one lost node per group is rebuilt",
                "none": "no code: each lost node loses its shard",
            },
        },
    )
    copying: Literal["hidden", "free-running", "blocking"] = Field(
        "hidden",
        description="How the copy to host memory overlaps with training.",
        json_schema_extra={
            "source": "choice: hierarchical asynchronous snapshotting of REFT",
            "choices": {
                "hidden": "in small buckets while GPUs compute; the rest competes with the "
                "all-reduce on PCIe",
                "free-running": "at once, at any time of a step; if times are measured, copies "
                "begin with a step in both cases",
                "blocking": "training waits for the copy",
            },
        },
    )
    placement: Placement = Field(
        "across-domains",
        description="Which nodes share a sharding group.",
        json_schema_extra={
            "source": "choice: a failed scale-up domain should cost a group only one node",
            "choices": {
                "across-domains": "nodes as far apart as possible",
                "neighbours": "nodes next to each other",
            },
        },
    )


class Reft(Protection):
    """Each member of a sharding group copies its part of the state to host memory.

    The n members hold 1/n of the state each, and a parity block of 1/(n(n - 1)). Parity needs no
    network, since each member has the whole replica in its GPUs. If the optimizer state is sharded
    over replicas, a member saves its own shard; messages for the shard's parity are not charged.
    """

    name: ClassVar[str] = "reft"
    summary: ClassVar[str] = "REFT: sharded snapshots in host memory under an erasure code"
    gathers: ClassVar[bool] = True
    Options: ClassVar[type[StrategyOptions]] = ReftOptions

    def __init__(self, job: ProtectedJob, options: StrategyOptions) -> None:
        super().__init__(job, options)
        assert isinstance(options, ReftOptions)
        self._options = options
        coded = options.code == "raim5" and options.sharding_group > 1
        self._parity = 1.0 / (options.sharding_group - 1) if coded else 0.0
        self._peers = peers_of_equal_shards(
            job, options.sharding_group, 1 if coded else 0, options.placement
        )

    @property
    def peers(self) -> NodeGroups:
        return self._peers

    @property
    def copies_beside_steps(self) -> bool:
        return self._options.copying != "blocking"

    @property
    def transfers(self) -> Transfers:
        """A share of 1/n, and the n - 1 blocks of 1/(n(n - 1)) of its parity block.

        All of them are in the GPU's own replica.
        """
        copied_bytes = self._share_bytes * (2.0 if self._parity else 1.0)
        return Transfers(copied_bytes, 0, self._share_bytes, self._share_bytes)

    def snapshot_cost(self, times: TransferTimes) -> SnapshotCost:
        whole_s = times.copy_s + (times.encode_s if self._parity else 0.0)
        if self._options.copying == "blocking":
            return SnapshotCost(whole_s, 0.0)
        if self._options.copying == "free-running":
            return SnapshotCost(times.copy_interference_s, whole_s)
        stall_s = hidden_interference_s(times.copy_s, times.copy_interference_s, self.job.compute_s)
        return SnapshotCost(stall_s, whole_s)

    def persist_cost(self, times: TransferTimes) -> SnapshotCost:
        """Return the cost: snapshot processes write without delay of training."""
        return SnapshotCost(0.0, times.persist_s)

    def load_times(self, times: TransferTimes) -> LoadTimes:
        return LoadTimes(times.load_s, times.rebuild_s)

    @property
    def memory_bytes_per_node(self) -> float:
        kept = self._share_bytes * (1.0 + self._parity)
        return VERSIONS_IN_MEMORY * kept * self.job.gpus_per_node

    @property
    def _share_bytes(self) -> float:
        """Bytes that a GPU saves: a part of the replicated state, and all of its own shard."""
        job = self.job
        replicated_bytes = job.replicated_bytes_per_gpu / self._options.sharding_group
        return replicated_bytes + job.shared_bytes_per_gpu / job.replicas
