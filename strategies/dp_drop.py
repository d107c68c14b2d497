"""DP-DROP: a replica with a broken GPU is dropped until it is repaired (Arfeen et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from faultline.strategies.base import StrategyOptions
from faultline.strategies.nonuniform.replica_plan import DROPPED, ReplicaPlan
from faultline.strategies.nonuniform.restarting import ReplicaOptions, RestartingReplicas


class DpDrop(RestartingReplicas):
    """Data parallelism that goes on without the replicas that have broken GPUs.

    What they would have trained is missing from the batch. The sum of the others is scaled
    accordingly.
    """

    name: ClassVar[str] = "dp-drop"
    summary: ClassVar[str] = "DP-DROP: restarts without the replicas that have broken GPUs"
    title: ClassVar[str] = "DP-DROP"
    colour: ClassVar[str | None] = "#662266"
    marker: ClassVar[str | None] = "v"
    Options: ClassVar[type[StrategyOptions]] = ReplicaOptions

    def plans(self, domain_gpus: int, stages: int) -> Sequence[ReplicaPlan]:
        """Return one plan for a whole replica, and none for any other."""
        return (ReplicaPlan(domain_gpus, 1), *[DROPPED] * domain_gpus)
