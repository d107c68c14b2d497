"""Numbers of keys as people write them: with a unit, or plain in the key's own unit.

The rule is the same in files, on the command line, in grids and in Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from faultline.experiments.config.errors import LONGEST_QUOTE
from faultline.platforms.errors import PlatformError
from faultline.platforms.units import (
    BANDWIDTH,
    COUNT,
    POWER,
    SIZE,
    SPEED,
    TIME,
    Kind,
    parse_quantity,
)

_KINDS = {"s": TIME, "bytes": SIZE, "bytes/s": BANDWIDTH, "FLOP/s": SPEED, "W": POWER}
_WHOLE = "a whole number, such as 500 or 100k"
_NUMBER = "a number, such as 0.5 or 100k"


def kind_of(unit: str | None) -> Kind:
    """Return the kind of quantity that has a unit; `COUNT` for steps, ratios and no unit."""
    return _KINDS.get(unit or "", COUNT)


def read_number(value: Any, unit: str | None, *, is_whole: bool) -> Any:
    """Return a value of a numeric key as a number in the key's unit.

    A value that is no number is returned unchanged, for the schema to refuse.

    Examples
    --------
    >>> read_number("3h", "s", is_whole=False), read_number("2k", "steps", is_whole=True)
    (10800.0, 2000)
    """
    if isinstance(value, str):
        try:
            value = parse_quantity(value, kind_of(unit), in_si=True)
        except PlatformError:
            return value
    # 1e5 is a whole number too.
    return int(value) if is_whole and isinstance(value, float) and value.is_integer() else value


def why_no_number(value: object, unit: str | None, *, is_whole: bool) -> str:
    """Return why `read_number` cannot read a value, and the remedy."""
    kind = kind_of(unit)
    wanted = _WHOLE if is_whole else _NUMBER
    if kind is not COUNT:
        noun = "seconds" if unit == "s" else unit
        wanted = f"{kind.name}, such as {kind.example.partition(' or ')[0]}, or a number of {noun}"
    if not isinstance(value, str) or len(value) > LONGEST_QUOTE:
        return f"should be {wanted}"
    if not value.strip():
        return f"is empty: write {wanted}"
    if value.strip()[0].isdigit():
        try:
            parse_quantity(value, kind, in_si=True)
        except PlatformError as error:
            return str(error).removeprefix(f"{value!r} ")
    return f"should be {wanted}"


def plain(value: Any) -> Any:
    """Return a value without types of other libraries: numpy's numbers and arrays, paths."""
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(inner) for inner in value]
    if isinstance(value, PathLike):
        return fspath(value)
    # Duck-typed, since the import of numpy takes longer than most commands.
    as_list = getattr(value, "tolist", None)
    return as_list() if callable(as_list) else value
