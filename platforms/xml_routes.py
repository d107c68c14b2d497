"""The routes of a platform file: checked, and turned into a graph."""

from __future__ import annotations

from collections.abc import Mapping, Set

from faultline.platforms.errors import PlatformError, nearest
from faultline.platforms.platform_data import Hop, Link
from faultline.platforms.xml_tree import Element

_DIRECTIONS = ("UP", "DOWN", "NONE")
_Graph = dict[str, list[str]]
_Hops = dict[str, tuple[Hop, ...]]


class RouteReader:
    """Reads the routes of all zones; links and hosts are known already."""

    def __init__(
        self,
        where: str,
        root: Element,
        links: Mapping[str, Link],
        hosts: Set[str],
        gpus: Set[str],
    ) -> None:
        self.where = where
        self.root = root
        self.links = links
        self.hosts = hosts
        self.gpus = gpus
        self._edges: dict[str, list[Hop]] = {}
        self._lines: dict[tuple[str, str], int] = {}

    def edges(self) -> tuple[_Hops, _Hops]:
        """Return the neighbours of every host and router with the cables to them, and flow routes.

        A route between two hosts all of whose links are on cables of switches is no cable of its
        own: it says which of them the flows between the two take.

        Raises
        ------
        PlatformError
            A route names what is not there, or a host or router is left without one.
        """
        for zone in self.root.all("zone"):
            self._zone(zone)
        self._zone_routes()
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
        return _fixed(cables), _fixed(flow_routes)

    def _place(self, element: Element) -> str:
        return f"{self.where}:{element.line}"

    def _zone(self, zone: Element) -> None:
        points = {
            child.attribute("id", self.where): child
            for child in zone.children
            if child.tag in ("host", "router")
        }
        forwards: _Graph = {name: [] for name in points}
        backwards: _Graph = {name: [] for name in points}
        for route in zone.children:
            if route.tag != "route":
                continue
            source, destination = (route.attribute(end, self.where) for end in ("src", "dst"))
            for end in (source, destination):
                if end not in points:
                    raise PlatformError(
                        f"route names {end!r}, which is no host or router of zone "
                        f"{zone.attributes.get('id')!r}{nearest(end, points)}",
                        self._place(route),
                    )
            cable = self._cable(route)
            ways = [(source, destination, cable)]
            if route.attributes.get("symmetrical", "YES").upper() != "NO":
                ways.append((destination, source, cable[::-1]))
            for one_end, other_end, links in ways:
                self._edge(one_end, other_end, links, route)
                forwards[one_end].append(other_end)
                backwards[other_end].append(one_end)
        if zone.attributes.get("routing", "").startswith("Dijkstra"):
            self._connected(points, forwards, backwards)
        else:
            self._complete(points, forwards, zone)

    def _complete(self, points: Mapping[str, Element], forwards: _Graph, zone: Element) -> None:
        """Check that each host has a route to each other, where SimGrid puts none together."""
        hosts = [name for name in points if name in self.hosts]
        for source in hosts:
            there = {source, *forwards[source]}
            missing = next((name for name in hosts if name not in there), None)
            if missing is not None:
                raise PlatformError(
                    f"zone {zone.attributes['id']!r} has routing Full and no route from "
                    f"{source!r} to {missing!r}: add it, or write DijkstraCache",
                    self._place(zone),
                )

    def _edge(self, source: str, destination: str, cable: tuple[str, ...], route: Element) -> None:
        # Some routers have thousands of cables: duplicates are found in a table of their own.
        if (source, destination) in self._lines:
            line = self._lines[source, destination]
            raise PlatformError(
                f"route from {source!r} to {destination!r} is there already, in line {line}",
                self._place(route),
            )
        self._lines[source, destination] = route.line
        self._edges.setdefault(source, []).append((destination, cable))
        self._edges.setdefault(destination, [])

    def _cable(self, route: Element) -> tuple[str, ...]:
        containers = [child for child in route.children if child.tag == "link_ctn"]
        if not containers:
            raise PlatformError("route has no links: it needs a <link_ctn>", self._place(route))
        names = []
        for container in containers:
            name = container.attribute("id", self.where)
            place = self._place(container)
            if name not in self.links:
                hint = nearest(name, self.links)
                raise PlatformError(f"route takes link {name!r}, which is not there{hint}", place)
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
                    f"link {name!r} is {sharing} and has no directions: leave it out", place
                )
            names.append(name)
        return tuple(names)

    def _connected(
        self, points: Mapping[str, Element], forwards: _Graph, backwards: _Graph
    ) -> None:
        """Check that everything reaches everything.

        SimGrid's Dijkstra crashes at a host without a cable, and never ends if the source does not
        reach every router.
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
                    raise PlatformError(f"{what}: add the missing <route>", self._place(element))

    def _zone_routes(self) -> None:
        zones = {zone.attributes.get("id", "") for zone in self.root.all("zone")}
        routers = {router.attributes.get("id", "") for router in self.root.all("router")}
        points = self.hosts | routers
        for route in self.root.all("zoneRoute"):
            self._cable(route)
            for end, known in (
                ("src", zones),
                ("dst", zones),
                ("gw_src", points),
                ("gw_dst", points),
            ):
                name = route.attribute(end, self.where)
                if name not in known:
                    raise PlatformError(
                        f"zoneRoute names {name!r} as {end}, which is not there"
                        f"{nearest(name, known)}",
                        self._place(route),
                    )


def _fixed(hops_of: Mapping[str, list[Hop]]) -> _Hops:
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
