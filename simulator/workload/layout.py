"""A job's layout: how many replicas, stages and tensor-parallel ranks, and on which GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from faultline.platforms.platform_data import Platform
from faultline.simulator.workload.transformer import WorkloadError

Gpu = TypeVar("Gpu")


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees of parallelism."""

    data: int  # Replicas (dp).
    pipeline: int  # Stages of a replica (pp).
    tensor: int  # Ranks of a stage (tp).
    # Parts of the model on each stage, interleaved (Narayanan et al. 2021, section 2.2); 1 is the
    # plain pipeline.
    virtual_stages: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of the whole job."""
        return self.data * self.gpus_per_replica

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one replica."""
        return self.pipeline * self.tensor


def stage_layers(layers: int, layout: Layout) -> tuple[int, ...]:
    """Return the layers of each stage, as even as possible; the first stages have one more.

    The last stage also has the output projection, so it is among those with fewer layers.

    Raises
    ------
    WorkloadError
        There are fewer layers than parts of the pipeline.
    """
    parts = layout.pipeline * layout.virtual_stages
    if layers < parts:
        raise WorkloadError(
            f"layout: {layers} layers are too few for {layout.pipeline} stages of "
            f"{layout.virtual_stages}: use at most {layers} parts"
        )
    each, more = divmod(layers, layout.pipeline)
    return tuple(each + (stage < more) for stage in range(layout.pipeline))


Placement = tuple[tuple[tuple[Gpu, ...], ...], ...]
"""GPUs by replica, stage and tensor-parallel rank."""


def place(layout: Layout, domains: Sequence[Sequence[Gpu]]) -> Placement[Gpu]:
    """Place a layout on scale-up domains.

    The ranks of a stage share a domain, and the stages of a replica are in different domains. If
    one stage fills a domain, rank k of every replica has the same position in its domain, so it is
    on the same rail. If several stages fit into a domain, it is cut into slots of `tensor` GPUs;
    replicas in different slots are on different rails. The GPUs of each domain are in the order of
    their rails, and there are enough of them for the layout. Further GPUs stay idle.
    """
    slots = min(map(len, domains)) // layout.tensor
    return tuple(
        tuple(
            tuple(domain[first : first + layout.tensor])
            for domain in domains[block * layout.pipeline : (block + 1) * layout.pipeline]
        )
        for block, slot in (divmod(replica, slots) for replica in range(layout.data))
        for first in (slot * layout.tensor,)
    )


def place_on_platform(layout: Layout, platform: Platform) -> Placement[str]:
    """Place a layout on the GPU hosts of a platform, by their names."""
    domains = [
        [gpu.name for gpu in sorted(gpus, key=lambda gpu: gpu.position)]
        for _, gpus in sorted(platform.domains.items())
    ]
    return place(layout, domains)
