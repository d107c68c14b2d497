"""Random sets of failed GPUs, as failed GPUs of each scale-up domain."""

from __future__ import annotations

import numpy as np
from faultline.experiments.config.errors import UserError
from numpy.typing import NDArray


def failed_gpus(gpus: int, fraction: float) -> int:
    """Return the whole number of GPUs nearest to a failed fraction."""
    return round(gpus * fraction)


def random_counts(
    rng: np.random.Generator,
    sets: int,
    failures: int,
    domains: int,
    domain_gpus: int,
    blast_radius: int = 1,
) -> NDArray[np.int16]:
    """Draw sets of failures, uniform over the cluster, and count failed GPUs by domain.

    Parameters
    ----------
    rng : Generator
        Random stream.
    sets, failures : int
        How many sets, and failures in each.
    domains, domain_gpus : int
        Scale-up domains, and their GPUs.
    blast_radius : int
        GPUs that a failure takes: neighbours in one domain, no GPU twice.

    Returns
    -------
    array of int, shape (sets, domains)

    Raises
    ------
    UserError
        The radius does not divide a domain, or there are more failures than the cluster can have.
    """
    if blast_radius < 1 or domain_gpus % blast_radius:
        raise UserError(
            f"blast radius {blast_radius}: it does not divide a domain of {domain_gpus} GPUs; "
            "use a divisor"
        )
    blocks_per_domain = domain_gpus // blast_radius
    blocks = domains * blocks_per_domain
    if failures > blocks:
        raise UserError(
            f"{failures} failures: the cluster can have {blocks} at a blast radius of "
            f"{blast_radius}; use fewer"
        )
    drawn = [rng.choice(blocks, failures, replace=False, shuffle=False) for _ in range(sets)]
    domain = np.array(drawn, dtype=np.int64).reshape(sets, failures) // blocks_per_domain
    cells = domain + domains * np.arange(sets)[:, np.newaxis]
    hits = np.bincount(cells.ravel(), minlength=sets * domains).reshape(sets, domains)
    return (blast_radius * hits).astype(np.int16)
