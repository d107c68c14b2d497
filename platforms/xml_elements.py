"""The elements of a platform file: hosts, properties, links, routes and the management network.

The controller reaches each GPU over the management network, which shares no link with the fabric.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable

from faultline.platforms import xml_names
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


_BANDWIDTH_BYTES_PER_S = 1e15
"""A control message of a kilobyte takes a picosecond, which is below SimGrid's clock."""

_INTO = "management-in"
_OUT_OF = "management-out"
_PORTS = "management-ports"
_CONTROLLER_LINK = "management-controller"
_DETOUR = "management-detour"
_DETOUR_LENGTH = 16
"""Links of the cable that no route takes: twice the eight of the longest path between GPUs."""


def add_ports(
    zone: ET.Element, links: list[ET.Element], routes: list[ET.Element], gpus: Iterable[str]
) -> None:
    """Add a path from each GPU of a fabric to the controller and back, for its messages only."""
    for router in (_INTO, _OUT_OF):
        ET.SubElement(zone, "router", id=router)
    links += [link(name, _BANDWIDTH_BYTES_PER_S, 0.0, "FATPIPE") for name in (_PORTS, _DETOUR)]
    for gpu in gpus:
        routes.append(route(gpu, _INTO, [_PORTS], symmetrical=False))
        routes.append(route(_OUT_OF, gpu, [_PORTS], symmetrical=False))
    routes.append(route(_INTO, _OUT_OF, [_DETOUR] * _DETOUR_LENGTH, symmetrical=False))


def add_management(root: ET.Element) -> None:
    """Add the controller's zone, joined to the fabric by a gateway for each direction.

    A single gateway would be a shortcut of two links between any two GPUs.
    """
    zone = ET.SubElement(root, "zone", id=xml_names.MANAGEMENT_ZONE, routing="Full")
    controller = xml_names.CONTROLLER_HOST
    host(zone, controller, "1Gf", {xml_names.ROLE_PROPERTY: "controller"})
    root.append(link(_CONTROLLER_LINK, _BANDWIDTH_BYTES_PER_S, 0.0, "FATPIPE"))
    fabric, management = xml_names.FABRIC_ZONE, xml_names.MANAGEMENT_ZONE
    for source, destination, gateways in (
        (fabric, management, {"gw_src": _INTO, "gw_dst": controller}),
        (management, fabric, {"gw_src": controller, "gw_dst": _OUT_OF}),
    ):
        between = ET.SubElement(root, "zoneRoute", {"src": source, "dst": destination} | gateways)
        between.set("symmetrical", "NO")
        ET.SubElement(between, "link_ctn", id=_CONTROLLER_LINK)
