"""The scheme and how the state is kept beneath it, with a table of named choices for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultline.experiments.config.tables.phases import IN_MEMORY
from faultline.experiments.config.tables.table import (
    RegisteredTable,
    count,
    key,
    seconds,
    with_registered,
)
from faultline.strategies.protection.registry import all_protections
from faultline.strategies.registry import all_strategies


class _StrategyTable(RegisteredTable):
    """``[strategy]``: the scheme, and a table of named choices for each scheme that has any."""

    name: str = "checkpoint"
    redundancy: int | None = count(
        None,
        "Redundancy r; unset: the best by the scheme's closed form.",
        "derived: least normalised time to train J(r), Lee et al. 2026 (SPARe)",
        100_000,
    )
    approximation_loss: float = key(
        0.0,
        "What an approximate gradient of a stage trains less than an exact one, as a share of it: "
        "job.steps are then as many exact steps as would reach the same loss.",
        "choice: not charged, as in published throughputs; measured for MeCeFO by faultline "
        "reproduce mecefo-convergence",
        "1",
        between=(0, 0.999),
    )


if TYPE_CHECKING:
    StrategyTable = _StrategyTable
else:
    StrategyTable = with_registered(
        "StrategyTable",
        _StrategyTable,
        all_strategies(),
        "checkpoint",
        "The fault-tolerance scheme.",
        "choice: what everybody does, with nothing added to it",
    )


class _ProtectionTable(RegisteredTable):
    """``[protection]``: how the state is kept, beneath the scheme."""

    name: str = "storage"
    interval_steps: int | None = key(
        None,
        "Steps between snapshots in memory; unset: the best period for what they cost, "
        "and no more often than one is whole before the next.",
        "derived: the best period T_c*, Saxena et al. 2024",
        "steps",
        between=(1, 10**18),
        only_with={"protection.name": ("reft", "gemini")},
    )
    state_bytes: float | None = key(
        None,
        "State of a replica that is kept, in memory and on storage: parameters and "
        "optimizer; unset: state_over_parameters * job.parameter_bytes.",
        "derived: state_over_parameters * job.parameter_bytes",
        "bytes",
        above=(0, 1e18),
    )
    state_over_parameters: float = key(
        7.0,
        "State that is kept over job.parameter_bytes, where state_bytes is unset.",
        "Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054): Adam keeps weights, mean and "
        "variance of 32 bits beside weights of 16, 14 bytes for 2",
        "1",
        above=(0, 1000),
    )
    host_memory_bytes: float | None = key(
        None,
        "Memory of a node that snapshots may fill; unset: all that the platform says a node has.",
        "derived: the platform's spec",
        "bytes",
        above=(0, 1e18),
        only_with=IN_MEMORY,
    )
    launch_s: float = seconds(
        0.0,
        "Time to launch the copies of a snapshot, which each part of the state needs however "
        "little of it is copied: no snapshot is whole sooner.",
        "choice: bandwidths alone; REFT (Wang et al. 2023) measures 0.354 s of shards that PCIe "
        "copies in 0.094 s",
        only_with=IN_MEMORY,
    )


if TYPE_CHECKING:
    ProtectionTable = _ProtectionTable
else:
    ProtectionTable = with_registered(
        "ProtectionTable",
        _ProtectionTable,
        all_protections(),
        "storage",
        "How the state is kept against failures.",
        "choice: what everybody has",
    )
