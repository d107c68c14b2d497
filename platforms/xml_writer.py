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
from functools import partial
from pathlib import Path

from faultline.platforms import topology, xml_names
from faultline.platforms.errors import PlatformError
from faultline.platforms.files import write_file
from faultline.platforms.kept_results import kept
from faultline.platforms.management_network import add_management, add_ports
from faultline.platforms.memory_doors import add_memory_doors
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_file import spec_properties
from faultline.platforms.topology import host_name, spine_routes
from faultline.platforms.units import simgrid_speed
from faultline.platforms.xml_elements import add_host, document, flow_route, link, route


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
    return kept("text", spec, partial(_xml_text, spec))


def _xml_text(spec: ClusterSpec) -> str:
    platform = ET.Element("platform", version="4.1")
    root = ET.SubElement(platform, "zone", id=xml_names.ROOT_ZONE, routing="Full")
    for key, value in spec_properties(spec):
        ET.SubElement(root, "prop", id=key, value=value)
    root.append(_Fabric(spec).zone)
    add_management(root)
    ET.indent(platform, space=" ")
    return document(platform)


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
        add_ports(self.zone, self.links, self.routes, [place.name for place in self.places])
        self._add_spine_routes()
        self.zone.extend(self.links)
        self.zone.extend(self.routes)
        if spec.host.doors:
            gpus = ((gpu.index, gpu.host, self._way_to_host(gpu.index)) for gpu in self.places)
            add_memory_doors(self.zone, spec, gpus)

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
            add_host(self.zone, place.name, speed, properties)

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
            self.routes.append(route(place.name, way_in, [name], "UP", symmetrical=False))
            self.routes.append(route(way_out, place.name, [name], "DOWN", symmetrical=False))

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
            self.routes.append(route(place.name, place.leaf, cable, "UP"))
        trunks = topology.trunks(self.spec)
        below = dict.fromkeys(trunk.below for trunk in trunks)
        for switch in (*below, *self.top):
            self._router(switch)
        for trunk in trunks:
            latency_s = out.link_latency_s + out.switch_latency_s
            self._link(trunk.name, trunk.bandwidth_bytes_per_s, latency_s)
            self.routes.append(route(trunk.below, trunk.above, [trunk.name], "UP"))

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
            add_host(self.zone, door, "1Gf", {xml_names.ROLE_PROPERTY: "disk"})
            way = self._way_to_host(place.index)
            for ends, cable, direction, shared in (
                ((place.name, door), [*way, writes], "UP", writes),
                ((door, place.name), [reads, *way], "DOWN", reads),
            ):
                self.routes.append(
                    route(*ends, cable, direction, symmetrical=False, undirected=[shared])
                )

    def _way_to_leaf(self, place: topology.GpuPlace) -> list[str]:
        return [*self._way_to_host(place.index), f"nic-{place.nic:06d}"]

    def _way_to_host(self, index: int) -> list[str]:
        return [f"pcie-{index:06d}"] if self.spec.nic.pcie_bandwidth_bytes_per_s else []

    def _add_storage(self) -> None:
        storage = self.spec.storage
        name = xml_names.STORAGE_HOST
        add_host(self.zone, name, "1Gf", {xml_names.ROLE_PROPERTY: "storage"})
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
            self.routes.append(flow_route(*ends, [*ways_up, *ways_down]))

    def _way_to_spine(self, place: topology.GpuPlace, spine: str) -> list[str]:
        return [*self._way_to_leaf(place), xml_names.spine_link(place.leaf, spine)]

    def _router(self, name: str) -> None:
        ET.SubElement(self.zone, "router", id=name)

    def _link(
        self, name: str, bandwidth: float, latency_s: float, sharing: str = "SPLITDUPLEX"
    ) -> None:
        self.links.append(link(name, bandwidth, latency_s, sharing))

    def _one_way(self, source: str, destination: str, *cable: str) -> None:
        self.routes.append(route(source, destination, list(cable), symmetrical=False))


def _nvswitch_ports(domain: int) -> tuple[str, str]:
    """Return the two routers of a domain's NVSwitch, before and behind its crossbar."""
    return f"nvswitch-{domain:05d}-in", f"nvswitch-{domain:05d}-out"
