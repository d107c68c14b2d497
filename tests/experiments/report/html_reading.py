"""Reads a page as a program does: its tables, its text, what it would load."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

_WITHOUT_END = {"meta", "link", "img", "input", "br"}


@dataclass
class Document:
    """All text of a page but scripts, its tables, what it loads, and elements left open."""

    text: str = ""
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)
    identifiers: list[str] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)


def read_page(path: Path) -> Document:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    reader.document.unclosed += reader.open
    return reader.document


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.document = Document()
        self.open: list[str] = []
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        stated = {name: value or "" for name, value in attrs}
        if tag not in _WITHOUT_END:
            self.open.append(tag)
        self.document.loads += [stated[name] for name in ("src", "href") if name in stated]
        self.document.identifiers += [stated["id"]] if "id" in stated else []
        if tag == "table":
            self.rows = self.document.tables.setdefault(
                stated.get("id", f"table {len(self.document.tables)}"), []
            )
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.document.unclosed.append(tag)

    def handle_data(self, data: str) -> None:
        if {"script", "style"} & set(self.open):
            return
        self.document.text += data
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
