"""The tables of a cluster's spec: GPUs, scale-up domains, a fat-tree, storage.

In the file each quantity is text with a unit (``bandwidth = "900GB/s"``). In Python it is a float
in SI units, with the unit in its name (``bandwidth_bytes_per_s``).
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from faultline.platforms.errors import KeyedError, nearest
from faultline.platforms.units import (
    BANDWIDTH,
    COUNT,
    POWER,
    SIZE,
    SPEED,
    TIME,
    Kind,
    format_quantity,
    parse_quantity,
)
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


class NvlinkGeneration(NamedTuple):
    """NVLink of one GPU: bandwidth of all its links, each way, and their number.

    Datasheets state the sum of both directions, which is twice this bandwidth.
    """

    bandwidth: str
    links: int


GENERATIONS = {
    "nvlink2": NvlinkGeneration("150GB/s", 6),  # V100 datasheet: 300 GB/s both ways together
    "nvlink3": NvlinkGeneration("300GB/s", 12),  # A100 datasheet: 600 GB/s both ways together
    "nvlink4": NvlinkGeneration("450GB/s", 18),  # H100 datasheet: 900 GB/s both ways together
    "nvlink5": NvlinkGeneration("900GB/s", 18),  # GB200 NVL72 datasheet: 1.8 TB/s together
}
"""NVLink generations by their name in a spec, which then need not repeat a datasheet."""

# NVIDIA states no latencies. These are round numbers of the order of published measurements.
_NVLINK_LATENCIES = {"latency": "250ns", "switch_latency": "100ns"}


class SpecTable(BaseModel):
    """A table of a spec; it is immutable and refuses unknown keys and infinite values."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


def _reader(kind: Kind, positive: bool) -> BeforeValidator:
    def read(text: object) -> float:
        value = parse_quantity(text, kind)
        if positive and value == 0:
            raise ValueError(f"{text!r} is zero: write {kind.name} above zero, like {kind.example}")
        return value

    return BeforeValidator(read)


def _count(stated: object) -> object:
    """Return a text such as "2k" as a whole number; other values unchanged."""
    number = parse_quantity(stated, COUNT) if isinstance(stated, str) else stated
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _writer(kind: Kind) -> PlainSerializer:
    return PlainSerializer(lambda value: format_quantity(value, kind), return_type=str)


Bandwidth = Annotated[float, _reader(BANDWIDTH, positive=True), _writer(BANDWIDTH)]
Latency = Annotated[float, _reader(TIME, positive=False), _writer(TIME)]
Memory = Annotated[float, _reader(SIZE, positive=True), _writer(SIZE)]
Speed = Annotated[float, _reader(SPEED, positive=True), _writer(SPEED)]
Power = Annotated[float, _reader(POWER, positive=True), _writer(POWER)]
Count = Annotated[StrictInt, BeforeValidator(_count), Field(ge=1, le=10_000_000)]
Ratio = Annotated[float, Field(ge=1)]


class Gpu(SpecTable):
    """``[gpu]``: one accelerator.

    ``flops`` is the speed in the simulation: the dense peak unless the description states another.
    ``power`` is the rated maximum.
    """

    name: StrictStr
    speed_flop_per_s: Speed = Field(alias="flops")
    memory_bytes: Memory = Field(alias="memory")
    power_w: Power | None = Field(alias="power", default=None)


class ScaleUp(SpecTable):
    """``[scale_up]``: NVLink domains. Bandwidth is each way and per GPU; latency is per link.

    A flow inside a domain takes the source's link, the NVSwitch and the destination's link: its
    latency is ``2 * latency + switch_latency``. Domains of one GPU have no NVLink and need no
    values for it. `nvlink` names a generation (`GENERATIONS`), whose values are the defaults of
    this table.
    """

    domains: Count
    gpus_per_domain: Count
    nvlink: StrictStr | None = None
    bandwidth_bytes_per_s: Bandwidth | None = Field(alias="bandwidth", default=None)
    latency_s: Latency = Field(alias="latency", default=0.0)
    switch_latency_s: Latency = Field(alias="switch_latency", default=0.0)

    @model_validator(mode="before")
    @classmethod
    def _of_generation(cls, table: object) -> object:
        if not isinstance(table, dict) or table.get("nvlink") is None:
            return table
        name = table["nvlink"]
        if not isinstance(name, str) or name not in GENERATIONS:
            raise KeyedError(
                "scale_up.nvlink",
                f"{name!r} is not a generation{nearest(str(name), GENERATIONS)}: "
                f"there are {', '.join(GENERATIONS)}",
            )
        return {"bandwidth": GENERATIONS[name].bandwidth, **_NVLINK_LATENCIES, **table}


class Nic(SpecTable):
    """``[nic]``: the way from a GPU to its leaf switch, each way: PCIe, then the network adapter.

    Several adapters of one GPU (`per_gpu`) act as one with the sum of their rates; with
    `gpus_per_nic` above 1, neighbours in a host share one, which has a single link to its switch.
    The PCIe link is left out of the platform if it has no bandwidth. Domains of several GPUs need
    it, because NVLink is then the route of fewest links inside a domain.
    """

    per_gpu: Count = 1
    gpus_per_nic: Count = 1
    bandwidth_bytes_per_s: Bandwidth = Field(alias="bandwidth")
    latency_s: Latency = Field(alias="latency")
    pcie_bandwidth_bytes_per_s: Bandwidth | None = Field(alias="pcie_bandwidth", default=None)
    pcie_latency_s: Latency = Field(alias="pcie_latency", default=0.0)


class ScaleOut(SpecTable):
    """``[scale_out]``: a fat-tree of two or three levels.

    Two levels: leaf switches under one spine layer. Three: leaf switches under the spine layer of
    their pod, pods under the core. `domains_per_leaf` domains share a leaf switch. In a
    rail-optimised fabric they share one per position in the domain (rail): GPU k of each domain is
    on leaf switch k of the set. If a domain has more adapters than `rails`, its adapters take the
    rails in turn: with 4 rails and 18 hosts of 4 GPUs, GPU k of each host is on rail k.

    With `routing` ``"adaptive"``, the default, routing is ideal spraying. The spine layer is one
    switch in the platform. The uplinks of a switch are one trunk, with the bandwidth of all NICs
    below it over its oversubscription.

    With ``"ecmp"`` and ``"d-mod-k"``, each of the `spines` is a switch. Each leaf switch has a link
    to it with the trunk's bandwidth over `spines`. Each flow takes a single spine
    (`platforms.topology`): by a hash of its two ends with `routing_seed` (0 by default), or by the
    number of its destination. `failed_spines`, counted from 0, carry no flows, and a trunk loses
    their share.

    A cable has its `link_latency`, a switch its `switch_latency`. A trunk has both; a NIC link has
    half of a switch's, so that a path counts each switch once.
    """

    levels: StrictInt = Field(ge=2, le=3)
    domains_per_leaf: Count
    leaves_per_pod: Count | None = None
    oversubscription: tuple[Ratio, ...]
    rail_optimised: StrictBool
    rails: Count | None = None
    routing: Literal["adaptive", "ecmp", "d-mod-k"] | None = None
    spines: Count | None = None
    failed_spines: tuple[StrictInt, ...] | None = None
    routing_seed: StrictInt | None = None
    link_latency_s: Latency = Field(alias="link_latency")
    switch_latency_s: Latency = Field(alias="switch_latency")

    @property
    def keeps_flows_on_one_spine(self) -> bool:
        """Return whether each spine is a separate switch and each flow takes a single spine."""
        return self.routing in ("ecmp", "d-mod-k")

    @property
    def spines_left(self) -> tuple[int, ...]:
        """Numbers of the spines that have not failed; empty if the spec has no `spines`."""
        return tuple(set(range(self.spines or 0)) - set(self.failed_spines or ()))


class Host(SpecTable):
    """``[host]``: the servers inside a domain, and the memory of one server.

    The default of `gpus_per_host` is the whole domain. Memory and disks are properties of the
    platform. With `doors`, their traffic is simulated, too: each GPU has a door to the memory of
    its host (``memory-000017``) and to the disks (``disk-000017``).

    The path to memory is the GPU's PCIe link, or a separate link if `link_bandwidth` is set
    (NVLink-C2C), then the memory bus. The GPUs of a host, reads and writes share the bus. Doors
    triple SimGrid's time to find routes, so they are off by default.
    """

    gpus_per_host: Count | None = None
    memory_bytes: Memory | None = Field(alias="memory", default=None)
    memory_bandwidth_bytes_per_s: Bandwidth | None = Field(alias="memory_bandwidth", default=None)
    memory_latency_s: Latency = Field(alias="memory_latency", default=0.0)
    link_bandwidth_bytes_per_s: Bandwidth | None = Field(alias="link_bandwidth", default=None)
    doors: StrictBool = False


class Disk(SpecTable):
    """``[disk]``: the local disks of a host, together; its GPUs share the two bandwidths.

    With `Host.doors`, a GPU's path to them is its PCIe link and then the disks.
    """

    read_bandwidth_bytes_per_s: Bandwidth = Field(alias="read_bandwidth")
    write_bandwidth_bytes_per_s: Bandwidth = Field(alias="write_bandwidth")
    capacity_bytes: Memory | None = Field(alias="capacity", default=None)
    latency_s: Latency = Field(alias="latency", default=0.0)


class Rack(SpecTable):
    """``[rack]``: domains of a rack share its power and switches, and fail together."""

    domains_per_rack: Count


class FileSystem(SpecTable):
    """``[storage]``: a parallel file system on the top layer of the fabric.

    Bandwidths are of the whole file system, shared by all clients; `client_bandwidth` caps each
    transfer.
    """

    read_bandwidth_bytes_per_s: Bandwidth = Field(alias="read_bandwidth")
    write_bandwidth_bytes_per_s: Bandwidth = Field(alias="write_bandwidth")
    client_bandwidth_bytes_per_s: Bandwidth | None = Field(alias="client_bandwidth", default=None)
    latency_s: Latency = Field(alias="latency", default=0.0)


class Plane(SpecTable):
    """``[plane]``: the platform is one rail plane, which represents `cluster_gpus` GPUs.

    The planes of a cluster are identical if all carry the same traffic at the same time and use
    equal parts of the links that they share. Then one plane represents all.

    One GPU per group represents the M = cluster_gpus / groups GPUs of the group. The ranks of a
    group differ only in which 1/M of the model they hold. The plane gets 1/M of the file system's
    bandwidth, which the whole cluster shares. A GPU keeps its NIC and its share of the uplinks. A
    rank of the plane carries 1/M of the bytes of its group.

    `domain_gpus` is the size of the cluster's scale-up domains, whose links ``[scale_up]``
    describes. The plane has no such domains. `topology.servers_of` creates some, so that a step
    can be timed.
    """

    cluster_gpus: Count
    domain_gpus: Count | None = None


class ClusterTables(SpecTable):
    """All tables of a cluster, each checked on its own."""

    name: StrictStr
    description: StrictStr
    source: StrictStr
    gpu: Gpu
    scale_up: ScaleUp
    nic: Nic
    scale_out: ScaleOut
    storage: FileSystem
    host: Host = Field(default_factory=Host)
    disk: Disk | None = None
    rack: Rack | None = None
    plane: Plane | None = None

    @property
    def gpus(self) -> int:
        """Number of GPU hosts in the platform."""
        return self.scale_up.domains * self.scale_up.gpus_per_domain

    @property
    def gpus_per_rank(self) -> int:
        """Number of the cluster's GPUs that a GPU host represents; 1 unless this is a plane."""
        return self.plane.cluster_gpus // self.gpus if self.plane else 1

    @property
    def gpus_per_host(self) -> int:
        """GPUs of one server; by default, the whole scale-up domain."""
        return self.host.gpus_per_host or self.scale_up.gpus_per_domain

    @property
    def rails(self) -> int:
        """Leaf switches that the domains of one set share: 1 in a plain fat-tree."""
        adapters = self.scale_up.gpus_per_domain // self.nic.gpus_per_nic
        return (self.scale_out.rails or adapters) if self.scale_out.rail_optimised else 1
