"""Numbers as people read them: rounded, grouped by thousands, with their unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.time_units import UNITS

MISSING = "–"

_BYTES = {"bytes": "B", "bytes/s": "B/s"}
_BYTE_PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def is_missing(value: Any) -> bool:
    """Tell whether there is no value: None, NaN, or pandas' NA."""
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))


def value_text(value: Any) -> str:
    """Return a value of an axis as people write it; a dash where there is none."""
    if is_missing(value):
        return MISSING
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    if isinstance(value, (int, float, np.integer, np.floating)):
        number = float(value)
        return f"{number:,.6g}" if abs(number) < 1e6 else f"{number:.4g}"
    return str(value)


def number_text(value: float, digits: int = 4) -> str:
    """Return a number with so many significant digits; ∞ and – for what is none."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:#.{digits}g}"
    return text.rstrip(".").replace("-", "−")


def decimals_for(values: Iterable[float], digits: int = 4) -> int:
    """Return the decimals that show the median of the values with so many significant digits."""
    sizes = sorted(abs(value) for value in values if math.isfinite(value) and value != 0)
    if not sizes:
        return 0
    return max(0, digits - 1 - math.floor(math.log10(sizes[len(sizes) // 2])))


def fixed(value: float | None, decimals: int) -> str:
    """Write a number with so many decimals; infinity is told in words."""
    if is_missing(value) or value is None:
        return MISSING
    if math.isinf(value):
        return "infinite"
    text = f"{value:,.{decimals}f}"
    return text.replace("-", "−" if text.strip("-0.,") else "")


def plain(value: Any) -> str:
    """Write any value of a scenario, exact but without the noise of binary fractions."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {plain(inner)}" for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        tables = any(isinstance(inner, Mapping) for inner in value)
        return ("; " if tables else ", ").join(map(plain, value))
    return MISSING if is_missing(value) else _plain_scalar(value)


def _plain_scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _plain_float(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _plain_float(value: float) -> str:
    if math.isinf(value):
        return "infinite"
    text = f"{value:.12g}"
    if "e" in text:
        return f"{value:.6g}"
    whole, point, fraction = text.partition(".")
    sign, digits = ("−", whole[1:]) if whole.startswith("-") else ("", whole)
    return f"{sign}{int(digits):,}{point}{fraction}"


def with_unit(value: Any, unit: str | None) -> str:
    """Write a value with its unit; "1" is the unit of counts and ratios.

    Bytes get a prefix, and long times are told in larger units as well.
    """
    if unit in (None, "1") or isinstance(value, (bool, str)) or is_missing(value):
        return plain(value)
    if unit == "s":
        return f"{plain(value)} s{_in_larger_unit(float(value))}"
    if unit in _BYTES:
        for prefix, size in _BYTE_PREFIXES:
            if abs(value) >= size:
                return f"{value / size:,.4g} {prefix}{_BYTES[unit]}"
    return f"{plain(value)} {unit}"


def number_range(values: pd.Series) -> str:
    """Write the range of some numbers: ``8 to 16``, or ``8``."""
    low, high = values.min(), values.max()
    if is_missing(low):
        return MISSING
    return plain(float(low)) if low == high else f"{plain(float(low))} to {plain(float(high))}"


def _in_larger_unit(time_s: float) -> str:
    if time_s < 120:
        return ""
    unit = next(unit for unit in UNITS if time_s >= unit.seconds)
    count = f"{time_s / unit.seconds:,.3g}"
    return f" ({count} {unit.name.removesuffix('s') if count == '1' else unit.name})"
