"""Which phases are messages on the platform's network, and how large they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from faultline.simulator.collectives.schedule import Fidelity
from faultline.simulator.pattern.placed_step import PlacedStep
from faultline.simulator.simgrid_engine.group_state import GroupState
from faultline.simulator.simgrid_engine.scenes import Flow

Readers = Literal["one-group", "every-group"]
"""The readers of a checkpoint from storage: one group, which passes it on, or all at once."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """A job's data on the network.

    Attributes
    ----------
    hosts : sequence of sequence of str
        The GPU hosts of each group. The group's rank, which takes its orders, runs on the first;
        in the all-reduce and for checkpoints each host sends and receives by itself.
    storage : str
        The host of the file system.
    bytes_per_rank : float
        Bytes of gradients that each GPU host carries for its group.
    all_reduce, save, load : bool
        Whether the phase is simulated as messages; else it takes its stated time.
    fidelity : {"flow", "chunk"}
        How exactly collectives are simulated.
    readers : {"one-group", "every-group"}
        The readers of a checkpoint from storage.
    checkpoint_bytes : float or None
        Bytes of a checkpoint that each GPU host writes and loads; None for as many as of gradients.
    step : PlacedStep or None
        The work of every rank in a step, if the job defines it.
    gpus_per_group : int or None
        GPUs that the hosts of a group represent; None for one each.
    context : int
        Replicas of a group that share its sequences.
    state_bytes : float or None
        Bytes of training state that each GPU host holds; None for as many as of a checkpoint.
    snapshot : tuple of Flow
        Flows to host memories while steps go on.
    """

    hosts: Sequence[Sequence[str]]
    storage: str
    bytes_per_rank: float
    all_reduce: bool
    save: bool
    load: bool
    fidelity: Fidelity = "flow"
    readers: Readers = "one-group"
    checkpoint_bytes: float | None = None
    step: PlacedStep | None = None
    gpus_per_group: int | None = None
    context: int = 1
    state_bytes: float | None = None
    snapshot: tuple[Flow, ...] = ()

    def write_of(self, writer: int | None) -> list[Flow]:
        """Return the flows of a group to storage, or of all groups to memories."""
        if writer is None:
            return list(self.snapshot)
        size_bytes = self.checkpoint_bytes_per_rank
        return [(host, self.storage, size_bytes) for host in self.hosts[writer]]

    @property
    def state(self) -> GroupState:
        """The place of the groups' state."""
        gpus = self.gpus_per_group or len(self.hosts[0])
        held = self.checkpoint_bytes_per_rank if self.state_bytes is None else self.state_bytes
        return GroupState(self.hosts, held, gpus, self.storage, self.context)

    @property
    def checkpoint_bytes_per_rank(self) -> float:
        """Bytes of a checkpoint that each GPU host carries for its group."""
        return self.bytes_per_rank if self.checkpoint_bytes is None else self.checkpoint_bytes
