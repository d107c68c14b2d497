"""Which domains share a replica: those with failed GPUs packed together, or as they come.

All functions take many failure states at once: an array of failed GPUs by state and domain.
"""

from __future__ import annotations

import numpy as np
from faultline.strategies.errors import StrategyError
from numpy.typing import NDArray

Counts = NDArray[np.integer]
"""Failed GPUs, or failed GPUs of a worst domain: a row a state."""


def worst_first(failed: Counts) -> Counts:
    """Return each state's domains with failed GPUs, the worst first.

    Parameters
    ----------
    failed : array of int, shape (states, domains)
        Failed GPUs of each domain.

    Returns
    -------
    array of int, shape (states, most domains hit in any state)
        Failed GPUs of the domains that are hit, in falling order; 0 where a state has fewer.
    """
    # Few domains are hit: picking them out is some ten times as fast as sorting all.
    states, domains = np.nonzero(failed)
    values = failed[states, domains]
    order = np.lexsort((-values, states))
    hits = np.bincount(states, minlength=len(failed))
    places = np.arange(states.size) - np.repeat(np.cumsum(hits) - hits, hits)
    worst = np.zeros((len(failed), int(hits.max(initial=0))), dtype=failed.dtype)
    worst[states, places] = values[order]
    return worst


def packed(hit: Counts, domains: int, domains_per_replica: int) -> Counts:
    """Return the failed GPUs of the worst domain of each hit replica, hit domains packed together.

    The resource manager sorts the domains and fills replicas in that order. As many as do not make
    up a whole replica are left out: the worst ones. So the k-th worst replica is no worse than in
    any other placement, and no placement leaves more of the job, whatever a scheme makes of failed
    GPUs, as long as more of them are never better.

    Parameters
    ----------
    hit : array of int, shape (states, any)
        Failed GPUs of the domains that are hit, the worst first (`worst_first`).
    domains : int
        All domains, with spares.
    domains_per_replica : int
        Pipeline stages.

    Returns
    -------
    array of int, shape (states, replicas that are hit in any state)
        All other replicas are healthy.

    Raises
    ------
    StrategyError
        There are fewer domains than a replica needs, or than are hit.
    """
    _, left_over = divided(domains, domains_per_replica)
    if hit.shape[1] > domains:
        raise StrategyError(
            "domains", f"{hit.shape[1]} of {domains} cannot be hit", "give all domains"
        )
    return hit[:, left_over::domains_per_replica]


def unpacked(failed: Counts, domains_per_replica: int) -> Counts:
    """Return the failed GPUs of the worst domain of each replica, neighbours sharing a replica.

    Domains behind the last whole replica are left out.

    Parameters
    ----------
    failed : array of int, shape (states, domains)
        Failed GPUs of each domain.
    domains_per_replica : int
        Pipeline stages.

    Returns
    -------
    array of int, shape (states, replicas)

    Raises
    ------
    StrategyError
        There are fewer domains than a replica needs.
    """
    replicas, _ = divided(failed.shape[1], domains_per_replica)
    used = failed[:, : replicas * domains_per_replica]
    worst: Counts = used.reshape(len(failed), replicas, domains_per_replica).max(axis=2)
    return worst


def divided(domains: int, domains_per_replica: int) -> tuple[int, int]:
    """Return how many replicas domains make up, and how many domains are left over.

    Raises
    ------
    StrategyError
        There are fewer domains than a replica needs.
    """
    if not 1 <= domains_per_replica <= domains:
        raise StrategyError(
            "domains_per_replica",
            f"{domains_per_replica} do not fit {domains} domains",
            f"use 1 to {domains}",
        )
    return divmod(domains, domains_per_replica)
