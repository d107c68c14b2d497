"""The network of the controller in a platform file: its messages share no link with the fabric."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable

from faultline.platforms import xml_names
from faultline.platforms.xml_elements import add_host, link, route

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
    add_host(zone, controller, "1Gf", {xml_names.ROLE_PROPERTY: "controller"})
    root.append(link(_CONTROLLER_LINK, _BANDWIDTH_BYTES_PER_S, 0.0, "FATPIPE"))
    fabric, management = xml_names.FABRIC_ZONE, xml_names.MANAGEMENT_ZONE
    for source, destination, gateways in (
        (fabric, management, {"gw_src": _INTO, "gw_dst": controller}),
        (management, fabric, {"gw_src": controller, "gw_dst": _OUT_OF}),
    ):
        between = ET.SubElement(root, "zoneRoute", {"src": source, "dst": destination} | gateways)
        between.set("symmetrical", "NO")
        ET.SubElement(between, "link_ctn", id=_CONTROLLER_LINK)
