"""How anything reaches a screen: as text, whatever it says.

Names come from files, and files from anybody. What a terminal would obey is escaped on its way out,
at one place; and no text is taken for markup.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOBase
from typing import Any, TextIO

from rich.console import Console
from rich.progress import TextColumn
from rich.text import Text

_PIPED_WIDTH = 160
_WIDTHS = range(40, 10_000)
"""Of lines that can be read: another value of ``COLUMNS`` counts as none."""


class Screen(Console):
    """A console that shows every text letter by letter: no markup, no emoji, no highlighting.

    A file or a pipe has no width of its own: there it is `width` letters, wide enough for tables
    whose words would break on a narrow terminal.
    """

    def __init__(self, *, stderr: bool = False, width: int | None = None, **options: Any) -> None:
        own: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
        asked = os.environ.get("COLUMNS", "")
        is_stated = asked.isascii() and asked.isdecimal() and int(asked[:9]) in _WIDTHS
        if not is_stated:
            own["_environ"] = {name: os.environ[name] for name in os.environ if name != "COLUMNS"}
        super().__init__(stderr=stderr, width=width, **{**own, **options})
        if width is None and not self.is_terminal and not is_stated:
            self.width = _PIPED_WIDTH

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text as it is drawn."""
        return super().render_str(shown(text), **options)


def text_column(pattern: str) -> TextColumn:
    """Return a column of a progress display that takes names as they are."""
    return TextColumn(pattern, markup=False)


def shown(text: str) -> str:
    """Return a text of one or more lines with everything escaped that a terminal would obey."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    # Its package takes long to be imported, and help needs none of it.
    from faultline.platforms.errors import printable

    parts = re.split(r"([\n\t])", text)
    return "".join(part if part in ("\n", "\t") else printable(part) for part in parts)


class _Shown(TextIOBase):
    """A standard stream, with `shown` before it; rich, which escapes by itself, writes past it."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream
        self._failure: OSError | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.rich_proxied_file.encoding

    def write(self, text: str) -> int:
        try:
            self.rich_proxied_file.write(shown(text))
        except OSError as error:
            self._failure = error
            raise
        return len(text)

    def flush(self) -> None:
        # Somebody may have kept to himself that it could not be written.
        if self._failure is not None:
            raise self._failure
        self.rich_proxied_file.flush()

    def isatty(self) -> bool:
        return self.rich_proxied_file.isatty()

    def fileno(self) -> int:
        return self.rich_proxied_file.fileno()


@contextmanager
def safe_streams() -> Iterator[None]:
    """Escape what is printed meanwhile.

    Raises OSError if there is no standard output: a long run would end with nothing to show.
    """
    before = sys.stdout, sys.stderr
    out, err = (_or_nowhere(stream) for stream in before)
    sys.stdout, sys.stderr = _Shown(out), _Shown(err)
    try:
        if before[0] is None:
            raise OSError(
                errno.EBADF, "closed; send it somewhere, such as > /dev/null", "standard output"
            )
        yield
    finally:
        sys.stdout, sys.stderr = before


def _or_nowhere(stream: TextIO | None) -> TextIO:
    """Return a stream that can be written to, and that has letters for everything."""
    if stream is None:
        # Takes the free descriptor, too, which some file of ours would get otherwise.
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - for good
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream
