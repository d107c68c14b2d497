"""Pages are read by a Markdown parser: each table is one table, and each fence is closed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.docs.pages import PAGES

PARSER = MarkdownIt("commonmark").enable("table")


def faults(text: str) -> Iterator[str]:
    """Yield the lines that a reader would see as Markdown instead of a table or a block."""
    lines, tokens = text.splitlines(), PARSER.parse(text)
    for place, token in enumerate(tokens):
        first, end = token.map or (0, 0)
        where = f"line {first + 1}"
        if token.type == "paragraph_open":
            content = tokens[place + 1].content
            if re.search(r"^\s*\|", content, re.MULTILINE):
                yield f"{where}: a row outside of a table"
            if re.search(r"^\s*(```|~~~)", content, re.MULTILINE):
                yield f"{where}: a fence outside of a block"
        elif token.type == "fence":
            if lines[end - 1].strip() != token.markup or end - first < 2:
                yield f"{where}: the block is not closed"
            if re.search(rf"^\s*{token.markup}", token.content, re.MULTILINE):
                yield f"{where}: a fence inside of the block"
        elif token.type == "table_open":
            yield from _uneven_rows(lines, token)


def _uneven_rows(lines: list[str], table: Token) -> Iterator[str]:
    """Yield rows with more or fewer cells than the head: a parser drops and adds cells."""
    first, end = table.map or (0, 0)
    counts = [len(re.findall(r"(?<!\\)\|", line.strip().strip("|"))) for line in lines[first:end]]
    for number, count in enumerate(counts, first + 1):
        if count != counts[0]:
            yield f"line {number}: {count + 1} cells below {counts[0] + 1}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_tables_and_blocks_of_a_page_are_whole(path: Path) -> None:
    assert list(faults(path.read_text(encoding="utf-8"))) == []
