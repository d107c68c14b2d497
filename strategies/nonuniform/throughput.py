"""What a job still does with failed GPUs, and how many spare domains keep its batch whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from faultline.strategies.nonuniform.packing import Counts, divided, packed
from faultline.strategies.nonuniform.replica_plan import ReplicaPlan
from numpy.typing import NDArray


def batch_sequences(
    worst: Counts, replicas: int, plans: Sequence[ReplicaPlan]
) -> NDArray[np.int64]:
    """Return the sequences of an iteration of the whole job.

    As no replica takes longer than a healthy one, this over the full batch is the throughput.

    Parameters
    ----------
    worst : array of int, shape (states, up to replicas)
        Failed GPUs of the worst domain of replicas that may be hit; the others are healthy.
    replicas : int
        All replicas.
    plans : sequence of ReplicaPlan
        What a replica does for 0, 1, ... failed GPUs in its worst domain.

    Returns
    -------
    array of int, shape (states,)
    """
    sequences = np.array([plan.sequences for plan in plans], dtype=np.int64)
    lost = sequences[0] - sequences
    total: NDArray[np.int64] = replicas * sequences[0] - lost[worst].sum(axis=1)
    return total


def spare_domains(
    hit: Counts,
    domains: int,
    domains_per_replica: int,
    plans: Sequence[ReplicaPlan],
    batch: int,
    *,
    step: int = 1,
) -> NDArray[np.int64]:
    """Return how many spare domains a job needs to keep its batch, for each state.

    Spares are healthy. They make up further replicas, or take the places of the worst domains,
    whichever the packing comes to.

    Parameters
    ----------
    hit : array of int, shape (states, any)
        Failed GPUs of the domains that are hit, the worst first.
    domains, domains_per_replica : int
        Domains of the job without spares, and pipeline stages.
    plans : sequence of ReplicaPlan
        What a replica does for 0, 1, ... failed GPUs in its worst domain.
    batch : int
        Sequences of an iteration that must be reached.
    step : int
        Spares come in multiples of this: 1, or `domains_per_replica` for whole replicas.

    Returns
    -------
    array of int, shape (states,)
    """
    needed = np.full(len(hit), -1, dtype=np.int64)
    open_states = np.arange(len(hit))
    spares = 0
    while open_states.size:
        replicas, _ = divided(domains + spares, domains_per_replica)
        worst = packed(hit[open_states], domains + spares, domains_per_replica)
        enough = batch_sequences(worst, replicas, plans) >= batch
        needed[open_states[enough]] = spares
        open_states = open_states[~enough]
        spares += step
    return needed
