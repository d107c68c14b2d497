"""The scheme and the protection of the state, with a table of named choices for each."""

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
from faultline.strategies.plugins.registry import all_protections, all_strategies


class _StrategyTable(RegisteredTable):
    """``[strategy]``: the scheme, with a table for each scheme that has named choices."""

    name: str = "checkpoint"
    redundancy: int | None = count(
        None,
        "Redundancy r. Unset: the best by the scheme's closed form.",
        "derived: least normalised time to train J(r), Lee et al. 2026 (SPARe)",
        100_000,
    )
    approximation_loss: float = key(
        0.0,
        "Progress that an approximate gradient of a stage loses, as a share of an exact one. "
        "job.steps then counts the exact steps that reach the same loss.",
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
        "choice: common practice without any redundancy",
    )


class _ProtectionTable(RegisteredTable):
    """``[protection]``: copies of the state, in addition to the scheme."""

    name: str = "storage"
    interval_steps: int | None = key(
        None,
        "Steps between snapshots in memory. Unset: the best period for their cost, but no shorter "
        "than a snapshot takes.",
        "derived: the best period T_c*, Saxena et al. 2024",
        "steps",
        between=(1, 10**18),
        only_with={"protection.name": ("reft", "gemini")},
    )
    state_bytes: float | None = key(
        None,
        "State of a replica in snapshots and checkpoints: parameters and optimizer. Unset: "
        "state_over_parameters * job.parameter_bytes.",
        "derived: state_over_parameters * job.parameter_bytes",
        "bytes",
        above=(0, 1e18),
    )
    state_over_parameters: float = key(
        7.0,
        "That state divided by job.parameter_bytes, if state_bytes is unset.",
        "Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054): Adam keeps weights, mean and "
        "variance of 32 bits and weights of 16, 14 bytes for 2",
        "1",
        above=(0, 1000),
    )
    host_memory_bytes: float | None = key(
        None,
        "Memory of a node for snapshots. Unset: all memory of the platform's nodes.",
        "derived: the platform's spec",
        "bytes",
        above=(0, 1e18),
        only_with=IN_MEMORY,
    )
    launch_s: float = seconds(
        0.0,
        "Time to launch the copies of a snapshot, however small they are. No snapshot completes "
        "sooner.",
        "choice: bandwidth alone; REFT (Wang et al. 2023) measures 0.354 s for shards that PCIe "
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
        "Where copies of the state are kept.",
        "choice: common practice",
    )
