"""Which phases are messages on the platform's network, and how large they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Readers = Literal["one-group", "every-group"]
"""Who reads a checkpoint from the storage: one group, which passes it on, or all at once."""

Fidelity = Literal["flow", "chunk"]
"""How exactly collectives are played: a flow an edge, or every message of the algorithm."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """A job's data on the network.

    Attributes
    ----------
    hosts : sequence of sequence of str
        The GPU hosts of each group. The group's rank runs on the first; the others play the same
        part on their own rails, so only where all of them share something, as they do the
        storage, they appear.
    storage : str
        The host behind which the file system lies.
    bytes_per_rank : float
        Bytes of gradients, and of a checkpoint, that each GPU host carries for its group.
    all_reduce, save, load : bool
        Whether the phase is played as messages; else it takes its stated time.
    fidelity : {"flow", "chunk"}
        How exactly collectives are played.
    readers : {"one-group", "every-group"}
        Who reads a checkpoint from the storage.
    """

    hosts: Sequence[Sequence[str]]
    storage: str
    bytes_per_rank: float
    all_reduce: bool
    save: bool
    load: bool
    fidelity: Fidelity = "flow"
    readers: Readers = "one-group"
