"""A spec unfolded: which GPU sits where, and how wide the trunks of the switches are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from platforms import xml_names
from platforms.spec import ClusterSpec


@dataclass(frozen=True)
class GpuPlace:
    """The place of one GPU: index, domain, position in it (its rail), leaf switch, pod."""

    index: int
    domain: int
    position: int
    leaf: str
    pod: int

    @property
    def name(self) -> str:
        """Host name of the GPU."""
        return xml_names.gpu(self.index)


@dataclass(frozen=True)
class Trunk:
    """All uplinks of one switch, as one link to the layer above; bandwidth in bytes/s each way."""

    name: str
    below: str
    above: str
    bandwidth_bytes_per_s: float


def nic_bandwidth_bytes_per_s(spec: ClusterSpec) -> float:
    """Return the bandwidth of all NICs of one GPU together, each way."""
    return spec.nic.bandwidth_bytes_per_s * spec.nic.per_gpu


def gpu_places(spec: ClusterSpec) -> Iterator[GpuPlace]:
    """Yield the place of every GPU, in the order of their index: domain after domain."""
    out = spec.scale_out
    for domain in range(spec.scale_up.domains):
        leaf_group = domain // out.domains_per_leaf
        pod = leaf_group // (out.leaves_per_pod or 1)
        for position in range(spec.scale_up.gpus_per_domain):
            index = domain * spec.scale_up.gpus_per_domain + position
            leaf = xml_names.leaf(leaf_group, position if out.rail_optimised else None)
            yield GpuPlace(index, domain, position, leaf, pod)


def trunks(spec: ClusterSpec) -> list[Trunk]:
    """Return the trunks of all switches, leaf switches first.

    A trunk is as wide as the NICs that are below its switch, divided by the oversubscriptions up to
    there: a layer passes upwards what it got from below, over k.
    """
    out = spec.scale_out
    three_levels = out.levels == 3
    leaf_pod: dict[str, int] = {}
    gpus_below_leaf: dict[str, int] = {}
    for place in gpu_places(spec):
        leaf_pod[place.leaf] = place.pod
        gpus_below_leaf[place.leaf] = gpus_below_leaf.get(place.leaf, 0) + 1

    nic = nic_bandwidth_bytes_per_s(spec)
    found: list[Trunk] = []
    into_pod: dict[int, float] = {}
    for leaf, gpus in gpus_below_leaf.items():
        pod = leaf_pod[leaf]
        width = gpus * nic / out.oversubscription[0]
        above = f"pod-{pod:05d}" if three_levels else xml_names.TOP_SWITCH
        found.append(Trunk(f"up_{leaf}", leaf, above, width))
        into_pod[pod] = into_pod.get(pod, 0.0) + width
    if three_levels:
        for pod, width in into_pod.items():
            switch = f"pod-{pod:05d}"
            narrowed = width / out.oversubscription[1]
            found.append(Trunk(f"up_{switch}", switch, xml_names.TOP_SWITCH, narrowed))
    return found
