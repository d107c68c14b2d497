"""REFT: sharded snapshots in host memory under an erasure code (Wang et al. 2023, 2310.12670)."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Literal

from faultline.strategies.base import StrategyOptions
from faultline.strategies.in_memory.node_groups import NodeGroups, Placement
from faultline.strategies.protection.base import (
    LoadTimes,
    ProtectedJob,
    Protection,
    Recovery,
    SnapshotCost,
    Transfers,
    TransferTimes,
    hidden_interference_s,
    peers_of_equal_shards,
)
from pydantic import Field

_VERSIONS = 2
"""Snapshots in memory: one that is whole, and one that is being taken."""


class ReftOptions(StrategyOptions):
    """Named choices of REFT."""

    sharding_group: int = Field(
        16,
        ge=1,
        le=100_000,
        description="Nodes that share the snapshot of one part of the model: at most as many as "
        "there are data-parallel groups.",
        json_schema_extra={"source": "Wang et al. 2023 (REFT): groups of 16", "unit": "1"},
    )
    code: Literal["raim5", "none"] = Field(
        "raim5",
        description="What survives the loss of a node.",
        json_schema_extra={
            "source": "choice: that of REFT",
            "choices": {
                "raim5": "parity across the sharding group: one lost node a group is rebuilt",
                "none": "each shard is kept once: any lost node is a loss",
            },
        },
    )
    copying: Literal["hidden", "free-running", "blocking"] = Field(
        "hidden",
        description="How the copy to host memory overlaps with training.",
        json_schema_extra={
            "source": "choice: hierarchical asynchronous snapshotting of REFT",
            "choices": {
                "hidden": "in small buckets while GPUs compute; what does not fit there meets the "
                "all-reduce on PCIe",
                "free-running": "at once, whatever the step is doing; where times are measured, "
                "copies begin with a step either way",
                "blocking": "training waits",
            },
        },
    )
    snapshot_process: Literal["apart", "in-trainer"] = Field(
        "apart",
        description="Who owns the copy in host memory.",
        json_schema_extra={
            "source": "choice: REFT's snapshot management process",
            "choices": {
                "apart": "a process of its own, which outlives the trainer's",
                "in-trainer": "the trainer's: every restart ends it, so all load from storage",
            },
        },
    )
    placement: Placement = Field(
        "across-domains",
        description="Which nodes share a sharding group.",
        json_schema_extra={
            "source": "choice: a scale-up domain that fails shall cost a group one node",
            "choices": {
                "across-domains": "nodes as far apart as can be",
                "neighbours": "those next to each other",
            },
        },
    )


class Reft(Protection):
    """Every member of a sharding group copies its part of the state to host memory.

    The n members hold 1/n of the state each, and a parity block of 1/(n(n - 1)). Parity needs no
    network, as every member holds the whole replica in its GPUs. Where replicas share the
    optimizer's state a member saves its share of that; what its parity sends is not charged.
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

    def recovery(self, lost_nodes: Collection[int]) -> Recovery | None:
        apart = self._options.snapshot_process == "apart"
        return super().recovery(lost_nodes) if apart else None

    @property
    def transfers(self) -> Transfers:
        """A share of 1/n, and the n - 1 blocks of 1/(n(n - 1)) whose parity is kept.

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
        """The snapshot processes write it; training does not notice."""
        return SnapshotCost(0.0, times.persist_s)

    def load_times(self, times: TransferTimes) -> LoadTimes:
        return LoadTimes(times.load_s, times.rebuild_s)

    @property
    def memory_bytes_per_node(self) -> float:
        kept = self._share_bytes * (1.0 + self._parity)
        return _VERSIONS * kept * self.job.gpus_per_node

    @property
    def _share_bytes(self) -> float:
        """What a GPU saves: a part of what all replicas hold, and all that it alone does."""
        job = self.job
        replicated_bytes = job.replicated_bytes_per_gpu / self._options.sharding_group
        return replicated_bytes + job.shared_bytes_per_gpu / job.replicas
