"""One rail plane of a rail-optimised cluster, as a cluster of its own."""

from __future__ import annotations

from platforms.errors import PlatformError
from platforms.spec import ClusterSpec
from platforms.spec_file import spec_from_mapping


def rail_plane(spec: ClusterSpec) -> ClusterSpec:
    """Return the plane of one rail: one GPU a domain, on the leaf switches of its rail.

    GPU k of every domain is on leaf switches of its own, so traffic that stays on its rail meets
    that of other rails at most in trunks that are as many times wider. Where all rails carry the
    same, one tells the time of all. What the cluster shares (storage) the plane gets its part of.

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
    return spec_from_mapping(mapping, f"rail plane of {spec.name}")
