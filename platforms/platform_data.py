"""A platform as read back from its XML: plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from faultline.platforms import xml_names
from faultline.platforms.errors import PlatformError
from faultline.platforms.preset_library import gpu_of_kind
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_file import spec_from_properties
from faultline.platforms.spec_tables import Gpu

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")

Hop = tuple[str, tuple[str, ...]]
"""A neighbour, and the names of the links of the cable to it."""


@dataclass(frozen=True)
class GpuHost:
    """A GPU host: name, speed in FLOP/s, and place (-1 or empty if the file has none)."""

    name: str
    speed_flop_per_s: float
    domain: int
    position: int
    leaf: str
    pod: int
    host: int = -1
    rack: int = -1

    @property
    def server(self) -> int:
        """Number of its server; a domain is one server if the file names none."""
        return self.domain if self.host < 0 else self.host


_MOST_DIGITS = 15


def gpu_host(
    name: str, speed_flop_per_s: float, properties: Mapping[str, str], where: str
) -> GpuHost:
    """Return a GPU host with the place that its properties state."""
    if speed_flop_per_s == 0:
        raise PlatformError("is zero: it would never compute anything", f"{where}: speed")
    if not 0 < speed_flop_per_s < inf:
        raise PlatformError("is out of range: write it like 989Tf", f"{where}: speed")
    return GpuHost(
        name=name,
        speed_flop_per_s=speed_flop_per_s,
        domain=_whole(properties, xml_names.DOMAIN_PROPERTY, where),
        position=_whole(properties, xml_names.POSITION_PROPERTY, where),
        leaf=properties.get(xml_names.LEAF_PROPERTY, ""),
        pod=_whole(properties, xml_names.POD_PROPERTY, where),
        host=_whole(properties, xml_names.HOST_PROPERTY, where),
        rack=_whole(properties, xml_names.RACK_PROPERTY, where),
    )


def _whole(properties: Mapping[str, str], key: str, where: str) -> int:
    text = properties.get(key)
    if text is None:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise PlatformError(f"property {key!r} is {text!r}: write a whole number", where)
    return int(text)


@dataclass(frozen=True)
class Link:
    """A link; bandwidth in bytes/s (each way if it is split), latency in s."""

    name: str
    bandwidth_bytes_per_s: float
    latency_s: float
    sharing: str

    @property
    def link_class(self) -> str:
        """The kind of link by its name, for example ``nic``."""
        return xml_names.link_class(self.name)


@dataclass(frozen=True)
class LinkClass:
    """All links of one class: how many, and the range of their values (bytes/s, s)."""

    name: str
    count: int
    bandwidth_bytes_per_s: tuple[float, float]
    latency_s: tuple[float, float]


@dataclass(frozen=True)
class Route:
    """The links of a single flow, in order."""

    links: tuple[Link, ...]

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Bandwidth of the narrowest link."""
        return min(link.bandwidth_bytes_per_s for link in self.links)

    @property
    def latency_s(self) -> float:
        """Sum of the links' latencies."""
        return sum(link.latency_s for link in self.links)

    def seconds(self, size_bytes: float) -> float:
        """Return the time of a single flow on idle links: latency + size / bandwidth."""
        return self.latency_s + size_bytes / self.bandwidth_bytes_per_s


@dataclass(frozen=True)
class Platform:
    """The content of a platform file. GPU hosts are sorted by name, which is the rank order."""

    path: Path
    gpus: tuple[GpuHost, ...]
    switches: tuple[str, ...]
    links: Mapping[str, Link]
    storage: str | None
    controller: str | None
    properties: Mapping[str, str]
    edges: Mapping[str, tuple[Hop, ...]] = field(repr=False)
    """From each host or switch, the neighbours and the links of the cable to them."""
    flow_routes: Mapping[str, tuple[Hop, ...]] = field(repr=False, default_factory=dict)
    """From each host, the hosts with an explicit flow route, and its links on switch cables."""
    roles: Mapping[str, str] = field(repr=False, default_factory=dict)
    """Role of every host: ``gpu``, ``memory``, ``disk``, ``storage``, ``controller``."""
    is_foreign: bool = False
    """Whether SimGrid reported the content, of a file that Faultline did not write: its switches
    and cables are unknown, and `flow_routes` has SimGrid's routes."""

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """Names of the GPU hosts, in order."""
        return tuple(gpu.name for gpu in self.gpus)

    @property
    def domains(self) -> dict[int, tuple[GpuHost, ...]]:
        """The GPU hosts of every scale-up domain."""
        return _grouped(self.gpus, lambda gpu: gpu.domain)

    @property
    def hosts(self) -> dict[int, tuple[GpuHost, ...]]:
        """The GPU hosts of each server."""
        return _grouped(self.gpus, lambda gpu: gpu.server)

    def memory_of(self, gpu: str) -> str | None:
        """Return the door of a GPU to the memory of its host, if the platform models it."""
        neighbours = (name for name, _ in self.edges.get(gpu, ()))
        return next((name for name in neighbours if self.roles.get(name) == "memory"), None)

    @property
    def gpus_per_rank(self) -> int:
        """Number of the cluster's GPUs that a GPU host represents; 1 unless this is a plane."""
        text = self.properties.get(xml_names.GPUS_PER_RANK_PROPERTY, "1")
        if not text.isdigit() or int(text) == 0:
            raise PlatformError(
                f"property {xml_names.GPUS_PER_RANK_PROPERTY} is {text!r}: "
                "write a whole number above 0",
                str(self.path),
            )
        return int(text)

    @property
    def spec(self) -> ClusterSpec | None:
        """The spec in the file's properties, or None; if they differ, the file's links apply."""
        return spec_from_properties(self.properties, str(self.path))

    @property
    def gpu(self) -> Gpu | None:
        """The kind of its GPUs, by its spec or by name; None if the file states neither."""
        if (spec := self.spec) is not None:
            return spec.gpu
        kind = self.properties.get(xml_names.GPU_KIND_PROPERTY)
        return None if kind is None else gpu_of_kind(kind)

    @property
    def link_classes(self) -> dict[str, LinkClass]:
        """Number and values of the links, by class; those of a foreign file by sharing policy."""
        key = attrgetter("sharing" if self.is_foreign else "link_class")
        members: dict[str, tuple[Link, ...]] = _grouped(self.links.values(), key)
        return {name: _summary(name, links) for name, links in sorted(members.items())}


def _grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, tuple[_Item, ...]]:
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return {name: tuple(members) for name, members in groups.items()}


def _summary(name: str, links: Sequence[Link]) -> LinkClass:
    bandwidths = [link.bandwidth_bytes_per_s for link in links]
    latencies = [link.latency_s for link in links]
    ranges = (min(bandwidths), max(bandwidths)), (min(latencies), max(latencies))
    return LinkClass(name, len(links), *ranges)
