"""Read untrusted TOML within bounds, and find the line of a key for error messages.

The standard library's parser keeps no positions. A scan for table headers and keys at the start of
a line is enough for configuration files. If it finds no key, the closest enclosing table is named.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?")
_KEY = re.compile(r"""\s*([A-Za-z0-9_\-."' ]+?)\s*=""")

# The parser's time is quadratic in the number of parts of a key.
_ENDLESS_KEY = re.compile(
    r"""(?<![\w\-"'.])(?:(?:[\w\-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){50}"""
)


def load_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises
    ------
    RecursionError
        Lists or tables are nested too deeply, or a key has 50 parts.
    ValueError, OverflowError
        The text is no TOML, or a number has too many digits.
    """
    if _ENDLESS_KEY.search(text):
        raise RecursionError("keys of 50 parts are nested too deeply")
    return tomllib.loads(text)


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line (from 1) of every table and key of a TOML text, by its path."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            path = table + _parts(key[1])
            for length in range(len(table) + 1, len(path) + 1):
                lines.setdefault(path[:length], number)
    return lines


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """Return the line of the key at `path`, or of the closest table around it, or None."""
    lines = key_lines(text)
    names = tuple(str(part) for part in path)
    for length in range(len(names), 0, -1):
        if names[:length] in lines:
            return lines[names[:length]]
    return None
