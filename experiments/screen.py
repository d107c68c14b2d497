"""The console for all output: it prints text as text.

Names come from files, and files from strangers. This module escapes control sequences of terminals
in the texts, not those by which a display moves the cursor, and interprets no text as markup.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from textwrap import fill
from typing import Any

from faultline.experiments.config.errors import QUIET
from faultline.experiments.streams import shown
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import Task, TextColumn
from rich.segment import Segment
from rich.text import Text

_PIPED_WIDTH = 160
_WIDTHS = range(40, 10_000)
"""Accepted values of ``COLUMNS``; any other is ignored."""


_TEXT = re.compile(r"\s*\S+(?: \S+)*?\s{2,}(?=\S)")
_WRAPPED: Any = {"break_long_words": False, "break_on_hyphens": False}


class Screen(Console):
    """A console that prints text unchanged: no markup, no emoji, no highlighting.

    A file or a pipe has no width of its own: it gets `width` characters, or 160, enough for tables
    whose words would break on a narrow terminal. Sentences printed with ``soft_wrap=True`` are one
    line there, and are wrapped between words on a terminal.
    """

    def __init__(self, *, stderr: bool = False, width: int | None = None, **options: Any) -> None:
        own: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
        columns = os.environ.get("COLUMNS", "")
        is_stated = columns.isascii() and columns.isdecimal() and int(columns[:9]) in _WIDTHS
        if not is_stated:
            own["_environ"] = {name: os.environ[name] for name in os.environ if name != "COLUMNS"}
        super().__init__(stderr=stderr, **{**own, **options})
        if not self.is_terminal and not is_stated:
            self.width = width or _PIPED_WIDTH

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        """Print as rich does, but wrap sentences between words on a terminal."""
        if soft_wrap and self.is_terminal:
            soft_wrap = None
        super().print(*objects, soft_wrap=soft_wrap, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text as it is drawn, escaped before it is measured."""
        return super().render_str(shown(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the parts of what is drawn: escaped texts, and the display's own movements."""
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=shown(part.text))


def print_names(console: Console, lines: Iterable[str]) -> None:
    """Print names, each with its text after two blanks or more.

    On a terminal the further lines of a text begin where its first one does.
    """
    for line in lines:
        shown_line = line
        if console.is_terminal and line:
            found, start = _TEXT.match(line), len(line) - len(line.lstrip())
            indent = found.end() if found and found.end() <= console.width // 2 else start
            shown_line = fill(line, console.width, subsequent_indent=" " * indent, **_WRAPPED)
        console.print(shown_line, soft_wrap=True)


def message_console() -> Screen:
    """Return the console of progress and notes: the standard error, unless output is quiet."""
    return Screen(stderr=True, quiet=QUIET in os.environ)


def text_column(pattern: str) -> TextColumn:
    """Return a column of a progress display that prints names unchanged."""
    return _NameColumn(pattern, markup=False)


class _NameColumn(TextColumn):
    def render(self, task: Task) -> Text:
        # Escaped before it is measured.
        return Text(shown(super().render(task).plain))
