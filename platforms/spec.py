"""What a cluster is: GPUs in scale-up domains, domains on a fat-tree, storage.

A `ClusterSpec` is read from TOML by `load_spec`. In the file every quantity is text with a unit
(``bandwidth = "900GB/s"``); in Python it is a float in SI units, and its attribute says which
(``bandwidth_bytes_per_s``).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

from platforms.units import BANDWIDTH, SIZE, SPEED, TIME, Kind, format_quantity, parse_quantity


class KeyedError(ValueError):
    """A rule over several keys is broken; carries the key to blame. Internal to the package."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key = tuple(key.split("."))


def _reader(kind: Kind, positive: bool) -> BeforeValidator:
    def read(text: object) -> float:
        value = parse_quantity(text, kind)
        if positive and value == 0:
            raise ValueError(f"{text!r} is zero: write {kind.name} above zero, like {kind.example}")
        return value

    return BeforeValidator(read)


def _writer(kind: Kind) -> PlainSerializer:
    return PlainSerializer(lambda value: format_quantity(value, kind), return_type=str)


Bandwidth = Annotated[float, _reader(BANDWIDTH, positive=True), _writer(BANDWIDTH)]
Latency = Annotated[float, _reader(TIME, positive=False), _writer(TIME)]
Memory = Annotated[float, _reader(SIZE, positive=True), _writer(SIZE)]
Speed = Annotated[float, _reader(SPEED, positive=True), _writer(SPEED)]
Count = Annotated[StrictInt, Field(ge=1)]
Ratio = Annotated[float, Field(ge=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Gpu(_Table):
    """``[gpu]``: one accelerator.

    ``flops`` is what the simulator computes with: the dense peak unless the description says
    otherwise.
    """

    name: StrictStr
    speed_flop_per_s: Speed = Field(alias="flops")
    memory_bytes: Memory = Field(alias="memory")


class ScaleUp(_Table):
    """``[scale_up]``: NVLink domains. Bandwidth is each way and per GPU; latency is per link.

    A flow inside a domain takes the source's link, the NVSwitch and the destination's link: its
    latency is ``2 * latency + switch_latency``. Domains of one GPU have no NVLink, and need no
    values for it.
    """

    domains: Count
    gpus_per_domain: Count
    bandwidth_bytes_per_s: Bandwidth | None = Field(alias="bandwidth", default=None)
    latency_s: Latency = Field(alias="latency", default=0.0)
    switch_latency_s: Latency = Field(alias="switch_latency", default=0.0)


class Nic(_Table):
    """``[nic]``: the way from a GPU to its leaf switch, each way: PCIe, then the network adapter.

    Several adapters of one GPU act as one with the sum of their rates. The PCIe link is left out of
    the platform if it has no bandwidth; domains of several GPUs need it, as the route by number of
    links then prefers NVLink inside a domain.
    """

    per_gpu: Count = 1
    bandwidth_bytes_per_s: Bandwidth = Field(alias="bandwidth")
    latency_s: Latency = Field(alias="latency")
    pcie_bandwidth_bytes_per_s: Bandwidth | None = Field(alias="pcie_bandwidth", default=None)
    pcie_latency_s: Latency = Field(alias="pcie_latency", default=0.0)


class ScaleOut(_Table):
    """``[scale_out]``: a fat-tree of two or three levels.

    Two levels: leaf switches under one spine layer. Three: leaf switches under the spine layer of
    their pod, pods under the core. `domains_per_leaf` domains share a leaf switch; in a
    rail-optimised fabric they share one per position in the domain (rail), so GPU k of each goes to
    leaf switch k of the set.

    The spine layer is one switch in the platform, and the uplinks of a switch are one trunk whose
    bandwidth is the sum of the NICs below it over its oversubscription: ideal spraying, as adaptive
    routing gives.

    A hop has its `link_latency`, a switch its `switch_latency`; a trunk carries both, a NIC link
    carries half a switch, so that a path counts each switch once.
    """

    levels: Annotated[StrictInt, Field(ge=2, le=3)]
    domains_per_leaf: Count
    leaves_per_pod: Count | None = None
    oversubscription: tuple[Ratio, ...]
    rail_optimised: StrictBool
    link_latency_s: Latency = Field(alias="link_latency")
    switch_latency_s: Latency = Field(alias="switch_latency")


class Storage(_Table):
    """``[storage]``: a parallel file system on the top layer of the fabric.

    Bandwidths are of the whole file system, shared by all clients; `client_bandwidth` caps each
    transfer.
    """

    read_bandwidth_bytes_per_s: Bandwidth = Field(alias="read_bandwidth")
    write_bandwidth_bytes_per_s: Bandwidth = Field(alias="write_bandwidth")
    client_bandwidth_bytes_per_s: Bandwidth | None = Field(alias="client_bandwidth", default=None)
    latency_s: Latency = Field(alias="latency", default=0.0)


class Plane(_Table):
    """``[plane]``: the platform is one rail plane, standing for a cluster of `cluster_gpus`.

    Where all planes carry the same traffic at the same time, and no link is shared between planes
    but by equal parts, the planes are copies of one another: what happens in one, happens in all.
    So one GPU a group stands for the M = cluster_gpus / groups GPUs of the group (the ranks of one
    group differ only in which 1/M of the model they hold). What the whole cluster shares, the plane
    gets 1/M of: the file system's bandwidth. What a GPU has of its own, or of a trunk in
    proportion, is unchanged: its NIC, its share of the uplinks. Sizes follow: a rank of the plane
    carries 1/M of the bytes of its group.
    """

    cluster_gpus: Count


class ClusterSpec(_Table):
    """A cluster, as its engineers would describe it. See the classes of its tables."""

    name: StrictStr
    description: StrictStr
    source: StrictStr
    gpu: Gpu
    scale_up: ScaleUp
    nic: Nic
    scale_out: ScaleOut
    storage: Storage
    plane: Plane | None = None

    @model_validator(mode="after")
    def _rules_over_several_keys(self) -> ClusterSpec:
        up, out, nic = self.scale_up, self.scale_out, self.nic
        if self.plane is not None:
            self._check_plane(self.plane.cluster_gpus)
        if up.gpus_per_domain > 1:
            if up.bandwidth_bytes_per_s is None:
                raise KeyedError("scale_up.bandwidth", 'is missing: write it like "450GB/s"')
            if nic.pcie_bandwidth_bytes_per_s is None:
                raise KeyedError(
                    "nic.pcie_bandwidth",
                    'is missing: domains of several GPUs need it, written like "64GB/s"',
                )
        if len(out.oversubscription) != out.levels - 1:
            raise KeyedError(
                "scale_out.oversubscription",
                f"has {len(out.oversubscription)} values: {out.levels} levels need "
                f"{out.levels - 1}, one a layer of uplinks, from the leaf switches up",
            )
        if out.levels == 3 and out.leaves_per_pod is None:
            raise KeyedError("scale_out.leaves_per_pod", "is missing: three levels need it")
        if out.levels == 2 and out.leaves_per_pod is not None:
            raise KeyedError(
                "scale_out.leaves_per_pod",
                "has no meaning with 2 levels: remove it or write levels = 3",
            )
        return self

    def _check_plane(self, cluster_gpus: int) -> None:
        groups = self.scale_up.domains
        if self.scale_up.gpus_per_domain != 1:
            raise KeyedError("scale_up.gpus_per_domain", "must be 1 in a plane: one GPU a group")
        if cluster_gpus % groups != 0:
            fewer = range(min(groups, cluster_gpus), 0, -1)
            more = range(groups, cluster_gpus + 1)
            near = [
                str(next(count for count in counts if cluster_gpus % count == 0))
                for counts in (fewer, more)
                if counts
            ]
            raise KeyedError(
                "scale_up.domains",
                f"{groups} groups do not divide plane.cluster_gpus = {cluster_gpus}: "
                f"the nearest that do: {', '.join(near)}",
            )

    @property
    def gpus(self) -> int:
        """Number of GPU hosts in the platform."""
        return self.scale_up.domains * self.scale_up.gpus_per_domain

    @property
    def gpus_per_rank(self) -> int:
        """How many GPUs of the cluster one GPU host stands for: 1, unless this is a plane."""
        return self.plane.cluster_gpus // self.gpus if self.plane else 1

    def as_mapping(self) -> dict[str, Any]:
        """Return the spec as nested dictionaries with quantities as text, as in its TOML file."""
        mapping: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return mapping
