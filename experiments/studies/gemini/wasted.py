"""What a failure wastes with checkpoints in memory every iteration, and with those on storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
from faultline.experiments.studies.gemini.setting import DOMAIN_SHARES, PLACEMENTS
from faultline.strategies.in_memory.node_groups import NodeGroups
from faultline.strategies.in_memory.survival import loss_given_domains, loss_given_nodes
from faultline.strategies.in_memory.wasted_time import expected_wasted_time_s, wasted_time_s


@dataclass(frozen=True, slots=True)
class CheckpointCosts:
    """A job and the links that its checkpoints go over: inputs of the study, not measurements.

    Attributes
    ----------
    parameters, bytes_per_parameter : float
        Size of the model; single-precision weights and two Adam moments take 12 bytes.
    machines : int
        Machines, each with its share of the state.
    machine_bytes_per_s, storage_bytes_per_s : float
        Bandwidth of one machine's network, and of the storage as a whole.
    iteration_s : float
        Time of an iteration, in seconds.
    storage_interval_s : float
        Time between checkpoints on storage where they are not taken as often as can be.
    """

    parameters: float = 100e9
    bytes_per_parameter: float = 12.0
    machines: int = 16
    machine_bytes_per_s: float = 400e9 / 8
    storage_bytes_per_s: float = 20e9 / 8
    iteration_s: float = 60.0
    storage_interval_s: float = 3 * 3600.0

    @property
    def storage_s(self) -> float:
        """Time to write or read the whole state on storage, in seconds."""
        return self.parameters * self.bytes_per_parameter / self.storage_bytes_per_s

    @property
    def peer_s(self) -> float:
        """Time to bring one machine's share from a peer, in seconds."""
        share = self.parameters * self.bytes_per_parameter / self.machines
        return share / self.machine_bytes_per_s

    def in_memory_s(self) -> float:
        """Return the time that a failure wastes if memory holds all state, in seconds.

        The copies are spread over the idle times of the network in an iteration, and complete at
        its end: ``t_ckpt = 1/f = T_iter``.
        """
        if self.peer_s > self.iteration_s:
            raise ValueError("a checkpoint does not fit into an iteration")
        return wasted_time_s(self.iteration_s, self.iteration_s, self.peer_s)

    def on_storage_s(self, interval_s: float | None = None) -> float:
        """Return the time that a failure wastes with checkpoints on storage, in seconds.

        Parameters
        ----------
        interval_s : float or None
            Time between two; one after the other if None.
        """
        return wasted_time_s(self.storage_s, interval_s or self.storage_s, self.storage_s)


COSTS = CheckpointCosts()
REPLICAS = 2
MACHINES_PER_DOMAIN = 8


def wasted_table(costs: CheckpointCosts = COSTS) -> pd.DataFrame:
    """Return a row a way of checkpointing: seconds that a failure wastes."""
    ways = (
        ("memory, every iteration", costs.in_memory_s()),
        ("storage, one after the other", costs.on_storage_s()),
        (
            f"storage, every {costs.storage_interval_s / 3600:g} h",
            costs.on_storage_s(costs.storage_interval_s),
        ),
    )
    return pd.DataFrame([{"checkpoints": way, "wasted_s": wasted_s} for way, wasted_s in ways])


def placement_table(costs: CheckpointCosts = COSTS) -> pd.DataFrame:
    """Return a row a placement and share of domain failures: mean wasted time of one failure.

    Each failure meets state of which all copies are whole: one machine is lost, or a domain with
    all its machines. What memory does not survive goes back to storage.
    """
    rows: list[dict[str, Any]] = []
    for placement in PLACEMENTS:
        groups = NodeGroups(costs.machines, REPLICAS, REPLICAS - 1, placement)
        by_machine = loss_given_nodes(groups, 1)
        by_domain = loss_given_domains(groups, MACHINES_PER_DOMAIN, 1)
        for share in DOMAIN_SHARES:
            recovered = 1.0 - (1.0 - share) * by_machine - share * by_domain
            rows.append(
                {
                    "placement": placement,
                    "domain_share": share,
                    "recovered": recovered,
                    "wasted_s": expected_wasted_time_s(
                        recovered,
                        costs.in_memory_s(),
                        costs.on_storage_s(costs.storage_interval_s),
                    ),
                }
            )
    return pd.DataFrame(rows)
