"""What may stand in a platform file: all that Faultline understands, and nothing else.

SimGrid's own language can do more than describe a cluster. An option names a file that SimGrid
writes, ``<include>`` and the files of availability one that it reads, and ``<actor>`` starts what
nobody asked for. A file may come from anybody, so whatever is not listed here is refused before
SimGrid sees it.
"""

from __future__ import annotations

from faultline.platforms.errors import PlatformError, nearest
from faultline.platforms.network_model import ENGINE_CONFIGURATION
from faultline.platforms.xml_tree import Element

_POINT = ("prop",)
_WAY = ("link_ctn",)
_INSIDE: dict[str, tuple[str, ...]] = {
    "platform": ("config", "zone"),
    "config": ("prop",),
    "zone": ("prop", "zone", "host", "router", "link", "route", "zoneRoute"),
    "host": _POINT,
    "router": _POINT,
    "link": _POINT,
    "route": _WAY,
    "zoneRoute": _WAY,
    "prop": (),
    "link_ctn": (),
}
_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "platform": ("version",),
    "config": ("id",),
    "zone": ("id", "routing"),
    "host": ("id", "speed", "core"),
    "router": ("id",),
    "link": ("id", "bandwidth", "latency", "sharing_policy"),
    "route": ("src", "dst", "symmetrical"),
    "zoneRoute": ("src", "dst", "gw_src", "gw_dst", "symmetrical"),
    "prop": ("id", "value"),
    "link_ctn": ("id", "direction"),
}
_VERSIONS = ("4", "4.0", "4.1")
_ROUTINGS = ("Full", "Dijkstra", "DijkstraCache")
_PRECISIONS = ("precision/timing", "precision/work-amount")
_COARSEST = 1e-3
_MOST_CORES = 100_000


def check_elements(root: Element, where: str) -> None:
    """Refuse every element, attribute and option that is not on the list.

    Raises
    ------
    PlatformError
        Names the first one with its line, and what may stand in its place.
    """
    if root.tag != "platform":
        raise PlatformError(
            f"starts with <{root.tag}>: a SimGrid platform starts with <platform>", where
        )
    waiting = [root]
    while waiting:
        element = waiting.pop()
        _check(element, f"{where}:{element.line}")
        for child in element.children:
            if child.tag not in _INSIDE[element.tag]:
                known = ", ".join(f"<{tag}>" for tag in _INSIDE[element.tag]) or "nothing"
                raise PlatformError(
                    f"<{child.tag}> is not understood in <{element.tag}>: what may stand there is "
                    f"{known}",
                    f"{where}:{child.line}",
                )
        if element.tag == "config":
            _check_options(element, where)
        waiting.extend(reversed(element.children))


def _check(element: Element, place: str) -> None:
    tag, attributes = element.tag, element.attributes
    for name in attributes:
        if name not in _ATTRIBUTES[tag]:
            raise PlatformError(
                f"{name!r} of <{tag}> is not understood{nearest(name, _ATTRIBUTES[tag])}: leave it "
                f"out; known are {', '.join(_ATTRIBUTES[tag])}",
                place,
            )
    choices = {
        "platform": ("version", _VERSIONS),
        "zone": ("routing", _ROUTINGS),
        "route": ("symmetrical", ("YES", "NO")),
        "zoneRoute": ("symmetrical", ("YES", "NO")),
    }
    name, values = choices.get(tag, ("", ()))
    given = attributes.get(name)
    if given is None and tag in ("platform", "zone"):
        raise PlatformError(f"<{tag}> has no {name!r}: write one of {', '.join(values)}", place)
    if given is not None and given not in values:
        raise PlatformError(f"{name} is {given!r}: write one of {', '.join(values)}", place)
    cores = attributes.get("core", "1")
    if not (cores.isascii() and cores.isdigit() and 1 <= int(cores) <= _MOST_CORES):
        raise PlatformError(f"core is {cores!r}: write a whole number from 1", place)


def _check_options(config: Element, where: str) -> None:
    for option in config.children:
        name, value = (option.attribute(key, where) for key in ("id", "value"))
        place = f"{where}:{option.line}: option {name!r}"
        if name in _PRECISIONS:
            if not _is_precision(value):
                raise PlatformError(
                    f"is {value!r}: write a number above 0, at most {_COARSEST:g}", place
                )
        elif name not in ENGINE_CONFIGURATION:
            raise PlatformError(
                f"is not allowed: leave it out; allowed are {', '.join(_PRECISIONS)}", place
            )
        elif value != ENGINE_CONFIGURATION[name]:
            raise PlatformError(
                f"is {value!r}, and {ENGINE_CONFIGURATION[name]} in every simulation of Faultline: "
                "leave it out",
                place,
            )


def _is_precision(text: str) -> bool:
    try:
        return 0.0 < float(text) <= _COARSEST
    except ValueError:
        return False
