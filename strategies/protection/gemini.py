"""GEMINI: replicas of each machine's checkpoint in peers' memory (Wang et al. 2023, SOSP'23)."""

from __future__ import annotations

from typing import ClassVar

from faultline.strategies.interface.errors import StrategyError
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
)
from faultline.strategies.protection.node_groups import NodeGroups, Placement
from pydantic import Field


class GeminiOptions(StrategyOptions):
    """Named choices of GEMINI."""

    replicas: int = Field(
        2,
        ge=1,
        le=1000,
        description="Machines m per group; each holds the checkpoints of all of them.",
        json_schema_extra={"source": "Wang et al. 2023 (GEMINI): m = 2", "unit": "1"},
    )
    placement: Placement = Field(
        "neighbours",
        description="Which machines share a group.",
        json_schema_extra={
            "source": "Wang et al. 2023 (GEMINI): machines in order",
            "choices": {
                "neighbours": "machines next to each other",
                "across-domains": "machines as far apart as possible",
            },
        },
    )


class Gemini(Protection):
    """Each machine keeps its own checkpoint and those of the m - 1 others of its group.

    If data-parallel replicas hold the same state, each of them saves an equal part of it.
    """

    name: ClassVar[str] = "gemini"
    summary: ClassVar[str] = "GEMINI: replicas of each node's checkpoint in the memory of peers"
    gathers: ClassVar[bool] = True
    Options: ClassVar[type[StrategyOptions]] = GeminiOptions

    def __init__(self, job: ProtectedJob, options: StrategyOptions) -> None:
        super().__init__(job, options)
        assert isinstance(options, GeminiOptions)
        self._replicas = options.replicas
        if options.replicas > job.servers:
            raise StrategyError(
                "protection.gemini.replicas",
                f"{options.replicas} machines per group, but the job has only {job.servers}",
                f"use at most {job.servers}",
            )
        self._peers = NodeGroups(
            job.servers, options.replicas, options.replicas - 1, options.placement
        )

    @property
    def peers(self) -> NodeGroups:
        return self._peers

    @property
    def copies_beside_steps(self) -> bool:
        return True

    @property
    def transfers(self) -> Transfers:
        share_bytes = self.job.state_bytes_per_gpu / self.job.groups
        return Transfers(share_bytes, self._replicas - 1, loaded_bytes_per_gpu=share_bytes)

    def snapshot_cost(self, times: TransferTimes) -> SnapshotCost:
        """Return the cost: copies use the idle network, the rest delays the all-reduce."""
        transfer_s = times.copy_s + times.send_s
        stall_s = hidden_interference_s(
            transfer_s,
            times.copy_interference_s + times.send_interference_s,
            self.job.compute_s,
        )
        return SnapshotCost(stall_s, transfer_s)

    def persist_cost(self, times: TransferTimes) -> SnapshotCost:
        """Return the cost: machines write from their memory without delay of training."""
        return SnapshotCost(0.0, times.persist_s)

    def load_times(self, times: TransferTimes) -> LoadTimes:
        return LoadTimes(times.load_s, times.fetch_s)

    @property
    def memory_bytes_per_node(self) -> float:
        snapshot = self.transfers.snapshot_bytes_per_gpu * self.job.gpus_per_node
        return VERSIONS_IN_MEMORY * self._replicas * snapshot
