"""The throughput of a job with failed GPUs.

Packing decides which domains share a replica: damaged domains together, or domains in order. Most
functions take many failure states at once: an array of failed GPUs by state and domain.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from faultline.strategies.schemes.ntp.replica_plan import ReplicaPlan
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

    The resource manager sorts the domains and fills replicas in that order. If the domains are no
    multiple of a replica, the worst ones are left out. The k-th worst replica is thus no worse than
    in any other placement, which is best for each scheme that never gains from more failed GPUs.

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

    No replica takes longer than a healthy one, so the throughput is the share of the full batch.

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
