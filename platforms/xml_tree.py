"""A small XML tree whose elements know their line, which the standard library's tree does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from faultline.platforms.errors import PlatformError


@dataclass
class Element:
    """An element: its tag, attributes, line in the file (from 1), and children."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def attribute(self, name: str, where: str) -> str:
        """Return an attribute that must be there; `where` is the file, for the error message."""
        if name not in self.attributes:
            raise PlatformError(f"<{self.tag}> has no {name!r}", f"{where}:{self.line}")
        return self.attributes[name]

    def all(self, tag: str) -> Iterator[Element]:
        """Yield every element of a tag below this one, in the order of the file."""
        for child in self.children:
            if child.tag == tag:
                yield child
            yield from child.all(tag)


def parse_xml(content: bytes) -> Element:
    """Parse an XML document and return its root.

    Raises
    ------
    xml.parsers.expat.ExpatError
        The document is not well-formed.
    """
    parser = expat.ParserCreate()
    document = Element("", {}, 0)
    open_elements = [document]

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes, parser.CurrentLineNumber)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def end(_tag: str) -> None:
        open_elements.pop()

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.Parse(content, True)
    return document.children[0]
