"""How much of a cluster is left if a failed GPU takes its whole scale-up domain with it."""

from __future__ import annotations

import numpy as np
from faultline.strategies.errors import StrategyError


def available_fraction(gpus: int, domain_gpus: int, failed: int) -> float:
    """Return the expected share of domains without a failed GPU, failures uniform over GPUs.

    The chance that none of the n GPUs of a domain is among the k failed of G is hypergeometric,
    ``C(G - n, k)/C(G, k) = prod_{i < n} (G - k - i)/(G - i)``, which is the expectation over all
    domains, as each has the same.

    Raises
    ------
    StrategyError
        A domain is larger than the cluster, or more GPUs failed than there are.
    """
    if not 1 <= domain_gpus <= gpus:
        raise StrategyError(
            "domain_gpus", f"{domain_gpus} do not fit {gpus} GPUs", f"use 1 to {gpus}"
        )
    if not 0 <= failed <= gpus:
        raise StrategyError("failed", f"{failed} of {gpus} GPUs", f"use 0 to {gpus}")
    places = np.arange(domain_gpus)
    factors = np.maximum(gpus - failed - places, 0) / (gpus - places)
    return float(np.prod(factors))
