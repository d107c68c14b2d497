"""One rail plane of a rail-optimised cluster, as a cluster of its own."""

from __future__ import annotations

from faultline.platforms.errors import PlatformError
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_file import spec_from_mapping
from faultline.platforms.units import BANDWIDTH, SIZE, Kind, format_quantity


def rail_plane(spec: ClusterSpec) -> ClusterSpec:
    """Return the plane of one rail: one GPU a domain, on the leaf switches of its rail.

    GPU k of every domain is on leaf switches of its own, so traffic that stays on its rail meets
    that of other rails at most in trunks that are as many times wider. Where all rails carry the
    same, one tells the time of all. What the cluster shares (storage) the plane gets its part of,
    and so with what the GPUs of a host share (memory, disks, an adapter).

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
    mapping["nic"]["bandwidth"] = _part(spec.nic.bandwidth_bytes_per_s, spec.nic.gpus_per_nic)
    mapping["nic"]["gpus_per_nic"] = 1
    if host := mapping.get("host"):
        host["gpus_per_host"] = 1
        for key, value, kind in (
            ("memory", spec.host.memory_bytes, SIZE),
            ("memory_bandwidth", spec.host.memory_bandwidth_bytes_per_s, BANDWIDTH),
        ):
            if value is not None:
                host[key] = _part(value, spec.gpus_per_host, kind)
    if spec.disk is not None:
        disk = mapping["disk"]
        disk["read_bandwidth"] = _part(spec.disk.read_bandwidth_bytes_per_s, spec.gpus_per_host)
        disk["write_bandwidth"] = _part(spec.disk.write_bandwidth_bytes_per_s, spec.gpus_per_host)
        if spec.disk.capacity_bytes is not None:
            disk["capacity"] = _part(spec.disk.capacity_bytes, spec.gpus_per_host, SIZE)
    return spec_from_mapping(mapping, f"rail plane of {spec.name}")


def _part(value: float, sharers: int, kind: Kind = BANDWIDTH) -> str:
    return format_quantity(value / sharers, kind)
