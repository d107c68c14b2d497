"""The standard streams, and texts for them in which nothing is left that a terminal would obey.

Names come from files, and files from strangers: what is printed without a `Screen` goes through
`print_text`. The streams themselves are left alone, because progress bars need control sequences.

This module does not import rich, which takes long: ``--help`` is quick.
"""

from __future__ import annotations

import os
import re
import sys
from io import TextIOWrapper
from textwrap import fill


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
    print_text(between_words(f"faultline: {line}"), as_message=True)


def between_words(message: str) -> str:
    """Return a message for the standard error that a terminal does not break within words."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return message
    return fill(message, width, subsequent_indent="  ", break_long_words=False,
                break_on_hyphens=False)  # fmt: skip


def let_all_text_be_printed() -> None:
    """Let every text be printed from now on, whatever the encoding of the standard streams."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
