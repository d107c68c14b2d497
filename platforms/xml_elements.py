"""A platform file and its elements: hosts, properties, links and routes."""

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


def host(zone: ET.Element, name: str, speed: str, properties: dict[str, str]) -> None:
    """Add a host to a zone."""
    element = ET.SubElement(zone, "host", id=name, speed=speed)
    for key, value in properties.items():
        prop(element, key, value)


def prop(parent: ET.Element, key: str, value: str) -> None:
    """Add a property."""
    ET.SubElement(parent, "prop", id=key, value=value)


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
    """Return a cable between two neighbours, and back unless it is not symmetrical.

    `direction` (``UP``, ``DOWN``) is that of the split links on the way from the source; links
    without directions in the same cable are named in `undirected`.
    """
    element = ET.Element("route", src=source, dst=destination)
    if not symmetrical:
        element.set("symmetrical", "NO")
    for name in cable:
        container = ET.SubElement(element, "link_ctn", id=name)
        if direction and name not in undirected:
            container.set("direction", direction)
    return element


def flow_route(source: str, destination: str, ways: Iterable[tuple[str, str]]) -> ET.Element:
    """Return what flows from one host to another pass: links in order, each with its direction.

    The direction of a link that has none is empty.
    """
    element = ET.Element("route", src=source, dst=destination, symmetrical="NO")
    for name, direction in ways:
        container = ET.SubElement(element, "link_ctn", id=name)
        if direction:
            container.set("direction", direction)
    return element
