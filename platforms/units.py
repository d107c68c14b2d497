"""Quantities as people write them: ``"400Gbps"``, ``"50GB/s"``, ``"1us"``, ``"80GB"``.

All values inside Faultline are in SI units without a prefix: bytes, bytes/s, seconds, FLOP and
FLOP/s. Only this module converts text with units. Three rules prevent errors by a factor of eight
or a thousand:

* bits (``b``, ``bit``) and bytes (``B``) are different units, never guessed from context;
* SI prefixes (``GB`` = 10^9) and binary prefixes (``GiB`` = 2^30) are both accepted and differ;
* a number without a unit is refused, unless it is zero or the reader states its unit.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from faultline.platforms.errors import PlatformError

_SI = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}
_NUMBER = re.compile(r"([+-]?(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*)", re.S)

_Units = dict[str, Fraction]


def _scaled(spellings: dict[str, Fraction], binary: bool) -> _Units:
    units: _Units = {}
    for spelling, size in spellings.items():
        for prefix, exponent in _SI.items():
            units[prefix + spelling] = size * 10**exponent
        if binary:
            for prefix, exponent in _BINARY.items():
                units[prefix + spelling] = size * 2**exponent
    return units


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of quantity: its units, its output format, and an example for error messages."""

    name: str  # With its article: ``"a bandwidth"``.
    units: _Units = field(repr=False)  # Every accepted unit in the SI unit of the kind, exact.
    written: tuple[str, ...]  # The units used by `format_quantity`, largest first.
    example: str  # A correct value.


_BIT = Fraction(1, 8)
_BYTE = Fraction(1)

SIZE = Kind(
    "a size in bytes",
    _scaled({"B": _BYTE}, binary=True),
    ("EB", "PB", "TB", "GB", "MB", "kB", "B"),
    "80GB",
)
BANDWIDTH = Kind(
    "a bandwidth",
    _scaled(
        {"B/s": _BYTE, "Bps": _BYTE, "b/s": _BIT, "bps": _BIT, "bit/s": _BIT},
        binary=True,
    ),
    ("EB/s", "PB/s", "TB/s", "GB/s", "MB/s", "kB/s", "B/s"),
    "400Gbps or 50GB/s",
)
TIME = Kind(
    "a time",
    {
        "ps": Fraction(1, 10**12),
        "ns": Fraction(1, 10**9),
        "us": Fraction(1, 10**6),
        "µs": Fraction(1, 10**6),  # micro sign
        "μs": Fraction(1, 10**6),  # Greek mu, as from many keyboards
        "ms": Fraction(1, 1000),
        "s": Fraction(1),
        "min": Fraction(60),
        "h": Fraction(3600),
        "d": Fraction(86400),
    },
    ("s", "ms", "us", "ns", "ps"),
    "5min or 1us",
)
SPEED = Kind(
    "a speed",
    _scaled(
        {"FLOP/s": Fraction(1), "flop/s": Fraction(1), "FLOPS": Fraction(1)},
        binary=False,
    ),
    ("EFLOP/s", "PFLOP/s", "TFLOP/s", "GFLOP/s", "MFLOP/s", "kFLOP/s", "FLOP/s"),
    "400TFLOP/s",
)
POWER = Kind(
    "a power",
    {"W": Fraction(1), "kW": Fraction(1000), "MW": Fraction(1_000_000)},
    ("MW", "kW", "W"),
    "700W",
)
COUNT = Kind(
    "a number",
    _scaled({"": Fraction(1)}, binary=False)
    | {"K": Fraction(1000), "B": Fraction(10**9)},  # 100K GPUs, 70B parameters
    ("T", "G", "M", "k", ""),
    "100k",
)
"""Numbers of things: tokens, GPUs, steps; also shares and other ratios."""

SIMGRID_BANDWIDTH = Kind(
    "a bandwidth of SimGrid",
    _scaled({"Bps": _BYTE, "bps": _BIT}, binary=True),
    (),
    "50GBps",
)
SIMGRID_TIME = Kind(
    "a time of SimGrid",
    {unit: size for unit, size in TIME.units.items() if unit in ("ps", "ns", "us", "ms", "s")}
    | {"m": Fraction(60), "h": Fraction(3600), "d": Fraction(86400), "w": Fraction(604800)},
    (),
    "1us",
)
SIMGRID_SPEED = Kind("a speed of SimGrid", _scaled({"f": Fraction(1)}, binary=False), (), "989Tf")
"""Quantities in a platform file; `format_quantity` writes none of them."""


def parse_quantity(text: object, kind: Kind, where: str = "", *, in_si: bool = False) -> float:
    """Read a quantity: text with a unit, or the number zero.

    The result is in the SI unit of the kind: `SIZE` (bytes), `BANDWIDTH` (bytes/s), `TIME` (s),
    `SPEED` (FLOP/s), `POWER` (W), `COUNT` (1). `where` is the place, for error messages. With
    `in_si`, a number without a unit is in that unit.

    Examples
    --------
    >>> parse_quantity("400Gbps", BANDWIDTH)
    50000000000.0
    >>> parse_quantity("1GiB", SIZE)
    1073741824.0
    """
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise PlatformError(f"{text!r} is not {kind.name}: write for example {kind.example}", where)
    # Stripped here: blanks that match two parts of a pattern cause backtracking.
    match = _NUMBER.fullmatch(str(text).strip())
    if match is None:
        raise PlatformError(
            f"{text!r} is not {kind.name}: write a number and a unit, for example {kind.example}",
            where,
        )
    number, unit = match.groups()
    value = exact_number(number)
    if value is None:
        raise PlatformError(f"{text!r} is out of range for {kind.name}", where)
    if value < 0:
        raise PlatformError(f"{text!r} is negative: {kind.name} is zero or more", where)
    if unit in kind.units:
        return float(value * kind.units[unit])
    if unit == "" and (in_si or value == 0):
        return float(value)
    raise PlatformError(_wrong_unit(str(text), number, unit, kind), where)


def simgrid_speed(speed_flop_per_s: float) -> str:
    """Return the speed of a host as SimGrid reads it, for example ``989Tf``."""
    return format_quantity(speed_flop_per_s, SPEED).replace("FLOP/s", "f")


_MOST_DIGITS = 300


@lru_cache(maxsize=1024)
def exact_number(text: str) -> Fraction | None:
    """Return a decimal number exactly, or None if it is too large or too small for a quantity.

    The bounds leave room for any unit, and keep ``1e999999999`` from filling the memory.
    """
    rounded = abs(float(text))
    if len(text) > _MOST_DIGITS or rounded > 1e200 or 0 < rounded < 1e-200:
        return None
    digits = text.lower().partition("e")[0]
    if rounded == 0 and any(digit in digits for digit in "123456789"):
        return None
    return Fraction(text.replace("_", "")) if rounded else Fraction(0)


_MEANT = {
    word: unit
    for unit, words in {
        "s": "sec secs second seconds",
        "min": "m mins minute minutes",
        "h": "hr hrs hour hours",
        "d": "day days",
    }.items()
    for word in words.split()
}
"""Units of time that people write, and the unit that they mean."""


def _wrong_unit(text: str, number: str, unit: str, kind: Kind) -> str:
    if unit == "":
        if kind not in (TIME, SIZE):
            return f"{text!r} has no unit: {kind.name} is written like {kind.example}"
        base = "seconds" if kind is TIME else "bytes"
        return f"{text} what? Write {with_unit(float(number), kind)} if these are {base}"
    if kind is SIZE and unit[-1:] == "b":
        return f"{text!r} is in bits: sizes are in bytes, written like {number}{unit[:-1]}B"
    by_lower = {known.lower(): known for known in reversed(kind.units)}
    if kind is TIME:
        by_lower = _MEANT | by_lower
    if kind is SIZE:
        # The case of b and B distinguishes bits from bytes, so it is never guessed.
        by_lower = {known.removesuffix("B").lower(): known for known in kind.units}
    if kind in (TIME, SPEED, POWER, SIZE) and unit.lower() in by_lower:
        return f"{text!r} has an unknown unit: write {number}{by_lower[unit.lower()]}"
    for other_kind in (SIZE, BANDWIDTH, TIME, SPEED, POWER):
        if unit in other_kind.units:
            return f"{text!r} is {other_kind.name}, not {kind.name} (written like {kind.example})"
    return f"{text!r} has an unknown unit {unit!r}: {kind.name} is written like {kind.example}"


def with_unit(value: float, kind: Kind) -> str:
    """Return a quantity as people write it: a time in the longest unit that divides it.

    Examples
    --------
    >>> with_unit(300, TIME), with_unit(90, TIME)
    ('5min', '90s')
    """
    if kind is TIME and value > 0:
        for unit in ("d", "h", "min"):
            if value % kind.units[unit] == 0:
                return f"{value / float(kind.units[unit]):g}{unit}"
    return format_quantity(value, kind)


@lru_cache(maxsize=1024)
def format_quantity(value: float, kind: Kind) -> str:
    """Format a quantity so that `parse_quantity` returns exactly the same number.

    The unit is the largest one that gives an exact number of at least one.

    Examples
    --------
    >>> format_quantity(50e9, BANDWIDTH)
    '50GB/s'
    """
    if not math.isfinite(value) or value < 0:
        raise PlatformError(f"{value!r} cannot be written as {kind.name}: it is zero or more")
    if value == 0:
        return f"0{_base_unit(kind)}"
    candidates = [unit for unit in kind.written if float(kind.units[unit]) <= value]
    # A value below the smallest unit is still written in it: 0.5B/s.
    for unit in candidates or [kind.written[-1]]:
        number = float(Fraction(value) / kind.units[unit])
        # Rounding noise of a float is beyond its fifteenth digit: 514.4us, not 514.4000000000001us.
        for text in (_shortest(float(f"{number:.15g}")), _shortest(number)):
            if float(Fraction(text) * kind.units[unit]) == value:
                return text + unit
    return _shortest(value) + _base_unit(kind)


def _base_unit(kind: Kind) -> str:
    return next(unit for unit in kind.written if kind.units[unit] == 1)


def _shortest(number: float) -> str:
    return repr(number).removesuffix(".0")


def parse_time_s(text: object) -> float:
    """Read a time (``"1us"``, ``"2h"``) in seconds."""
    return parse_quantity(text, TIME)
