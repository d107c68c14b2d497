"""Values as TOML that people read: 2e13 and 600_000, long texts over several lines."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import tomlkit
from tomlkit.items import Float, Integer, Item, Trivia

_LINE_LENGTH = 100
_LONGEST_PLAIN = 8


def toml_item(value: Any) -> Item:
    """Return a value as an item of a TOML document."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Integer(value, Trivia(), f"{value:_}" if abs(value) >= 10_000 else str(value))
    if isinstance(value, float):
        return Float(value, Trivia(), _shortest(value))
    if isinstance(value, str) and len(value) > _LINE_LENGTH:
        return _long_text(value)
    item: Item = tomlkit.item(value)
    return item


def written(value: Any) -> str:
    """Return a value as it stands in a TOML file."""
    return toml_item(value).as_string()


def _shortest(value: float) -> str:
    """Return 340.0 or 2e13, as people would write them; either is read as this very number."""
    plain = repr(value)
    for digits in range(17):
        mantissa, e, exponent = f"{value:.{digits}e}".partition("e")
        if e and float(f"{mantissa}e{exponent}") == value:
            scientific = f"{mantissa}e{int(exponent)}"
            short = len(plain) <= _LONGEST_PLAIN and "e" not in plain
            return plain if short else min(scientific, plain, key=len)
    return plain


def _long_text(value: str) -> Item:
    """Break the lines of a text as TOML lets them be broken, where it has single blanks only."""
    item: Item = tomlkit.string(value)
    quoted = item.as_string()[1:-1]
    if "  " in value or value != value.strip() or quoted.endswith("\\"):
        return item
    lines = wrap(quoted, _LINE_LENGTH - 2, break_long_words=False, break_on_hyphens=False)
    broken = tomlkit.value('"""\\\n' + " \\\n".join(lines) + '"""')
    return broken if broken.unwrap() == value else item
