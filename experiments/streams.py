"""The standard streams, with control sequences of terminals escaped, whatever writes them.

This module does not import rich, which takes long: ``--help`` is quick.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOBase
from typing import TextIO


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
        # A library may have swallowed the error of a write.
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
