"""The throughput of a job with failed GPUs, and the spare domains that keep its batch whole.

Packing decides which domains share a replica: damaged domains together, or domains in order. Most
functions take many failure states at once: an array of failed GPUs by state and domain.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from faultline.strategies.nonuniform.replica_plan import ReplicaPlan
from numpy.typing import NDArray

Counts = NDArray[np.integer]
"""Numbers of failed GPUs, one row per state."""


def worst_first(failed: Counts) -> Counts:
    """Return the failed GPUs of each state's damaged domains, the worst first.

    From shape (states, domains) to (states, most damaged domains of any state), padded with 0.
    """
    # Few domains are damaged: selecting them is about ten times as fast as sorting all.
    states, domains = np.nonzero(failed)
    values = failed[states, domains]
    order = np.lexsort((-values, states))
    hits = np.bincount(states, minlength=len(failed))
    places = np.arange(states.size) - np.repeat(np.cumsum(hits) - hits, hits)
    worst = np.zeros((len(failed), int(hits.max(initial=0))), dtype=failed.dtype)
    worst[states, places] = values[order]
    return worst


def packed(hit: Counts, domains: int, domains_per_replica: int) -> Counts:
    """Return the failed GPUs of each damaged replica's worst domain, with packing.

    The resource manager sorts the domains and fills replicas in that order. The worst domains that
    exceed a multiple of a replica are left out. The k-th worst replica is thus no worse than in any
    other placement. No placement leaves more of the job under any scheme for which more failed GPUs
    are never better.

    Parameters
    ----------
    hit : array of int, shape (states, any)
        Failed GPUs of the damaged domains, the worst first (`worst_first`).
    domains, domains_per_replica : int
        All domains, with spares, and pipeline stages.

    Returns
    -------
    array of int, shape (states, replicas damaged in any state)
        All other replicas are healthy.
    """
    return hit[:, domains % domains_per_replica :: domains_per_replica]


def unpacked(failed: Counts, domains_per_replica: int) -> Counts:
    """Return the failed GPUs of each replica's worst domain, without packing.

    From shape (states, domains) to (states, replicas). Neighbouring domains share a replica;
    domains after the last whole replica are left out.
    """
    replicas = failed.shape[1] // domains_per_replica
    used = failed[:, : replicas * domains_per_replica]
    worst: Counts = used.reshape(len(failed), replicas, domains_per_replica).max(axis=2)
    return worst


def available_fraction(gpus: int, domain_gpus: int, failed: int) -> float:
    """Return the expected share of domains without a failed GPU, for failures uniform over GPUs.

    The probability that none of the n GPUs of a domain is among the k failed of G is
    hypergeometric, ``C(G - n, k)/C(G, k) = prod_{i < n} (G - k - i)/(G - i)``. It is the same for
    all domains, and so is their expected share.
    """
    places = np.arange(domain_gpus)
    factors = np.maximum(gpus - failed - places, 0) / (gpus - places)
    return float(np.prod(factors))


def batch_sequences(
    worst: Counts, replicas: int, plans: Sequence[ReplicaPlan]
) -> NDArray[np.int64]:
    """Return the sequences per iteration of the whole job, in each state.

    No replica takes longer than a healthy one, so this over the full batch is the throughput.

    Parameters
    ----------
    worst : array of int, shape (states, up to replicas)
        Failed GPUs of the worst domain of replicas that may be damaged; the others are healthy.
    replicas : int
        All replicas.
    plans : sequence of ReplicaPlan
        Plans of a replica for 0, 1, ... failed GPUs in its worst domain.
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
    """Return the number of spare domains with which a job keeps its batch, for each state.

    Spares are healthy. Depending on the packing they form further replicas or replace the worst
    domains. `hit` and `plans` are as above; `domains` excludes spares.

    Parameters
    ----------
    batch : int
        Required sequences per iteration.
    step : int
        Spares come in multiples of this: 1, or `domains_per_replica` for whole replicas.
    """
    needed = np.full(len(hit), -1, dtype=np.int64)
    open_states = np.arange(len(hit))
    spares = 0
    while open_states.size:
        replicas = (domains + spares) // domains_per_replica
        worst = packed(hit[open_states], domains + spares, domains_per_replica)
        enough = batch_sequences(worst, replicas, plans) >= batch
        needed[open_states[enough]] = spares
        open_states = open_states[~enough]
        spares += step
    return needed
