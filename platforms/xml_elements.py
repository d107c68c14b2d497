"""Elements of a platform file as `xml_writer` writes them: hosts, links, and routes over links."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable

from faultline.platforms.units import BANDWIDTH, TIME, format_quantity

_HEADER = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
"""


def document(platform: ET.Element) -> str:
    """Return the text of a platform file."""
    return _HEADER + ET.tostring(platform, encoding="unicode") + "\n"


def add_host(zone: ET.Element, name: str, speed: str, properties: dict[str, str]) -> None:
    """Add a host to a zone."""
    element = ET.SubElement(zone, "host", id=name, speed=speed)
    for key, value in properties.items():
        ET.SubElement(element, "prop", id=key, value=value)


def link(name: str, bandwidth_bytes_per_s: float, latency_s: float, sharing: str) -> ET.Element:
    """Return a link; bandwidth in bytes/s each way if it is split, latency in s."""
    return ET.Element(
        "link",
        id=name,
        bandwidth=format_quantity(bandwidth_bytes_per_s, BANDWIDTH).replace("B/s", "Bps"),
        latency=format_quantity(latency_s, TIME),
        sharing_policy=sharing,
    )


def route(
    source: str,
    destination: str,
    cable: list[str],
    direction: str = "",
    symmetrical: bool = True,
    undirected: Collection[str] = (),
) -> ET.Element:
    """Return a cable between two neighbours; it has both directions if it is symmetrical.

    `direction` (``UP``, ``DOWN``) is that of the split links from the source to the destination.
    `undirected` names the links of the cable that have no direction.
    """
    ways = [(name, "" if name in undirected else direction) for name in cable]
    return flow_route(source, destination, ways, symmetrical)


def flow_route(
    source: str, destination: str, ways: Iterable[tuple[str, str]], symmetrical: bool = False
) -> ET.Element:
    """Return the route of flows from one host to another: links in order, with directions.

    The direction of an undirected link is empty.
    """
    element = ET.Element("route", src=source, dst=destination)
    if not symmetrical:
        element.set("symmetrical", "NO")
    for name, direction in ways:
        container = ET.SubElement(element, "link_ctn", id=name)
        if direction:
            container.set("direction", direction)
    return element
