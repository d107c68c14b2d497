"""Read a platform file without SimGrid, and report its mistakes before SimGrid loads it.

SimGrid ends the whole process at many mistakes, and hangs at others. This reader accepts all
elements that `write_xml` writes: zones of hosts, routers, links, cables, and routes over cables of
switches. `load_in_simgrid` then loads the file in SimGrid. Files without the property that
`write_xml` writes are read by `foreign_reader`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from faultline.platforms import xml_names
from faultline.platforms.errors import PlatformError, nearest
from faultline.platforms.files import read_file
from faultline.platforms.kept_results import kept
from faultline.platforms.platform_data import GpuHost, Hop, Link, Platform, gpu_host
from faultline.platforms.units import (
    SIMGRID_BANDWIDTH,
    SIMGRID_SPEED,
    SIMGRID_TIME,
    parse_quantity,
)
from faultline.platforms.xml_tree import Element, check_elements, parse_xml

_LONGEST_NAME = 200
_SHARING = ("SHARED", "SPLITDUPLEX", "FATPIPE")
LARGEST_BYTES = 2**28
"""More than the XML of a million hosts."""


_STAMP = f'"{xml_names.VERSION_PROPERTY}"'.encode()


def read_platform(
    path: str | Path, gpu_hosts: str | None = None, *, gpus_needed: bool = True
) -> Platform:
    """Read a platform file.

    Parameters
    ----------
    path
        The file.
    gpu_hosts
        Shell pattern of the names of GPU hosts, of a file that Faultline did not write.
    gpus_needed
        Whether such a file is refused if it has no GPUs.

    Raises
    ------
    PlatformError
        The file is missing or no XML, has no GPU hosts, or its routes are inconsistent. The
        message names the line of the file.
    """
    where = str(path)
    try:
        content = read_file(path, LARGEST_BYTES)
    except OSError as error:
        raise PlatformError(f"cannot be read: {error.strerror}", where) from None
    if _STAMP not in content:
        # This imports the code that starts SimGrid.
        from faultline.platforms.foreign_reader import read_foreign

        return read_foreign(content, where, gpu_hosts, gpus_needed=gpus_needed)
    if gpu_hosts is not None:
        raise PlatformError(
            f"is a file of Faultline, which names its GPUs: leave out the pattern {gpu_hosts!r}",
            where,
        )
    return platform_from_xml(content, where)


def platform_at(path: Path) -> Platform:
    """Read a platform; one that has not changed is kept, since a large one takes a second."""
    return _platform_as_of(path, content_digest(path))


@lru_cache(maxsize=8)
def _platform_as_of(path: Path, content: str) -> Platform:
    return replace(kept("platform", content, partial(read_platform, path)), path=path)


def content_digest(path: Path) -> str:
    """Return a digest of a file, which is read again only if it has changed."""
    status = path.stat()
    return _digest(path, (status.st_mtime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=16)
def _digest(path: Path, _stamp: tuple[int, int, int]) -> str:
    return hashlib.sha256(read_file(path, LARGEST_BYTES)).hexdigest()


def platform_from_xml(content: bytes, where: str) -> Platform:
    """Read a platform from the content of a file; `where` is its name in error messages."""
    root = parse_xml(content, where)
    check_elements(root)
    return _Reader(where, root).platform()


class _Reader:
    """One pass over the elements of a file."""

    def __init__(self, where: str, root: Element) -> None:
        self.where = where
        self.root = root
        self.gpus: list[GpuHost] = []
        self.roles: dict[str, str] = {}
        self.switches: list[str] = []
        self.links: dict[str, Link] = {}
        self.lines: dict[tuple[str, str], int] = {}

    def platform(self) -> Platform:
        """Return the platform, after all checks."""
        root_zone = next((child for child in self.root.children if child.tag == "zone"), None)
        if root_zone is None:
            raise PlatformError("has no <zone>", self.where)
        self._declarations()
        if not self.gpus:
            raise PlatformError(
                f"has no GPU hosts: a GPU is a <host> with the property {xml_names.ROLE_PROPERTY} "
                "= gpu",
                self.where,
            )
        edges, flow_routes = _RouteReader(self).edges()
        platform = Platform(
            path=Path(self.where),
            gpus=tuple(sorted(self.gpus, key=lambda gpu: gpu.name)),
            switches=tuple(self.switches),
            links=self.links,
            storage=self._host_of_role("storage"),
            controller=self._host_of_role("controller"),
            properties=self._properties(root_zone),
            edges=edges,
            flow_routes=flow_routes,
            roles=self.roles,
        )
        # Check the properties now, not during a run.
        _ = platform.gpus_per_rank, platform.spec
        return platform

    def _declarations(self) -> None:
        for zone in self.root.all("zone"):
            self._unique_name(zone)
        for host in self.root.all("host"):
            self._host(host, self._unique_name(host))
        for router in self.root.all("router"):
            self.switches.append(self._unique_name(router))
        for link in self.root.all("link"):
            name = self._unique_name(link)
            self.links[name] = self._link(link, name)

    def _unique_name(self, element: Element) -> str:
        """Return the name of a declared element, which must be unique among its kind."""
        name = element.attribute("id")
        if not 0 < len(name) <= _LONGEST_NAME:
            raise PlatformError(
                f"{element.tag} has a name of {len(name):,} letters: write 1 to {_LONGEST_NAME}",
                element.place,
            )
        # Hosts, routers and zones share one name space in SimGrid; links have another.
        key = ("link" if element.tag == "link" else "point", name)
        if key in self.lines:
            raise PlatformError(
                f"{element.tag} {name!r} repeats the name of line {self.lines[key]}",
                element.place,
            )
        self.lines[key] = element.line
        return name

    def _properties(self, element: Element) -> dict[str, str]:
        return {
            prop.attribute("id"): prop.attribute("value")
            for prop in element.children
            if prop.tag == "prop"
        }

    def _host(self, element: Element, name: str) -> None:
        where = f"{element.place}: host {name!r}"
        properties = self._properties(element)
        role = properties.get(xml_names.ROLE_PROPERTY, name)
        self.roles[name] = role
        text = element.attribute("speed")
        speed_flop_per_s = parse_quantity(text, SIMGRID_SPEED, f"{where}: speed")
        if role != "gpu":
            return
        self.gpus.append(gpu_host(name, speed_flop_per_s, properties, where))

    def _link(self, element: Element, name: str) -> Link:
        where = f"{element.place}: link {name!r}"
        text = element.attribute("bandwidth")
        bandwidth = parse_quantity(text, SIMGRID_BANDWIDTH, f"{where}: bandwidth")
        if bandwidth == 0:
            raise PlatformError("is zero: nothing would ever arrive", f"{where}: bandwidth")
        latency_text = element.attributes.get("latency", "0")
        latency_s = parse_quantity(latency_text, SIMGRID_TIME, f"{where}: latency")
        sharing = element.attributes.get("sharing_policy", "SHARED")
        if sharing not in _SHARING:
            raise PlatformError(
                f"sharing_policy is {sharing!r}: write one of {', '.join(_SHARING)}", where
            )
        return Link(name, bandwidth, latency_s, sharing)

    def _host_of_role(self, role: str) -> str | None:
        return next((name for name, its_role in self.roles.items() if its_role == role), None)


_DIRECTIONS = ("UP", "DOWN", "NONE")
_Graph = dict[str, list[str]]
_Hops = dict[str, tuple[Hop, ...]]


class _RouteReader:
    """Reads the routes of all zones, checks them, and converts them to a graph."""

    def __init__(self, declared: _Reader) -> None:
        self.root, self.links = declared.root, declared.links
        self.hosts = set(declared.roles)
        self.gpus = {gpu.name for gpu in declared.gpus}
        self._edges: dict[str, list[Hop]] = {}
        self._lines: dict[tuple[str, str], int] = {}

    def edges(self) -> tuple[_Hops, _Hops]:
        """Return the neighbours of every host and router with the cables to them, and flow routes.

        A route between two hosts is a flow route if all its links are on cables of switches. It
        then selects the cables of the flows between the two hosts.
        """
        for zone in self.root.all("zone"):
            self._zone(zone)
        at_switches = {
            link
            for name, hops in self._edges.items()
            for neighbour, cable in hops
            if not {name, neighbour} <= self.hosts
            for link in cable
        }
        cables: dict[str, list[Hop]] = {name: [] for name in self._edges}
        flow_routes: dict[str, list[Hop]] = {}
        for name, hops in self._edges.items():
            for hop in hops:
                if {name, hop[0]} <= self.hosts and at_switches.issuperset(hop[1]):
                    flow_routes.setdefault(name, []).append(hop)
                else:
                    cables[name].append(hop)
        return _as_tuples(cables), _as_tuples(flow_routes)

    def _zone(self, zone: Element) -> None:
        points = {
            child.attribute("id"): child
            for child in zone.children
            if child.tag in ("host", "router")
        }
        forwards: _Graph = {name: [] for name in points}
        backwards: _Graph = {name: [] for name in points}
        for route in zone.children:
            if route.tag != "route":
                continue
            source, destination = (route.attribute(end) for end in ("src", "dst"))
            for name in (source, destination):
                if name not in points:
                    raise PlatformError(
                        f"route names {name!r}, which is not a host or router of zone "
                        f"{zone.attributes.get('id')!r}{nearest(name, points)}",
                        route.place,
                    )
            cable = self._cable(route)
            ways = [(source, destination, cable)]
            if route.attributes.get("symmetrical", "YES").upper() != "NO":
                ways.append((destination, source, cable[::-1]))
            for start, end, links in ways:
                self._edge(start, end, links, route)
                forwards[start].append(end)
                backwards[end].append(start)
        if zone.attributes.get("routing", "").startswith("Dijkstra"):
            self._connected(points, forwards, backwards)

    def _edge(self, source: str, destination: str, cable: tuple[str, ...], route: Element) -> None:
        # Some routers have thousands of cables, so a search in `_edges` would be slow.
        if (source, destination) in self._lines:
            line = self._lines[source, destination]
            raise PlatformError(
                f"route from {source!r} to {destination!r} exists already, in line {line}",
                route.place,
            )
        self._lines[source, destination] = route.line
        self._edges.setdefault(source, []).append((destination, cable))
        self._edges.setdefault(destination, [])

    def _cable(self, route: Element) -> tuple[str, ...]:
        containers = [child for child in route.children if child.tag == "link_ctn"]
        if not containers:
            raise PlatformError("route has no links: it needs a <link_ctn>", route.place)
        names = []
        for container in containers:
            name = container.attribute("id")
            place = container.place
            if name not in self.links:
                hint = nearest(name, self.links)
                raise PlatformError(f"route has an unknown link {name!r}{hint}", place)
            direction = container.attributes.get("direction", "NONE")
            if direction not in _DIRECTIONS:
                raise PlatformError(f"direction is {direction!r}: write UP or DOWN", place)
            sharing = self.links[name].sharing
            if sharing == "SPLITDUPLEX" and direction == "NONE":
                raise PlatformError(
                    f'link {name!r} has two directions: write direction="UP" or "DOWN"', place
                )
            if sharing != "SPLITDUPLEX" and direction != "NONE":
                raise PlatformError(
                    f"link {name!r} is {sharing} and has no directions: remove direction", place
                )
            names.append(name)
        return tuple(names)

    def _connected(
        self, points: Mapping[str, Element], forwards: _Graph, backwards: _Graph
    ) -> None:
        """Check that each host and router can reach all others.

        SimGrid's Dijkstra crashes at a host without a cable. It hangs if the source cannot reach
        each router.
        """
        if not points:
            return
        start = next((name for name in points if name in self.gpus), next(iter(points)))
        for graph, message in (
            (forwards, "no route leads from {start!r} to {name!r}"),
            (backwards, "no route leads from {name!r} to {start!r}"),
        ):
            reached = _reachable(graph, start)
            for name, element in points.items():
                if name not in reached:
                    what = message.format(start=start, name=name)
                    raise PlatformError(f"{what}: add the missing <route>", element.place)


def _as_tuples(hops_of: Mapping[str, list[Hop]]) -> _Hops:
    return {name: tuple(hops) for name, hops in hops_of.items()}


def _reachable(graph: _Graph, start: str) -> set[str]:
    seen = {start}
    stack = [start]
    while stack:
        for neighbour in graph[stack.pop()]:
            if neighbour not in seen:
                seen.add(neighbour)
                stack.append(neighbour)
    return seen
