"""A spec unfolded: which GPU sits where, and how wide the trunks of the switches are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from faultline.platforms import xml_names
from faultline.platforms.spec import ClusterSpec


@dataclass(frozen=True)
class GpuPlace:
    """The place of one GPU: index, domain, position in it, host, rack, adapter, leaf switch, pod.

    Hosts, racks and adapters are counted through the cluster; `rack` is None where the spec says
    nothing of racks.
    """

    index: int
    domain: int
    position: int
    host: int
    rack: int | None
    nic: int
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
    """Return the bandwidth of a NIC link: all adapters of a GPU, or one that GPUs share."""
    return spec.nic.bandwidth_bytes_per_s * spec.nic.per_gpu


def gpu_places(spec: ClusterSpec) -> Iterator[GpuPlace]:
    """Yield the place of every GPU, in the order of their index: domain after domain."""
    out = spec.scale_out
    for domain in range(spec.scale_up.domains):
        leaf_group = domain // out.domains_per_leaf
        pod = leaf_group // (out.leaves_per_pod or 1)
        for position in range(spec.scale_up.gpus_per_domain):
            index = domain * spec.scale_up.gpus_per_domain + position
            rail = position // spec.nic.gpus_per_nic % spec.rails
            yield GpuPlace(
                index=index,
                domain=domain,
                position=position,
                host=index // spec.gpus_per_host,
                rack=domain // spec.rack.domains_per_rack if spec.rack else None,
                nic=index // spec.nic.gpus_per_nic,
                leaf=xml_names.leaf(leaf_group, rail if out.rail_optimised else None),
                pod=pod,
            )


def top_switches(spec: ClusterSpec) -> list[str]:
    """Return the switches of the top layer: the core, or each spine where flows keep to one."""
    if spec.scale_out.keeps_flows_on_one_spine:
        return [xml_names.spine(number) for number in spec.scale_out.spines_left]
    return [xml_names.TOP_SWITCH]


def trunks(spec: ClusterSpec) -> list[Trunk]:
    """Return the trunks of all switches, leaf switches first.

    A trunk is as wide as the NICs that are below its switch, divided by the oversubscriptions up to
    there: a layer passes upwards what it got from below, over k. Where spines are switches of their
    own, it is split into a link to each of them. Either way, a failed spine takes its share along.
    """
    out = spec.scale_out
    three_levels = out.levels == 3
    leaf_pod: dict[str, int] = {}
    nics_below_leaf: dict[str, set[int]] = {}
    for place in gpu_places(spec):
        leaf_pod[place.leaf] = place.pod
        nics_below_leaf.setdefault(place.leaf, set()).add(place.nic)

    nic = nic_bandwidth_bytes_per_s(spec)
    found: list[Trunk] = []
    into_pod: dict[int, float] = {}
    for leaf, nics in nics_below_leaf.items():
        pod = leaf_pod[leaf]
        width = len(nics) * nic / out.oversubscription[0]
        if out.keeps_flows_on_one_spine:
            width /= out.spines or 1
            found += [
                Trunk(xml_names.spine_link(leaf, spine), leaf, spine, width)
                for spine in top_switches(spec)
            ]
            continue
        if out.failed_spines:
            width *= len(out.spines_left) / (out.spines or 1)
        above = f"pod-{pod:05d}" if three_levels else xml_names.TOP_SWITCH
        found.append(Trunk(f"up_{leaf}", leaf, above, width))
        into_pod[pod] = into_pod.get(pod, 0.0) + width
    if three_levels:
        for pod, width in into_pod.items():
            switch = f"pod-{pod:05d}"
            narrowed = width / out.oversubscription[1]
            found.append(Trunk(f"up_{switch}", switch, xml_names.TOP_SWITCH, narrowed))
    return found
