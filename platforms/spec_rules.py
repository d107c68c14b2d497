"""The rules of a spec that involve several keys."""

from __future__ import annotations

from faultline.platforms.errors import KeyedError
from faultline.platforms.spec_tables import ClusterTables

_MOST_GPUS = 200_000
"""A file of this number of GPU hosts has 250 MB; more hosts exhaust the memory."""

_MOST_GPUS_WITH_ROUTES = 256
"""Limit if each pair of GPUs has its own route: the file has 25 MB and grows quadratically."""


def check(spec: ClusterTables) -> None:
    """Check the rules between keys, after each key was checked on its own."""
    if spec.plane is not None:
        _plane(spec, spec.plane.cluster_gpus)
    if spec.gpus > _MOST_GPUS:
        raise KeyedError(
            "scale_up.domains",
            f"makes {spec.gpus} GPU hosts, more than {_MOST_GPUS}: simulate one rail plane",
        )
    _domain(spec)
    _adapters(spec)
    _levels(spec)
    _spines(spec)


def _plane(spec: ClusterTables, cluster_gpus: int) -> None:
    groups = spec.scale_up.domains
    if spec.plane and spec.plane.domain_gpus and spec.scale_up.bandwidth_bytes_per_s is None:
        raise KeyedError(
            "scale_up.bandwidth",
            'is missing: plane.domain_gpus needs it, written like nvlink = "nvlink5"',
        )
    if spec.scale_up.gpus_per_domain != 1:
        raise KeyedError("scale_up.gpus_per_domain", "must be 1 in a plane: one GPU per group")
    if cluster_gpus % groups != 0:
        fewer = range(min(groups, cluster_gpus), 0, -1)
        more = range(groups, cluster_gpus + 1)
        divisors = [
            str(next(count for count in counts if cluster_gpus % count == 0))
            for counts in (fewer, more)
            if counts
        ]
        raise KeyedError(
            "scale_up.domains",
            f"{groups} groups do not divide plane.cluster_gpus = {cluster_gpus}: "
            f"the nearest that do: {', '.join(divisors)}",
        )


def _domain(spec: ClusterTables) -> None:
    up, nic = spec.scale_up, spec.nic
    if up.gpus_per_domain > 1:
        if up.bandwidth_bytes_per_s is None:
            raise KeyedError(
                "scale_up.bandwidth", 'is missing: write it like "450GB/s", or nvlink = "nvlink4"'
            )
        if nic.pcie_bandwidth_bytes_per_s is None:
            raise KeyedError(
                "nic.pcie_bandwidth",
                'is missing: domains of several GPUs need it, written like "64GB/s"',
            )
    if up.gpus_per_domain % spec.gpus_per_host:
        raise KeyedError(
            "host.gpus_per_host",
            f"{spec.gpus_per_host} does not divide scale_up.gpus_per_domain = "
            f"{up.gpus_per_domain}: a domain consists of whole hosts",
        )
    host = spec.host
    if host.memory_bandwidth_bytes_per_s is None and host.link_bandwidth_bytes_per_s is not None:
        raise KeyedError(
            "host.memory_bandwidth",
            'is missing: host.link_bandwidth leads to the memory, written like "500GB/s"',
        )
    if host.doors and host.memory_bandwidth_bytes_per_s is None and spec.disk is None:
        raise KeyedError(
            "host.doors", "lead nowhere: state host.memory_bandwidth or the table [disk]"
        )


def _adapters(spec: ClusterTables) -> None:
    nic, out = spec.nic, spec.scale_out
    if nic.gpus_per_nic > 1:
        if nic.per_gpu > 1:
            raise KeyedError(
                "nic.gpus_per_nic", "is above 1 and so is nic.per_gpu: set one of them to 1"
            )
        if spec.gpus_per_host % nic.gpus_per_nic:
            raise KeyedError(
                "nic.gpus_per_nic",
                f"{nic.gpus_per_nic} does not divide the {spec.gpus_per_host} GPUs of a host",
            )
    if out.rails is None:
        return
    if not out.rail_optimised:
        raise KeyedError("scale_out.rails", "has no effect without rail_optimised: remove it")
    adapters = spec.scale_up.gpus_per_domain // nic.gpus_per_nic
    if adapters % out.rails:
        raise KeyedError(
            "scale_out.rails",
            f"{out.rails} does not divide the {adapters} network adapters of a domain",
        )


def _levels(spec: ClusterTables) -> None:
    out = spec.scale_out
    if len(out.oversubscription) != out.levels - 1:
        raise KeyedError(
            "scale_out.oversubscription",
            f"has {len(out.oversubscription)} values: {out.levels} levels need "
            f"{out.levels - 1}, one per layer of uplinks, from the leaf switches up",
        )
    if out.levels == 3 and out.leaves_per_pod is None:
        raise KeyedError("scale_out.leaves_per_pod", "is missing: three levels need it")
    if out.levels == 2 and out.leaves_per_pod is not None:
        raise KeyedError(
            "scale_out.leaves_per_pod",
            "has no effect with 2 levels: remove it or write levels = 3",
        )


def _spines(spec: ClusterTables) -> None:
    out = spec.scale_out
    if out.spines is None:
        if out.keeps_flows_on_one_spine:
            raise KeyedError("scale_out.spines", f'is missing: routing = "{out.routing}" needs it')
        if out.failed_spines is not None:
            raise KeyedError("scale_out.spines", "is missing: scale_out.failed_spines needs it")
    elif out.levels == 3:
        raise KeyedError("scale_out.spines", "has no effect with 3 levels: write levels = 2")
    for failed in out.failed_spines or ():
        if not 0 <= failed < (out.spines or 0):
            raise KeyedError(
                "scale_out.failed_spines",
                f"{failed} is not a spine: there are 0 to {(out.spines or 0) - 1}",
            )
    if out.spines is not None and not out.spines_left:
        raise KeyedError("scale_out.failed_spines", "has all spines: leave at least one out")
    if out.routing_seed is not None and out.routing != "ecmp":
        raise KeyedError("scale_out.routing_seed", 'has no effect without routing = "ecmp"')
    if out.keeps_flows_on_one_spine and spec.gpus > _MOST_GPUS_WITH_ROUTES:
        raise KeyedError(
            "scale_out.routing",
            f'"{out.routing}" writes a route for each pair of GPUs, for at most '
            f"{_MOST_GPUS_WITH_ROUTES} GPU hosts (got {spec.gpus}): simulate one rail plane, or "
            'write routing = "adaptive"',
        )
