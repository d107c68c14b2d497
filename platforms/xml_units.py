"""Quantities as SimGrid's XML writes them: ``50GBps``, ``1us``, ``989Tf``."""

from __future__ import annotations

import re
from fractions import Fraction

from faultline.platforms.errors import PlatformError
from faultline.platforms.units import exact_number

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(.*)", re.S)
_SI = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")

BANDWIDTH_UNITS: dict[str, Fraction] = {}
for _unit, _size in (("bps", Fraction(1, 8)), ("Bps", Fraction(1))):
    for _power in range(9):
        BANDWIDTH_UNITS[_SI[_power] + _unit] = _size * 1000**_power
        BANDWIDTH_UNITS[_BINARY[_power] + _unit] = _size * 1024**_power
TIME_UNITS = {
    "w": Fraction(604800),
    "d": Fraction(86400),
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
    "ps": Fraction(1, 10**12),
}
SPEED_UNITS = {prefix + "f": Fraction(1000**power) for power, prefix in enumerate(_SI)}


def parse_simgrid(text: str, units: dict[str, Fraction], example: str, where: str) -> float:
    """Read a number with one of SimGrid's units; zero needs none.

    Raises
    ------
    PlatformError
        No number, no unit, an unknown unit, or a negative value.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise PlatformError(f"{text!r} is no number with a unit: write it like {example}", where)
    number, unit = exact_number(match[1]), match[2]
    if number is None:
        raise PlatformError(f"{text!r} is out of range", where)
    if number < 0:
        raise PlatformError(f"{text!r} is negative", where)
    if unit == "" and number == 0:
        return 0.0
    if unit not in units:
        raise PlatformError(
            f"{text!r} has no unit that SimGrid knows: write it like {example}", where
        )
    return float(number * units[unit])
