"""A small XML tree with line numbers, and the allowed elements of a platform file.

SimGrid's format can do more than describe a cluster. An option makes SimGrid write a file,
``<include>`` and availability files make it read one, and ``<actor>`` starts code. A file may come
from an untrusted source. So each element that is not listed here is refused before SimGrid loads
the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from faultline.platforms.errors import PlatformError, nearest
from faultline.platforms.network_model import ENGINE_CONFIGURATION

# SimGrid's parser ends the process at a depth of 1,000 elements.
_DEEPEST = 100
# The parser's buffer for the attributes of all open elements has a million bytes.
_LONGEST = 4_000
_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([^"']*)["']""")


@dataclass(slots=True)
class Element:
    """An element: its tag, attributes, file and line in it (from 1), and children."""

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    children: list[Element] = field(default_factory=list)

    @property
    def place(self) -> str:
        """The place of the element, for error messages."""
        return f"{self.file}:{self.line}"

    def attribute(self, name: str) -> str:
        """Return a required attribute."""
        if name not in self.attributes:
            raise PlatformError(f"<{self.tag}> has no {name!r}", self.place)
        return self.attributes[name]

    def walk(self) -> Iterator[Element]:
        """Yield this element and all below it, in the order of the file."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting += element.children[::-1]

    def all(self, tag: str) -> Iterator[Element]:
        """Yield every element of a tag, in the order of the file."""
        return (element for element in self.walk() if element.tag == tag)


Listed = Mapping[str, tuple[str, ...]]
"""Allowed children of each element; the key of the root is empty."""


def parse_xml(content: bytes, where: str, listed: Listed | None = None) -> Element:
    """Parse an XML document and return its root; by default, a platform of SimGrid.

    The document may have plain elements and attributes in UTF-8, of bounded depth and length,
    because SimGrid's parser reads these in the same way. Parsing stops at the first element that is
    not listed, so a large file of other elements takes no memory.
    """
    allowed = _INSIDE if listed is None else listed
    _check_encoding(content, where)
    parser = expat.ParserCreate("UTF-8")
    parser.buffer_text = True
    document = Element("", {}, where, 0)
    open_elements = [document]

    def refuse(what: str) -> NoReturn:
        raise PlatformError(what, f"{where}:{parser.CurrentLineNumber}")

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(open_elements) > _DEEPEST:
            refuse(f"elements are nested more than {_DEEPEST} deep: flatten them")
        inside = open_elements[-1].tag
        if tag not in allowed[inside]:
            refuse(_not_allowed(tag, inside, allowed[inside]))
        for name, value in attributes.items():
            if len(value) > _LONGEST:
                refuse(f"{name} has {len(value):,} characters: write at most {_LONGEST:,}")
            if not value.isprintable():
                refuse(f"{name} is {value!r}: remove unprintable characters")
        element = Element(tag, attributes, where, parser.CurrentLineNumber)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def end(_tag: str) -> None:
        open_elements.pop()

    def text(characters: str) -> None:
        if not characters.isspace():
            refuse(f"{characters.strip()[:20]!r} is between elements: write elements only")

    def document_type(_name: str, _system: str | None, _public: str | None, internal: bool) -> None:
        if internal:
            refuse("the document type has declarations: remove its [ ] part")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartCdataSectionHandler = lambda: refuse("<![CDATA[ is not allowed: remove it")
    parser.StartDoctypeDeclHandler = document_type
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise PlatformError(
            f"is not well-formed XML: {reason}", f"{where}:{error.lineno}"
        ) from None
    return document.children[0]


_REASONS = {
    "include": "it reads another file; copy its content to here",
    **dict.fromkeys(
        ("trace", "trace_connect"),
        "it changes the platform over time; remove it, and describe failures in the scenario",
    ),
    **dict.fromkeys(("actor", "process"), "it starts code; remove it"),
}


_TYPE = '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'


def check_document_type(content: bytes, where: str) -> None:
    """Refuse a file without the document type that SimGrid's parser needs."""
    if b"<!DOCTYPE platform" not in content:
        raise PlatformError(f"has no document type, which SimGrid needs: add {_TYPE}", f"{where}:2")


def _not_allowed(tag: str, inside: str, allowed: tuple[str, ...]) -> str:
    if tag in _REASONS:
        return f"<{tag}> is not allowed: {_REASONS[tag]}"
    listed = ", ".join(f"<{name}>" for name in allowed) or "nothing"
    if not inside:
        what = "a SimGrid platform" if allowed == _INSIDE[""] else "such a file"
        return f"starts with <{tag}>: {what} starts with {listed}"
    return f"<{tag}> is not allowed in <{inside}>: allowed are {listed}"


def _check_encoding(content: bytes, where: str) -> None:
    """Refuse a document that another parser may decode to other characters."""
    remedy = "save it as UTF-8 without a byte order mark"
    if content.startswith((b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")) or b"\0" in content[:64]:
        raise PlatformError(f"begins with a byte order mark, or is UTF-16: {remedy}", f"{where}:1")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PlatformError(f"is not UTF-8 text: {remedy}", f"{where}:{line}") from None
    declared = _ENCODING.match(content)
    if declared and declared[1].lower() not in (b"utf-8", b"us-ascii"):
        name = declared[1].decode("ascii", "replace")
        raise PlatformError(f"has the encoding {name!r}: {remedy}", f"{where}:1")


_INSIDE: Listed = {
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
_CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "platform": ("version", ("4", "4.0", "4.1")),
    "zone": ("routing", ("Full", "Dijkstra", "DijkstraCache")),
    "route": ("symmetrical", ("YES", "NO")),
    "zoneRoute": ("symmetrical", ("YES", "NO")),
}
PRECISIONS = ("precision/timing", "precision/work-amount")
_COARSEST = 1e-3
_MOST_CORES = 100_000


def check_elements(root: Element) -> None:
    """Refuse every attribute and option that is not on the list."""
    for element in root.walk():
        _check(element)
        if element.tag == "config":
            _check_options(element)


def _check(element: Element) -> None:
    tag, attributes, place = element.tag, element.attributes, element.place
    for name in attributes:
        if name not in _ATTRIBUTES[tag]:
            raise PlatformError(
                f"{name!r} of <{tag}> is not allowed{nearest(name, _ATTRIBUTES[tag])}: remove it; "
                f"allowed are {', '.join(_ATTRIBUTES[tag])}",
                place,
            )
    name, values = _CHOICES.get(tag, ("", ()))
    given = attributes.get(name)
    if given is None and tag in ("platform", "zone"):
        raise PlatformError(f"<{tag}> has no {name!r}: write one of {', '.join(values)}", place)
    if given is not None and given not in values:
        raise PlatformError(f"{name} is {given!r}: write one of {', '.join(values)}", place)
    cores = attributes.get("core", "1")
    if not (cores.isascii() and cores.isdigit() and 1 <= int(cores) <= _MOST_CORES):
        raise PlatformError(f"core is {cores!r}: write a whole number from 1", place)


def _check_options(config: Element) -> None:
    for option in config.children:
        name, value = (option.attribute(key) for key in ("id", "value"))
        place = f"{option.place}: option {name!r}"
        if name in PRECISIONS:
            check_precision(value, place)
        elif name not in ENGINE_CONFIGURATION:
            raise PlatformError(
                f"is not allowed: remove it; allowed are {', '.join(PRECISIONS)}", place
            )
        elif value != ENGINE_CONFIGURATION[name]:
            raise PlatformError(
                f"is {value!r}, but Faultline always uses {ENGINE_CONFIGURATION[name]}: remove it",
                place,
            )


def check_precision(text: str, place: str) -> None:
    """Refuse a precision of SimGrid that is no number, or too coarse."""
    try:
        is_fine = 0.0 < float(text) <= _COARSEST
    except ValueError:
        is_fine = False
    if not is_fine:
        raise PlatformError(f"is {text!r}: write a number above 0, at most {_COARSEST:g}", place)
