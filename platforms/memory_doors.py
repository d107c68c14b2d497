"""Doors to the memory of hosts: what state is copied to, in a fabric that is written or edited."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import NamedTuple

from faultline.platforms import xml_names
from faultline.platforms.errors import PlatformError
from faultline.platforms.platform_data import Platform
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.xml_elements import document, host, link, route

_ORDER = ("prop", "host", "router", "link", "route")
"""In which SimGrid's parser wants what is in a zone."""


class GpuAtHost(NamedTuple):
    """A GPU: its number, that of its host, and the links on its way to the host."""

    number: int
    host: int
    way: list[str]


def add_memory_doors(zone: ET.Element, spec: ClusterSpec, gpus: Iterable[GpuAtHost]) -> None:
    """Add a door to the memory of its host for each GPU of a zone, if the spec tells its bandwidth.

    The way to memory is the GPU's PCIe link, or a link of its own where it has one (NVLink-C2C).
    """
    memory = spec.host
    if memory.memory_bandwidth_bytes_per_s is None:
        return
    buses: set[str] = set()
    for gpu in gpus:
        bus = f"hostmemory-{gpu.host:05d}"
        if bus not in buses:
            buses.add(bus)
            width = memory.memory_bandwidth_bytes_per_s
            zone.append(link(bus, width, memory.memory_latency_s, "SHARED"))
        way = gpu.way
        if memory.link_bandwidth_bytes_per_s is not None:
            way = [f"hostlink-{gpu.number:06d}"]
            width, latency_s = memory.link_bandwidth_bytes_per_s, spec.nic.pcie_latency_s
            zone.append(link(way[0], width, latency_s, "SPLITDUPLEX"))
        door = xml_names.memory(gpu.number)
        host(zone, door, "1Gf", {xml_names.ROLE_PROPERTY: "memory"})
        ends = xml_names.gpu(gpu.number), door
        zone.append(route(*ends, [*way, bus], "UP", undirected=[bus]))
    zone[:] = sorted(zone, key=lambda element: _ORDER.index(element.tag))


def with_memory_doors(platform: Platform, spec: ClusterSpec) -> str:
    """Return the XML of a platform file with doors to its memories; as it is if it has some.

    Raises
    ------
    PlatformError
        Its GPUs are not those that its spec counts.
    """
    content = platform.path.read_text(encoding="utf-8")
    if "memory" in platform.roles.values():
        return content
    expected = tuple(map(xml_names.gpu, range(spec.gpus)))
    if platform.gpu_names != expected:
        strange = sorted(set(platform.gpu_names) ^ set(expected))[0]
        raise PlatformError(
            f"{strange} is not in both the file and the spec that it keeps: state in host memory "
            "can be measured with the GPUs of the spec alone",
            str(platform.path),
        )
    root = ET.fromstring(content)
    of_gpus = f"host[@id='{platform.gpu_names[0]}']"
    zone = next(zone for zone in root.iter("zone") if zone.find(of_gpus) is not None)
    gpus = (
        GpuAtHost(
            index,
            gpu.host if gpu.host >= 0 else index // spec.gpus_per_host,
            _way_to_host(platform, gpu.name),
        )
        for index, gpu in enumerate(platform.gpus)
    )
    add_memory_doors(zone, spec, gpus)
    return document(root)


def _way_to_host(platform: Platform, gpu: str) -> list[str]:
    cables = (cable for _, cable in platform.edges[gpu])
    return next(([name] for cable in cables for name in cable if _is_pcie(name)), [])


def _is_pcie(name: str) -> bool:
    return xml_names.link_class(name) == "pcie"
