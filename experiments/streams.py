"""The standard streams, and texts for them in which nothing is left that a terminal would obey.

Names come from files, and files from strangers: what is printed without a `Screen` goes through
`print_text`. The streams themselves are left alone, because progress bars need control sequences.

This module does not import rich, which takes long: ``--help`` is quick.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


def shown(text: str) -> str:
    """Return a text of one or more lines with everything escaped that a terminal would obey."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    # Its package takes long to be imported, and help needs none of it.
    from faultline.platforms.errors import printable

    parts = re.split(r"([\n\t])", text)
    return "".join(part if part in ("\n", "\t") else printable(part) for part in parts)


def print_text(text: str, *, as_message: bool = False) -> None:
    """Print a text as a result, or as a message on the standard error."""
    print(shown(text), file=sys.stderr if as_message else sys.stdout)


def print_note(line: str) -> None:
    """Print a line of the program itself on the standard error."""
    print_text(f"faultline: {line}", as_message=True)


@contextmanager
def safe_streams() -> Iterator[None]:
    """Let every text be printed meanwhile, whatever the encoding of the streams.

    Raises OSError if there is no standard output: a long run would end with nothing to show.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_or_nowhere, before)
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
