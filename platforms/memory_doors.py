"""Doors from GPUs to the memory of their hosts, in a new platform file or an existing one."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable

from faultline.platforms import xml_names
from faultline.platforms.errors import PlatformError
from faultline.platforms.platform_data import Platform
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.xml_elements import add_host, document, link, route

_ORDER = ("prop", "host", "router", "link", "route")
"""The order in which SimGrid's parser needs the elements of a zone."""


def add_memory_doors(
    zone: ET.Element, spec: ClusterSpec, gpus: Iterable[tuple[int, int, list[str]]]
) -> None:
    """Add a door to host memory for each GPU of a zone, if the spec has the memory's bandwidth.

    `gpus` has the number of each GPU, the number of its host, and the links to the host. The path
    to memory is the GPU's PCIe link, or a separate link if the spec has one (NVLink-C2C).
    """
    memory = spec.host
    if memory.memory_bandwidth_bytes_per_s is None:
        return
    buses: set[str] = set()
    for number, host, pcie in gpus:
        bus = f"hostmemory-{host:05d}"
        if bus not in buses:
            buses.add(bus)
            width = memory.memory_bandwidth_bytes_per_s
            zone.append(link(bus, width, memory.memory_latency_s, "SHARED"))
        way = pcie
        if memory.link_bandwidth_bytes_per_s is not None:
            way = [f"hostlink-{number:06d}"]
            width, latency_s = memory.link_bandwidth_bytes_per_s, spec.nic.pcie_latency_s
            zone.append(link(way[0], width, latency_s, "SPLITDUPLEX"))
        door = xml_names.memory(number)
        add_host(zone, door, "1Gf", {xml_names.ROLE_PROPERTY: "memory"})
        ends = xml_names.gpu(number), door
        zone.append(route(*ends, [*way, bus], "UP", undirected=[bus]))
    zone[:] = sorted(zone, key=lambda element: _ORDER.index(element.tag))


def with_memory_doors(platform: Platform, spec: ClusterSpec) -> str:
    """Return the XML of a platform file with doors to host memory; unchanged if it has some."""
    content = platform.path.read_text(encoding="utf-8")
    if "memory" in platform.roles.values():
        return content
    expected = tuple(map(xml_names.gpu, range(spec.gpus)))
    if platform.gpu_names != expected:
        difference = sorted(set(platform.gpu_names) ^ set(expected))[0]
        raise PlatformError(
            f"{difference} is not in both the file and its spec: state in host memory needs "
            "exactly the GPUs of the spec",
            str(platform.path),
        )
    root = ET.fromstring(content)
    first_gpu = f"host[@id='{platform.gpu_names[0]}']"
    zone = next(zone for zone in root.iter("zone") if zone.find(first_gpu) is not None)
    gpus = (
        (
            index,
            gpu.host if gpu.host >= 0 else index // spec.gpus_per_host,
            _pcie_link(platform, gpu.name),
        )
        for index, gpu in enumerate(platform.gpus)
    )
    add_memory_doors(zone, spec, gpus)
    return document(root)


def _pcie_link(platform: Platform, gpu: str) -> list[str]:
    links = (name for _, cable in platform.edges[gpu] for name in cable)
    return next(([name] for name in links if xml_names.link_class(name) == "pcie"), [])
