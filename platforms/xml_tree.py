"""A small XML tree with line numbers, and the allowed elements of a platform file.

SimGrid's format can do more than describe a cluster. An option makes SimGrid write a file,
``<include>`` and availability files make it read one, and ``<actor>`` starts code. So each element,
attribute and option that is not listed here is refused before SimGrid loads the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from faultline.platforms.errors import PlatformError, nearest
from faultline.platforms.network_model import ENGINE_CONFIGURATION


@dataclass(slots=True)
class Element:
    """An element: its tag, attributes, line in the file (from 1), and children."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def attribute(self, name: str, where: str) -> str:
        """Return a required attribute; `where` is the file, for the error message."""
        if name not in self.attributes:
            raise PlatformError(f"<{self.tag}> has no {name!r}", f"{where}:{self.line}")
        return self.attributes[name]

    def all(self, tag: str) -> Iterator[Element]:
        """Yield every element of a tag below this one, in the order of the file."""
        waiting = self.children[::-1]
        while waiting:
            element = waiting.pop()
            if element.tag == tag:
                yield element
            waiting += element.children[::-1]


_INSIDE: dict[str, tuple[str, ...]] = {
    "": ("platform",),
    "platform": ("config", "zone"),
    "config": ("prop",),
    "zone": ("prop", "zone", "host", "router", "link", "route", "zoneRoute"),
    "host": ("prop",),
    "router": ("prop",),
    "link": ("prop",),
    "route": ("link_ctn",),
    "zoneRoute": ("link_ctn",),
    "prop": (),
    "link_ctn": (),
}
"""Allowed children of each element; the key of the root is empty."""

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
_CHOICES = {
    ("platform", "version"): ("4", "4.0", "4.1"),
    ("zone", "routing"): ("Full", "Dijkstra", "DijkstraCache"),
    ("route", "symmetrical"): ("YES", "NO"),
    ("zoneRoute", "symmetrical"): ("YES", "NO"),
}
_REQUIRED = ("version", "routing")


def parse_xml(content: bytes, where: str) -> Element:
    """Parse a platform of SimGrid and return its root.

    Raises
    ------
    PlatformError
        The document is not well-formed, or has an element, attribute or option that is not allowed.
        The message names the line and the allowed ones.
    """
    parser = expat.ParserCreate("UTF-8")
    document = Element("", {}, 0)
    open_elements = [document]

    def start(tag: str, attributes: dict[str, str]) -> None:
        outer = open_elements[-1]
        element = Element(tag, attributes, parser.CurrentLineNumber)
        _check(element, outer.tag, f"{where}:{element.line}")
        if outer.tag == "config":
            _check_option(element, where)
        outer.children.append(element)
        open_elements.append(element)

    def end(_tag: str) -> None:
        open_elements.pop()

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise PlatformError(f"is no well-formed XML: {reason}", f"{where}:{error.lineno}") from None
    return document.children[0]


def _check(element: Element, inside: str, place: str) -> None:
    """Refuse an element or an attribute that is not on the list."""
    tag, attributes = element.tag, element.attributes
    if tag not in _INSIDE[inside]:
        known = ", ".join(f"<{one}>" for one in _INSIDE[inside]) or "nothing"
        what = f"<{tag}> is not allowed in <{inside}>: allowed are {known}"
        if not inside:
            what = f"starts with <{tag}>: a SimGrid platform starts with {known}"
        raise PlatformError(what, place)
    for name in attributes:
        if name not in _ATTRIBUTES[tag]:
            raise PlatformError(
                f"{name!r} of <{tag}> is not allowed{nearest(name, _ATTRIBUTES[tag])}: remove it; "
                f"allowed are {', '.join(_ATTRIBUTES[tag])}",
                place,
            )
    for name in _ATTRIBUTES[tag]:
        values = _CHOICES.get((tag, name))
        if values is None or (name not in attributes and name not in _REQUIRED):
            continue
        if name not in attributes:
            raise PlatformError(f"<{tag}> has no {name!r}: write one of {', '.join(values)}", place)
        if attributes[name] not in values:
            what = f"{name} is {attributes[name]!r}: write one of {', '.join(values)}"
            raise PlatformError(what, place)


_PRECISIONS = ("precision/timing", "precision/work-amount")
_COARSEST = 1e-3


def _check_option(option: Element, where: str) -> None:
    name, value = (option.attribute(key, where) for key in ("id", "value"))
    place = f"{where}:{option.line}: option {name!r}"
    if name in _PRECISIONS:
        if not _is_precision(value):
            what = f"is {value!r}: write a number above 0, at most {_COARSEST:g}"
            raise PlatformError(what, place)
    elif name not in ENGINE_CONFIGURATION:
        what = f"is not allowed: remove it; allowed are {', '.join(_PRECISIONS)}"
        raise PlatformError(what, place)
    elif value != ENGINE_CONFIGURATION[name]:
        what = f"is {value!r}, but Faultline always uses {ENGINE_CONFIGURATION[name]}: remove it"
        raise PlatformError(what, place)


def _is_precision(text: str) -> bool:
    try:
        return 0.0 < float(text) <= _COARSEST
    except ValueError:
        return False
