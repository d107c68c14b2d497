"""Weights and gradients that replicas share, layer by layer (ZeRO stage 3, FSDP).

References
----------
Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054), section 5.3. Zhao et al. 2023 (PyTorch FSDP, arXiv
2304.11277): units, prefetched gathers, hybrid sharding.
"""

from __future__ import annotations

from faultline.simulator.workload.kernels import Carried, Kernels
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.transformer import WorkloadError
from faultline.strategies.interface.job_shape import Sharding


def check_sharding(sharding: Sharding, layout: Layout, domain_replicas: int | None) -> None:
    """Refuse sharded weights that a layout cannot have.

    Raises
    ------
    WorkloadError
        Hybrid sharding, and scale-up domains without several replicas, or with a number of them
        that does not divide all.
    """
    inside, data = domain_replicas or 1, layout.data
    if sharding == "hybrid" and inside == 1:
        raise WorkloadError(
            'job: sharding = "hybrid" needs several replicas in a scale-up domain: use "full", or '
            "fewer stages or tensor-parallel ranks"
        )
    if sharding == "hybrid" and data > inside and data % inside:
        raise WorkloadError(
            f'job: sharding = "hybrid": {inside} replicas fit a scale-up domain and do not divide '
            f'{data}: use a multiple, or "full"'
        )


def unit_messages(
    size_bytes: float, units: int, shards: int, domain_replicas: int | None, kernels: Kernels
) -> Carried:
    """Return the cost of all-gathers, or of reduce-scatters, of `units` equal parts of a size.

    A ring of more replicas than a domain has is as fast as its adapters.
    """
    if shards <= (domain_replicas or 0):
        return kernels.ring(size_bytes / units, shards, 1).times(units)
    sent = (shards - 1) / shards * size_bytes / kernels.scale_out_share
    return Carried(sent, units * (shards - 1))
