"""Write a cluster spec as SimGrid platform XML.

The file is what is simulated, and it is meant to be edited. Every ``<route>`` in it is a cable
between two neighbours, so it grows linearly with the cluster, and a bandwidth stands in one place::

    GPU -nvlink- NVSwitch in -nvswitch- NVSwitch out -nvlink- GPU        three links
    GPU -pcie, nic- leaf switch -nic, pcie- GPU                          four
    GPU -pcie, nic- leaf switch -up_leaf- core -up_leaf- ...             six

SimGrid's Dijkstra routing takes the path of the fewest links. Counting decides three things:

* inside a domain NVLink wins (3 links) over the network (4);
* between leaf switches of different rails the spine layer wins (2 links) over a detour through a
  neighbour's NIC (its NVLink costs 3);
* nothing passes through the management network or the storage: the first has a router for each
  direction, and only a very long cable joins the two; the second has one cable.

That long cable has to be: SimGrid's Dijkstra does not end if some router cannot be reached.
"""

from __future__ import annotations

import os
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

from platforms import topology, xml_names
from platforms.errors import PlatformError
from platforms.spec import ClusterSpec
from platforms.spec_properties import spec_properties
from platforms.units import BANDWIDTH, SPEED, TIME, format_quantity

_HEADER = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
"""

_MANAGEMENT_BANDWIDTH_BYTES_PER_S = 1e15
"""A control message of a kilobyte takes a picosecond, which is below SimGrid's clock."""

_TO_MANAGEMENT = "management-in"
_FROM_MANAGEMENT = "management-out"
_MANAGEMENT_LINK = "management-ports"
_CONTROLLER_LINK = "management-controller"
_DETOUR_LINK = "management-detour"
_DETOUR_LENGTH = 16
"""Links of the cable that is never taken: twice the eight of the longest path between GPUs."""


def write_xml(spec: ClusterSpec, path: str | Path) -> None:
    """Write the SimGrid platform of a spec to a file, all of it or nothing.

    Raises
    ------
    PlatformError
        The file cannot be written.
    """
    target = Path(path)
    temporary: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, prefix=f".{target.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(xml_text(spec))
        # Temporary files are private; a platform is as readable as any other new file.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(target)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise PlatformError(f"cannot be written: {reason}", str(path)) from None


def xml_text(spec: ClusterSpec) -> str:
    """Return the SimGrid platform of a spec as text; the same spec gives the same text."""
    platform = ET.Element("platform", version="4.1")
    root = ET.SubElement(platform, "zone", id=xml_names.ROOT_ZONE, routing="Full")
    for key, value in spec_properties(spec):
        _prop(root, key, value)
    root.append(_Fabric(spec).zone)
    _add_management(root)
    ET.indent(platform, space=" ")
    return _HEADER + ET.tostring(platform, encoding="unicode") + "\n"


class _Fabric:
    """The zone of GPUs, switches and storage.

    SimGrid's parser wants the hosts and routers of a zone, then links, then routes; so they are
    kept apart until all are there.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self.places = list(topology.gpu_places(spec))
        self.zone = ET.Element("zone", id=xml_names.FABRIC_ZONE, routing="DijkstraCache")
        self.links: list[ET.Element] = []
        self.routes: list[ET.Element] = []
        self._add_gpus()
        self._add_nvlink()
        self._add_network()
        self._add_storage()
        self._add_management_ports()
        self.zone.extend(self.links)
        self.zone.extend(self.routes)

    def _add_gpus(self) -> None:
        speed = format_quantity(self.spec.gpu.speed_flop_per_s, SPEED).replace("FLOP/s", "f")
        for place in self.places:
            properties = {
                xml_names.ROLE_PROPERTY: "gpu",
                xml_names.DOMAIN_PROPERTY: str(place.domain),
                xml_names.POSITION_PROPERTY: str(place.position),
                xml_names.LEAF_PROPERTY: place.leaf,
                xml_names.POD_PROPERTY: str(place.pod),
            }
            _host(self.zone, place.name, speed, properties)

    def _add_nvlink(self) -> None:
        up = self.spec.scale_up
        if up.bandwidth_bytes_per_s is None or up.gpus_per_domain == 1:
            return
        for domain in range(up.domains):
            way_in, way_out = _nvswitch_ports(domain)
            self._router(way_in)
            self._router(way_out)
            # As wide as all ports together: never in the way, unless somebody edits it to be.
            crossbar = f"nvswitch-{domain:05d}"
            width = up.bandwidth_bytes_per_s * up.gpus_per_domain
            self._link(crossbar, width, up.switch_latency_s, "SHARED")
            self._one_way(way_in, way_out, crossbar)
        for place in self.places:
            way_in, way_out = _nvswitch_ports(place.domain)
            name = f"nvlink-{place.index:06d}"
            self._link(name, up.bandwidth_bytes_per_s, up.latency_s)
            self.routes.append(_route(place.name, way_in, [name], "UP", symmetrical=False))
            self.routes.append(_route(way_out, place.name, [name], "DOWN", symmetrical=False))

    def _add_network(self) -> None:
        nic, out = self.spec.nic, self.spec.scale_out
        nic_latency_s = nic.latency_s + out.switch_latency_s / 2
        nic_bandwidth = topology.nic_bandwidth_bytes_per_s(self.spec)
        for place in self.places:
            cable = [f"nic-{place.index:06d}"]
            if nic.pcie_bandwidth_bytes_per_s is not None:
                cable.insert(0, f"pcie-{place.index:06d}")
                self._link(cable[0], nic.pcie_bandwidth_bytes_per_s, nic.pcie_latency_s)
            self._link(cable[-1], nic_bandwidth, nic_latency_s)
            self.routes.append(_route(place.name, place.leaf, cable, "UP"))
        for trunk in topology.trunks(self.spec):
            self._router(trunk.below)
            latency_s = out.link_latency_s + out.switch_latency_s
            self._link(trunk.name, trunk.bandwidth_bytes_per_s, latency_s)
            self.routes.append(_route(trunk.below, trunk.above, [trunk.name], "UP"))
        self._router(xml_names.TOP_SWITCH)

    def _add_storage(self) -> None:
        storage = self.spec.storage
        host, top = xml_names.STORAGE_HOST, xml_names.TOP_SWITCH
        _host(self.zone, host, "1Gf", {xml_names.ROLE_PROPERTY: "storage"})
        latency_s = storage.latency_s + self.spec.scale_out.switch_latency_s / 2
        # A plane gets its part of what the whole cluster shares.
        planes = self.spec.gpus_per_rank
        self._link("storage-read", storage.read_bandwidth_bytes_per_s / planes, latency_s, "SHARED")
        self._link(
            "storage-write", storage.write_bandwidth_bytes_per_s / planes, latency_s, "SHARED"
        )
        client: list[str] = []
        if storage.client_bandwidth_bytes_per_s is not None:
            # A fat pipe limits every transfer for itself.
            client = ["storage-client"]
            self._link(client[0], storage.client_bandwidth_bytes_per_s, 0.0, "FATPIPE")
        self._one_way(host, top, *client, "storage-read")
        self._one_way(top, host, "storage-write", *client)

    def _add_management_ports(self) -> None:
        self._router(_TO_MANAGEMENT)
        self._router(_FROM_MANAGEMENT)
        for name in (_MANAGEMENT_LINK, _DETOUR_LINK):
            self._link(name, _MANAGEMENT_BANDWIDTH_BYTES_PER_S, 0.0, "FATPIPE")
        for place in self.places:
            self._one_way(place.name, _TO_MANAGEMENT, _MANAGEMENT_LINK)
            self._one_way(_FROM_MANAGEMENT, place.name, _MANAGEMENT_LINK)
        self._one_way(_TO_MANAGEMENT, _FROM_MANAGEMENT, *[_DETOUR_LINK] * _DETOUR_LENGTH)

    def _router(self, name: str) -> None:
        ET.SubElement(self.zone, "router", id=name)

    def _link(
        self, name: str, bandwidth: float, latency_s: float, sharing: str = "SPLITDUPLEX"
    ) -> None:
        self.links.append(_link(name, bandwidth, latency_s, sharing))

    def _one_way(self, source: str, destination: str, *cable: str) -> None:
        self.routes.append(_route(source, destination, list(cable), symmetrical=False))


def _nvswitch_ports(domain: int) -> tuple[str, str]:
    """Return the two routers of a domain's NVSwitch, before and behind its crossbar."""
    return f"nvswitch-{domain:05d}-in", f"nvswitch-{domain:05d}-out"


def _add_management(root: ET.Element) -> None:
    """Add the controller's zone, joined to the fabric by a gateway for each direction.

    A single gateway would be a short cut of two links between any two GPUs.
    """
    zone = ET.SubElement(root, "zone", id=xml_names.MANAGEMENT_ZONE, routing="Full")
    controller = xml_names.CONTROLLER_HOST
    _host(zone, controller, "1Gf", {xml_names.ROLE_PROPERTY: "controller"})
    root.append(_link(_CONTROLLER_LINK, _MANAGEMENT_BANDWIDTH_BYTES_PER_S, 0.0, "FATPIPE"))
    fabric, management = xml_names.FABRIC_ZONE, xml_names.MANAGEMENT_ZONE
    for source, destination, gateways in (
        (fabric, management, {"gw_src": _TO_MANAGEMENT, "gw_dst": controller}),
        (management, fabric, {"gw_src": controller, "gw_dst": _FROM_MANAGEMENT}),
    ):
        route = ET.SubElement(root, "zoneRoute", {"src": source, "dst": destination} | gateways)
        route.set("symmetrical", "NO")
        ET.SubElement(route, "link_ctn", id=_CONTROLLER_LINK)


def _host(zone: ET.Element, name: str, speed: str, properties: dict[str, str]) -> None:
    host = ET.SubElement(zone, "host", id=name, speed=speed)
    for key, value in properties.items():
        _prop(host, key, value)


def _prop(parent: ET.Element, key: str, value: str) -> None:
    ET.SubElement(parent, "prop", id=key, value=value)


def _link(name: str, bandwidth_bytes_per_s: float, latency_s: float, sharing: str) -> ET.Element:
    return ET.Element(
        "link",
        id=name,
        bandwidth=format_quantity(bandwidth_bytes_per_s, BANDWIDTH).replace("B/s", "Bps"),
        latency=format_quantity(latency_s, TIME),
        sharing_policy=sharing,
    )


def _route(
    source: str,
    destination: str,
    cable: list[str],
    direction: str = "",
    symmetrical: bool = True,
) -> ET.Element:
    route = ET.Element("route", src=source, dst=destination)
    if not symmetrical:
        route.set("symmetrical", "NO")
    for link in cable:
        container = ET.SubElement(route, "link_ctn", id=link)
        if direction:
            container.set("direction", direction)
    return route
