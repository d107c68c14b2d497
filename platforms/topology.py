"""The topology of a spec: places of GPUs, bandwidths of trunks, and the spine of each flow.

If the fabric hashes flows instead of spraying them, a flow is all traffic from one GPU to another,
or between a GPU and the storage. A flow takes a single spine, as equal-cost multi-path routing
(ECMP) keeps the packets of a connection in order. So two flows can share one link while another
is idle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from faultline.platforms import xml_names
from faultline.platforms.errors import PlatformError
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_file import spec_from_mapping
from faultline.platforms.units import BANDWIDTH, SIZE, format_quantity, parse_quantity


@dataclass(frozen=True)
class GpuPlace:
    """The place of one GPU: index, domain, position in it, host, rack, adapter, leaf switch, pod.

    Numbers of hosts, racks and adapters are unique in the cluster. `rack` is None if the spec has
    no racks.
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
    """All uplinks of a switch as one link to the layer above; bandwidth in bytes/s each way."""

    name: str
    below: str
    above: str
    bandwidth_bytes_per_s: float


def nic_bandwidth_bytes_per_s(spec: ClusterSpec) -> float:
    """Return the bandwidth of a NIC link: all adapters of a GPU, or a shared one."""
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
    """Return the switches of the top layer: the core, or the spines if they are separate."""
    if spec.scale_out.keeps_flows_on_one_spine:
        return [xml_names.spine(number) for number in spec.scale_out.spines_left]
    return [xml_names.TOP_SWITCH]


def trunks(spec: ClusterSpec) -> list[Trunk]:
    """Return the trunks of all switches, leaf switches first.

    The bandwidth of a trunk is that of the NICs below its switch, divided by the oversubscriptions
    up to its layer. If spines are separate switches, the trunk is split into a link to each. In
    both cases, a failed spine takes its share.
    """
    out = spec.scale_out
    three_levels = out.levels == 3
    leaf_pod: dict[str, int] = {}
    nics_below_leaf: dict[str, set[int]] = {}
    for place in gpu_places(spec):
        leaf_pod[place.leaf] = place.pod
        nics_below_leaf.setdefault(place.leaf, set()).add(place.nic)

    nic = nic_bandwidth_bytes_per_s(spec)
    trunks: list[Trunk] = []
    into_pod: dict[int, float] = {}
    for leaf, nics in nics_below_leaf.items():
        pod = leaf_pod[leaf]
        width = len(nics) * nic / out.oversubscription[0]
        if out.keeps_flows_on_one_spine:
            width /= out.spines or 1
            trunks += [
                Trunk(xml_names.spine_link(leaf, spine), leaf, spine, width)
                for spine in top_switches(spec)
            ]
            continue
        if out.failed_spines:
            width *= len(out.spines_left) / (out.spines or 1)
        above = f"pod-{pod:05d}" if three_levels else xml_names.TOP_SWITCH
        trunks.append(Trunk(f"up_{leaf}", leaf, above, width))
        into_pod[pod] = into_pod.get(pod, 0.0) + width
    if three_levels:
        for pod, width in into_pod.items():
            switch = f"pod-{pod:05d}"
            narrowed = width / out.oversubscription[1]
            trunks.append(Trunk(f"up_{switch}", switch, xml_names.TOP_SWITCH, narrowed))
    return trunks


def rail_plane(spec: ClusterSpec) -> ClusterSpec:
    """Return the plane of one rail: one GPU per domain, on the leaf switches of its rail.

    The leaf switches of a rail carry no traffic of other rails. Trunks above them may be shared,
    and are wider by the number of rails. So if all rails carry the same traffic, one plane has the
    times of all. The plane gets its part of shared bandwidth: of the storage, and of the memory,
    disks and adapters that the GPUs of a host share.

    Raises
    ------
    PlatformError
        The fabric is not rail-optimised, or the spec is a plane already.
    """
    if not spec.scale_out.rail_optimised:
        raise PlatformError("only a rail-optimised fabric has rail planes", spec.name)
    if spec.plane is not None:
        raise PlatformError("is a rail plane already", spec.name)
    mapping = spec.as_mapping()
    mapping["plane"] = {"cluster_gpus": spec.gpus}
    mapping["scale_up"] = {"domains": spec.scale_up.domains, "gpus_per_domain": 1}
    mapping["scale_out"].pop("rails", None)
    mapping.pop("rack", None)
    for table, key, kind, sharers in (
        ("nic", "bandwidth", BANDWIDTH, spec.nic.gpus_per_nic),
        ("host", "memory", SIZE, spec.gpus_per_host),
        ("host", "memory_bandwidth", BANDWIDTH, spec.gpus_per_host),
        ("disk", "read_bandwidth", BANDWIDTH, spec.gpus_per_host),
        ("disk", "write_bandwidth", BANDWIDTH, spec.gpus_per_host),
        ("disk", "capacity", SIZE, spec.gpus_per_host),
    ):
        if text := mapping.get(table, {}).get(key):
            mapping[table][key] = format_quantity(parse_quantity(text, kind) / sharers, kind)
    mapping["nic"]["gpus_per_nic"] = 1
    if "host" in mapping:
        mapping["host"]["gpus_per_host"] = 1
    return spec_from_mapping(mapping, f"rail plane of {spec.name}")


def servers_of(spec: ClusterSpec, groups: int, domains_per_group: int) -> ClusterSpec:
    """Return some groups of whole scale-up domains, from the cluster that a plane represents.

    Each group has its own leaf switches, like its GPU in the plane.
    """
    if spec.plane is None or spec.plane.domain_gpus is None:
        raise PlatformError("states no plane.domain_gpus", spec.name)
    mapping = spec.as_mapping()
    del mapping["plane"]
    mapping["scale_up"] |= {
        "domains": groups * domains_per_group,
        "gpus_per_domain": spec.plane.domain_gpus,
    }
    mapping["scale_out"]["domains_per_leaf"] = domains_per_group
    return spec_from_mapping(mapping, f"servers of {spec.name}")


def hashed(source: str, destination: str, choices: int, seed: int = 0) -> int:
    """Return the hash of a flow between two hosts by name, from 0 to `choices` - 1.

    The first eight bytes of BLAKE2b over ``"seed:source>destination"`` as a big-endian number,
    modulo `choices`: the same on every machine and in every version of Python.
    """
    key = f"{seed}:{source}>{destination}".encode()
    digest = hashlib.blake2b(key, digest_size=8).digest()
    return int.from_bytes(digest, "big") % choices


def spine_routes(spec: ClusterSpec) -> Iterator[tuple[GpuPlace | None, GpuPlace | None, int]]:
    """Yield source, destination and spine of every flow that passes a spine; None is the storage.

    Flows inside a domain take NVLink. Flows below one leaf switch do not reach a spine.
    """
    out, places = spec.scale_out, list(gpu_places(spec))
    spines = out.spines_left
    # In the order of leaf switches, so that the GPUs below one take the spines in turn.
    by_leaf = sorted(places, key=lambda place: (place.leaf, place.index))
    numbers = {place: number for number, place in enumerate(by_leaf)}

    def spine(source: GpuPlace | None, destination: GpuPlace | None) -> int:
        # The storage has many servers, so the client determines the spine both ways.
        if out.routing == "d-mod-k" and (gpu := destination or source):
            return spines[numbers[gpu] % len(spines)]
        ends = host_name(source), host_name(destination)
        return spines[hashed(*ends, len(spines), out.routing_seed or 0)]

    for source in places:
        for destination in places:
            if source.domain != destination.domain and source.leaf != destination.leaf:
                yield source, destination, spine(source, destination)
        yield source, None, spine(source, None)
        yield None, source, spine(None, source)


def host_name(place: GpuPlace | None) -> str:
    """Return the host name of an end of a flow; None is the storage."""
    return place.name if place else xml_names.STORAGE_HOST
