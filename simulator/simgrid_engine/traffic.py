"""Which phases are messages on the platform's network, and how large they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.collectives.ring import Fidelity


@dataclass(frozen=True, slots=True)
class Traffic:
    """A job's data on the network.

    Attributes
    ----------
    hosts : sequence of str
        The host of each group's rank.
    storage : str
        The host behind which the file system lies.
    bytes_per_rank : float
        Bytes of gradients, and of a checkpoint, that a rank carries for its group.
    all_reduce, save, load : bool
        Whether the phase is played as messages; else it takes its stated time.
    fidelity : {"flow", "chunk"}
        How exactly collectives are played (`simulator.collectives.ring`).
    """

    hosts: Sequence[str]
    storage: str
    bytes_per_rank: float
    all_reduce: bool
    save: bool
    load: bool
    fidelity: Fidelity = "flow"
