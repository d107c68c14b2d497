"""The console for all output: it prints text as text.

Names come from files, and files from strangers. This module escapes control sequences of terminals
at one place, and interprets no text as markup.
"""

from __future__ import annotations

import os
from typing import Any

from faultline.experiments.config.errors import QUIET
from faultline.experiments.streams import shown
from rich.console import Console
from rich.progress import TextColumn
from rich.text import Text

_PIPED_WIDTH = 160
_WIDTHS = range(40, 10_000)
"""Accepted values of ``COLUMNS``; any other is ignored."""


class Screen(Console):
    """A console that prints text unchanged: no markup, no emoji, no highlighting.

    A file or a pipe has no width of its own: it gets `width` characters, or 160, enough for tables
    whose words would break on a narrow terminal.
    """

    def __init__(self, *, stderr: bool = False, width: int | None = None, **options: Any) -> None:
        own: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
        columns = os.environ.get("COLUMNS", "")
        is_stated = columns.isascii() and columns.isdecimal() and int(columns[:9]) in _WIDTHS
        if not is_stated:
            own["_environ"] = {name: os.environ[name] for name in os.environ if name != "COLUMNS"}
        super().__init__(stderr=stderr, width=width, **{**own, **options})
        if width is None and not self.is_terminal and not is_stated:
            self.width = _PIPED_WIDTH

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text as it is drawn."""
        return super().render_str(shown(text), **options)


def message_console() -> Screen:
    """Return the console of progress and notes: the standard error, unless output is quiet."""
    return Screen(stderr=True, quiet=QUIET in os.environ)


def text_column(pattern: str) -> TextColumn:
    """Return a column of a progress display that prints names unchanged."""
    return TextColumn(pattern, markup=False)
