"""Read a platform file without SimGrid, and find what is wrong in it beforehand.

SimGrid ends the whole process at many mistakes, and at some it never ends. What `write_xml` writes,
edited or not, is understood here in full: zones of hosts, routers, links, cables, and routes over
cables of switches.
`check_in_simgrid` then asks SimGrid itself.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from faultline.platforms import xml_names
from faultline.platforms.errors import PlatformError
from faultline.platforms.files import read_file
from faultline.platforms.platform_data import GpuHost, Link, Platform
from faultline.platforms.units import exact_number
from faultline.platforms.xml_routes import RouteReader
from faultline.platforms.xml_tree import Element, check_elements, parse_xml

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(.*)", re.S)
_SI = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")

BANDWIDTH_UNITS: dict[str, Fraction] = {}
for _unit, _size in (("bps", Fraction(1, 8)), ("Bps", Fraction(1))):
    for _power in range(9):
        BANDWIDTH_UNITS[_SI[_power] + _unit] = _size * 1000**_power
        BANDWIDTH_UNITS[_BINARY[_power] + _unit] = _size * 1024**_power
TIME_UNITS = {
    "w": Fraction(604800),
    "d": Fraction(86400),
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
    "ps": Fraction(1, 10**12),
}
SPEED_UNITS = {prefix + "f": Fraction(1000**power) for power, prefix in enumerate(_SI)}


def parse_simgrid(text: str, units: dict[str, Fraction], example: str, where: str) -> float:
    """Read a number with one of SimGrid's units; zero needs none.

    Raises
    ------
    PlatformError
        No number, no unit, an unknown unit, or a negative value.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise PlatformError(f"{text!r} is no number with a unit: write it like {example}", where)
    number, unit = exact_number(match[1]), match[2]
    if number is None:
        raise PlatformError(f"{text!r} is out of range", where)
    if number < 0:
        raise PlatformError(f"{text!r} is negative", where)
    if unit == "" and number == 0:
        return 0.0
    if unit not in units:
        raise PlatformError(
            f"{text!r} has no unit that SimGrid knows: write it like {example}", where
        )
    return float(number * units[unit])


_MOST_DIGITS = 15
_LONGEST_NAME = 200
_SHARING = ("SHARED", "SPLITDUPLEX", "FATPIPE")
LARGEST_BYTES = 2**28
"""More than the XML of a million hosts has."""


def read_platform(path: str | Path) -> Platform:
    """Read a platform file.

    Raises
    ------
    PlatformError
        The file is missing, no XML, has no GPU hosts, or its routes do not hold together. The
        message is one line, and names the line of the file.
    """
    where = str(path)
    try:
        content = read_file(path, LARGEST_BYTES)
    except OSError as error:
        raise PlatformError(f"cannot be read: {error.strerror}", where) from None
    return platform_from_xml(content, where)


def platform_from_xml(content: bytes, where: str) -> Platform:
    """Read a platform from the content of a file; `where` is its name in error messages."""
    root = parse_xml(content, where)
    check_elements(root, where)
    return _Reader(where, root).platform()


class _Reader:
    """One pass over the elements of a file; keeps what has been seen."""

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
                "= gpu, or whose name starts with gpu-",
                self.where,
            )
        hosts = set(self.roles)
        gpu_names = {gpu.name for gpu in self.gpus}
        routes = RouteReader(self.where, self.root, self.links, hosts, gpu_names)
        edges, flow_routes = routes.edges()
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
        # Properties that make no sense show now and not in the middle of a run.
        _ = platform.gpus_per_rank, platform.spec
        return platform

    def _declarations(self) -> None:
        for zone in self.root.all("zone"):
            self._once(zone)
        for host in self.root.all("host"):
            self._once(host)
            self._host(host, host.attributes["id"])
        for router in self.root.all("router"):
            self._once(router)
            self.switches.append(router.attributes["id"])
        for link in self.root.all("link"):
            name = self._once(link)
            self.links[name] = self._link(link, name)

    def _place(self, element: Element) -> str:
        return f"{self.where}:{element.line}"

    def _once(self, element: Element) -> str:
        """Return the name of a declared thing, which nothing else of its kind may have."""
        name = element.attribute("id", self.where)
        if not 0 < len(name) <= _LONGEST_NAME:
            raise PlatformError(
                f"{element.tag} has a name of {len(name):,} letters: write 1 to {_LONGEST_NAME}",
                self._place(element),
            )
        # Hosts, routers and zones share one space of names in SimGrid, links have another.
        key = ("link" if element.tag == "link" else "point", name)
        if key in self.lines:
            raise PlatformError(
                f"{element.tag} {name!r} has the name of line {self.lines[key]} again",
                self._place(element),
            )
        self.lines[key] = element.line
        return name

    def _properties(self, element: Element) -> dict[str, str]:
        return {
            prop.attribute("id", self.where): prop.attribute("value", self.where)
            for prop in element.children
            if prop.tag == "prop"
        }

    def _host(self, element: Element, name: str) -> None:
        where = f"{self._place(element)}: host {name!r}"
        properties = self._properties(element)
        by_name = "gpu" if name.startswith("gpu-") else name
        role = properties.get(xml_names.ROLE_PROPERTY, by_name)
        self.roles[name] = role
        # A list holds the speeds of the host's power states; it starts in the first.
        text = element.attribute("speed", self.where).split(",")[0].strip()
        speed_flop_per_s = parse_simgrid(text, SPEED_UNITS, "989Tf", f"{where}: speed")
        if role != "gpu":
            return
        if speed_flop_per_s == 0:
            raise PlatformError("is zero: it would never compute anything", f"{where}: speed")
        self.gpus.append(
            GpuHost(
                name=name,
                speed_flop_per_s=speed_flop_per_s,
                domain=_whole(properties, xml_names.DOMAIN_PROPERTY, where),
                position=_whole(properties, xml_names.POSITION_PROPERTY, where),
                leaf=properties.get(xml_names.LEAF_PROPERTY, ""),
                pod=_whole(properties, xml_names.POD_PROPERTY, where),
                host=_whole(properties, xml_names.HOST_PROPERTY, where),
                rack=_whole(properties, xml_names.RACK_PROPERTY, where),
            )
        )

    def _link(self, element: Element, name: str) -> Link:
        where = f"{self._place(element)}: link {name!r}"
        text = element.attribute("bandwidth", self.where)
        bandwidth = parse_simgrid(text, BANDWIDTH_UNITS, "50GBps", f"{where}: bandwidth")
        if bandwidth == 0:
            raise PlatformError("is zero: nothing would ever arrive", f"{where}: bandwidth")
        latency_text = element.attributes.get("latency", "0")
        latency_s = parse_simgrid(latency_text, TIME_UNITS, "1us", f"{where}: latency")
        sharing = element.attributes.get("sharing_policy", "SHARED")
        if sharing not in _SHARING:
            raise PlatformError(
                f"sharing_policy is {sharing!r}: write one of {', '.join(_SHARING)}", where
            )
        return Link(name, bandwidth, latency_s, sharing)

    def _host_of_role(self, role: str) -> str | None:
        return next((name for name, of_host in self.roles.items() if of_host == role), None)


def _whole(properties: dict[str, str], key: str, where: str) -> int:
    text = properties.get(key)
    if text is None:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise PlatformError(f"property {key!r} is {text!r}: write a whole number", where)
    return int(text)
