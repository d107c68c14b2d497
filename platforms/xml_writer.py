"""Write a cluster spec as SimGrid platform XML.

The simulation uses the file, and users may edit it. Each ``<route>`` is a cable between two
neighbours. So the file grows linearly with the cluster, and each bandwidth is defined once::

    GPU -nvlink- NVSwitch in -nvswitch- NVSwitch out -nvlink- GPU        three links
    GPU -pcie, nic- leaf switch -nic, pcie- GPU                          four
    GPU -pcie, nic- leaf switch -up_leaf- core -up_leaf- ...             six
    GPU -pcie, hostmemory- memory of its host                            two
    GPU -pcie, disk_write- disks of its host                             two

SimGrid's Dijkstra routing takes the path with the fewest links. The link counts ensure:

* flows inside a domain take NVLink (3 links), not the network (4);
* flows between leaf switches of different rails take the spine layer (2 links), not a detour
  through a neighbour's NIC (its NVLink has 3);
* no flow passes through the management network or the storage. The storage has one cable. The
  management network has a router for each direction, and only a very long cable joins them:
  without it, SimGrid's Dijkstra would hang because a router cannot be reached. The controller
  reaches each GPU over this network, which shares no link with the fabric.

Memory and disks have a door for each GPU, which leads nowhere else. One door per host would be a
path between its GPUs, and the route to it from other hosts would be ambiguous.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable
from pathlib import Path

from faultline.platforms import topology, xml_names
from faultline.platforms.errors import PlatformError
from faultline.platforms.files import write_file
from faultline.platforms.platform_data import Platform
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_file import spec_properties
from faultline.platforms.topology import host_name, spine_routes
from faultline.platforms.units import BANDWIDTH, TIME, format_quantity, simgrid_speed


def write_xml(spec: ClusterSpec, path: str | Path) -> None:
    """Write the SimGrid platform of a spec to a file, atomically.

    Raises
    ------
    PlatformError
        The file cannot be written.
    """
    try:
        write_file(Path(path), xml_text(spec))
    except OSError as error:
        raise PlatformError(f"cannot be written: {error.strerror}", str(path)) from None


def xml_text(spec: ClusterSpec) -> str:
    """Return the SimGrid platform of a spec as text, deterministically."""
    platform = ET.Element("platform", version="4.1")
    root = ET.SubElement(platform, "zone", id=xml_names.ROOT_ZONE, routing="Full")
    for key, value in spec_properties(spec):
        ET.SubElement(root, "prop", id=key, value=value)
    root.append(_Fabric(spec).zone)
    _add_management(root)
    ET.indent(platform, space=" ")
    return _document(platform)


class _Fabric:
    """The zone of GPUs, switches and storage.

    SimGrid's parser needs the hosts and routers of a zone first, then links, then routes. So links
    and routes are collected until the end.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self.places = list(topology.gpu_places(spec))
        self.top = topology.top_switches(spec)
        self.zone = ET.Element("zone", id=xml_names.FABRIC_ZONE, routing="DijkstraCache")
        self.links: list[ET.Element] = []
        self.routes: list[ET.Element] = []
        self._add_gpus()
        self._add_nvlink()
        self._add_network()
        self._add_disks()
        self._add_storage()
        _add_ports(self.zone, self.links, self.routes, [place.name for place in self.places])
        self._add_spine_routes()
        self.zone.extend(self.links)
        self.zone.extend(self.routes)
        if spec.host.doors:
            gpus = ((gpu.index, gpu.host, self._way_to_host(gpu.index)) for gpu in self.places)
            _add_memory_doors(self.zone, spec, gpus)

    def _add_gpus(self) -> None:
        speed = simgrid_speed(self.spec.gpu.speed_flop_per_s)
        for place in self.places:
            properties = {
                xml_names.ROLE_PROPERTY: "gpu",
                xml_names.DOMAIN_PROPERTY: str(place.domain),
                xml_names.POSITION_PROPERTY: str(place.position),
                xml_names.HOST_PROPERTY: str(place.host),
                xml_names.LEAF_PROPERTY: place.leaf,
                xml_names.POD_PROPERTY: str(place.pod),
            }
            if place.rack is not None:
                properties[xml_names.RACK_PROPERTY] = str(place.rack)
            _host(self.zone, place.name, speed, properties)

    def _add_nvlink(self) -> None:
        up = self.spec.scale_up
        if up.bandwidth_bytes_per_s is None or up.gpus_per_domain == 1:
            return
        for domain in range(up.domains):
            way_in, way_out = _nvswitch_ports(domain)
            self._router(way_in)
            self._router(way_out)
            # As wide as all ports together, so it limits no flow unless the file is edited.
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
            cable = self._way_to_leaf(place)
            if nic.pcie_bandwidth_bytes_per_s is not None:
                self._link(cable[0], nic.pcie_bandwidth_bytes_per_s, nic.pcie_latency_s)
            if place.index % nic.gpus_per_nic == 0:
                self._link(cable[-1], nic_bandwidth, nic_latency_s)
            self.routes.append(_route(place.name, place.leaf, cable, "UP"))
        trunks = topology.trunks(self.spec)
        below = dict.fromkeys(trunk.below for trunk in trunks)
        for switch in (*below, *self.top):
            self._router(switch)
        for trunk in trunks:
            latency_s = out.link_latency_s + out.switch_latency_s
            self._link(trunk.name, trunk.bandwidth_bytes_per_s, latency_s)
            self.routes.append(_route(trunk.below, trunk.above, [trunk.name], "UP"))

    def _add_disks(self) -> None:
        disk = self.spec.disk
        if disk is None or not self.spec.host.doors:
            return
        for place in self.places:
            reads, writes = (f"disk_{kind}-{place.host:05d}" for kind in ("read", "write"))
            if place.index % self.spec.gpus_per_host == 0:
                self._link(reads, disk.read_bandwidth_bytes_per_s, disk.latency_s, "SHARED")
                self._link(writes, disk.write_bandwidth_bytes_per_s, disk.latency_s, "SHARED")
            door = xml_names.disk(place.index)
            _host(self.zone, door, "1Gf", {xml_names.ROLE_PROPERTY: "disk"})
            way = self._way_to_host(place.index)
            for ends, cable, direction, shared in (
                ((place.name, door), [*way, writes], "UP", writes),
                ((door, place.name), [reads, *way], "DOWN", reads),
            ):
                self.routes.append(
                    _route(*ends, cable, direction, symmetrical=False, undirected=[shared])
                )

    def _way_to_leaf(self, place: topology.GpuPlace) -> list[str]:
        return [*self._way_to_host(place.index), f"nic-{place.nic:06d}"]

    def _way_to_host(self, index: int) -> list[str]:
        return [f"pcie-{index:06d}"] if self.spec.nic.pcie_bandwidth_bytes_per_s else []

    def _add_storage(self) -> None:
        storage = self.spec.storage
        name = xml_names.STORAGE_HOST
        _host(self.zone, name, "1Gf", {xml_names.ROLE_PROPERTY: "storage"})
        latency_s = storage.latency_s + self.spec.scale_out.switch_latency_s / 2
        # The whole cluster shares the storage, so a plane gets its part.
        planes = self.spec.gpus_per_rank
        self._link("storage-read", storage.read_bandwidth_bytes_per_s / planes, latency_s, "SHARED")
        self._link(
            "storage-write", storage.write_bandwidth_bytes_per_s / planes, latency_s, "SHARED"
        )
        client = self._storage_client()
        if storage.client_bandwidth_bytes_per_s is not None:
            # A fat pipe limits each transfer on its own.
            self._link(client[0], storage.client_bandwidth_bytes_per_s, 0.0, "FATPIPE")
        for top in self.top:
            self._one_way(name, top, *client, "storage-read")
            self._one_way(top, name, "storage-write", *client)

    def _storage_client(self) -> list[str]:
        capped = self.spec.storage.client_bandwidth_bytes_per_s is not None
        return ["storage-client"] if capped else []

    def _add_spine_routes(self) -> None:
        """Add a route for each pair of hosts if each flow takes a single spine.

        SimGrid finds a route of equal length over each spine. It takes the one added here because
        it finds that first, and replaces it only by one with fewer links.
        """
        if not self.spec.scale_out.keeps_flows_on_one_spine:
            return
        client = self._storage_client()
        from_storage = [(name, "") for name in (*client, "storage-read")]
        to_storage = [(name, "") for name in ("storage-write", *client)]
        for source, destination, number in spine_routes(self.spec):
            spine = xml_names.spine(number)
            ways_up, ways_down = from_storage, to_storage
            if source:
                ways_up = [(name, "UP") for name in self._way_to_spine(source, spine)]
            if destination:
                down = reversed(self._way_to_spine(destination, spine))
                ways_down = [(name, "DOWN") for name in down]
            ends = host_name(source), host_name(destination)
            self.routes.append(_flow_route(*ends, [*ways_up, *ways_down]))

    def _way_to_spine(self, place: topology.GpuPlace, spine: str) -> list[str]:
        return [*self._way_to_leaf(place), xml_names.spine_link(place.leaf, spine)]

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


_ORDER = ("prop", "host", "router", "link", "route")
"""The order in which SimGrid's parser needs the elements of a zone."""


def _add_memory_doors(
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
            zone.append(_link(bus, width, memory.memory_latency_s, "SHARED"))
        way = pcie
        if memory.link_bandwidth_bytes_per_s is not None:
            way = [f"hostlink-{number:06d}"]
            width, latency_s = memory.link_bandwidth_bytes_per_s, spec.nic.pcie_latency_s
            zone.append(_link(way[0], width, latency_s, "SPLITDUPLEX"))
        door = xml_names.memory(number)
        _host(zone, door, "1Gf", {xml_names.ROLE_PROPERTY: "memory"})
        ends = xml_names.gpu(number), door
        zone.append(_route(*ends, [*way, bus], "UP", undirected=[bus]))
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
    _add_memory_doors(zone, spec, gpus)
    return _document(root)


def _pcie_link(platform: Platform, gpu: str) -> list[str]:
    links = (name for _, cable in platform.edges[gpu] for name in cable)
    return next(([name] for name in links if xml_names.link_class(name) == "pcie"), [])


_HEADER = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
"""


def _document(platform: ET.Element) -> str:
    """Return the text of a platform file."""
    return _HEADER + ET.tostring(platform, encoding="unicode") + "\n"


def _host(zone: ET.Element, name: str, speed: str, properties: dict[str, str]) -> None:
    """Add a host to a zone."""
    element = ET.SubElement(zone, "host", id=name, speed=speed)
    for key, value in properties.items():
        ET.SubElement(element, "prop", id=key, value=value)


def _link(name: str, bandwidth_bytes_per_s: float, latency_s: float, sharing: str) -> ET.Element:
    """Return a link; bandwidth in bytes/s each way if it is split, latency in s."""
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
    undirected: Collection[str] = (),
) -> ET.Element:
    """Return a cable between two neighbours; it has both directions if it is symmetrical.

    `direction` (``UP``, ``DOWN``) is that of the split links from the source to the destination.
    `undirected` names the links of the cable that have no direction.
    """
    ways = [(name, "" if name in undirected else direction) for name in cable]
    return _flow_route(source, destination, ways, symmetrical)


def _flow_route(
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


def _add_ports(
    zone: ET.Element, links: list[ET.Element], routes: list[ET.Element], gpus: Iterable[str]
) -> None:
    """Add a path from each GPU of a fabric to the controller and back, for its messages only."""
    for router in (_INTO, _OUT_OF):
        ET.SubElement(zone, "router", id=router)
    links += [_link(name, _BANDWIDTH_BYTES_PER_S, 0.0, "FATPIPE") for name in (_PORTS, _DETOUR)]
    for gpu in gpus:
        routes.append(_route(gpu, _INTO, [_PORTS], symmetrical=False))
        routes.append(_route(_OUT_OF, gpu, [_PORTS], symmetrical=False))
    routes.append(_route(_INTO, _OUT_OF, [_DETOUR] * _DETOUR_LENGTH, symmetrical=False))


def _add_management(root: ET.Element) -> None:
    """Add the controller's zone, joined to the fabric by a gateway for each direction.

    A single gateway would be a shortcut of two links between any two GPUs.
    """
    zone = ET.SubElement(root, "zone", id=xml_names.MANAGEMENT_ZONE, routing="Full")
    controller = xml_names.CONTROLLER_HOST
    _host(zone, controller, "1Gf", {xml_names.ROLE_PROPERTY: "controller"})
    root.append(_link(_CONTROLLER_LINK, _BANDWIDTH_BYTES_PER_S, 0.0, "FATPIPE"))
    fabric, management = xml_names.FABRIC_ZONE, xml_names.MANAGEMENT_ZONE
    for source, destination, gateways in (
        (fabric, management, {"gw_src": _INTO, "gw_dst": controller}),
        (management, fabric, {"gw_src": controller, "gw_dst": _OUT_OF}),
    ):
        between = ET.SubElement(root, "zoneRoute", {"src": source, "dst": destination} | gateways)
        between.set("symmetrical", "NO")
        ET.SubElement(between, "link_ctn", id=_CONTROLLER_LINK)
