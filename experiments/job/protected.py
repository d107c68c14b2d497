"""How the state of a job is kept, with every value filled in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from faultline.simulator.simgrid_engine.state_transfers import StateTransferTimes
from faultline.strategies.checkpoint_period import Costs
from faultline.strategies.checkpoint_policies import CheckpointPolicy, EverySteps
from faultline.strategies.protection.base import Protection, SnapshotCost
from faultline.strategies.protection.storage import Storage
from faultline.strategies.protection.tier import Durable, LoadTimes, Tier


@dataclass(frozen=True, slots=True)
class Protected:
    """How the state of a job is kept, with every value filled in.

    Attributes
    ----------
    protection : Protection
        The way.
    times : StateTransferTimes
        What moving the state takes, measured or stated.
    snapshot_interval_steps : int
        Steps between snapshots in memory; 0 where none are taken.
    """

    protection: Protection
    times: StateTransferTimes
    snapshot_interval_steps: int = 0

    @property
    def in_background(self) -> bool:
        """Whether checkpoints go to storage while the job goes on."""
        return type(self.protection) is not Storage

    @property
    def snapshot_cost(self) -> SnapshotCost:
        """What a snapshot in memory costs."""
        return self.protection.snapshot_cost(self.times)

    @property
    def persist_cost(self) -> SnapshotCost:
        """What bringing a snapshot to storage costs."""
        return self.protection.persist_cost(self.times)

    def tiers(self, storage_policy: CheckpointPolicy) -> tuple[Tier, ...]:
        """Return where snapshots are kept in the background, memory first."""
        if not self.in_background:
            return ()
        load, persist = self.protection.load_times(self.times), self.persist_cost
        storage = Tier(
            "storage",
            storage_policy,
            persist.stall_s,
            persist.lag_s,
            Durable(),
            LoadTimes(load.local_s, load.peers_s),
        )
        if self.protection.peers is None:
            return (storage,)
        cost, policy = self.snapshot_cost, None
        if self.protection.takes_snapshots:
            policy = EverySteps(self.snapshot_interval_steps)
        memory = Tier("memory", policy, cost.stall_s, cost.lag_s, self.protection, load)
        return (memory, storage)

    def kept_every_steps(self, interval_steps: int) -> int:
        """Return how many steps lie between two states that a restart may go back to.

        Those of memory where some are kept there: of the last snapshot, or where none is taken
        beforehand, of the last step, which is saved when it is known that it is needed.

        Parameters
        ----------
        interval_steps : int
            Steps between two checkpoints on storage.
        """
        if self.protection.peers is None:
            return interval_steps
        return self.snapshot_interval_steps or 1

    def costs_of_memory(self, costs: Costs) -> Costs:
        """Return the costs that a scheme sees whose state is found in memory after a failure."""
        if self.protection.peers is None:
            return replace(costs, save_s=self.persist_cost.stall_s)
        load_s = self.protection.load_times(self.times).local_s
        return replace(costs, save_s=self.snapshot_cost.stall_s, restart_s=costs.restart_s + load_s)
