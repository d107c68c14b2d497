"""The fenced blocks and commands of the documentation's pages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from faultline.experiments.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Snippet(NamedTuple):
    """A fenced block, or a command in one, with its place for the name of a test."""

    place: str
    language: str
    text: str


def snippets(language: str | None = None) -> Iterator[Snippet]:
    """Yield all fenced blocks, or those of one language."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in _FENCED.finditer(text):
            if language in (None, block[1]):
                line = text.count("\n", 0, block.start()) + 1
                yield Snippet(f"{page.name}:{line}", block[1], block[2])


def page(name: str) -> str:
    """Return the text of a page."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """Return the fenced blocks of a page in one language."""
    return [block[2] for block in _FENCED.finditer(page(name)) if block[1] == language]


def simulated(commands: Iterable[str]) -> int:
    """Run commands one after the other; return their number."""
    count = 0
    for command in commands:
        count += 1
        program, *arguments = shlex.split(command)
        assert program == "faultline"
        assert main(arguments) == 0, command
    return count


def commands(program: str) -> Iterator[Snippet]:
    """Yield the command lines of a program in the fenced blocks of all pages."""
    for block in snippets():
        if block.language not in ("", "sh", "bash"):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            words = line.removeprefix("$ ").removeprefix(".venv/bin/")
            if words.startswith(f"{program} "):
                yield Snippet(block.place, block.language, words)


def words_of(command: Snippet) -> list[str]:
    """Return the arguments of a command line, without comments and redirections."""
    words = shlex.split(command.text, comments=True)[1:]
    return words[: words.index(">")] if ">" in words else words
