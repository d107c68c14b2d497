"""Units of time that read well."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """A unit of time and its length in seconds."""

    name: str
    seconds: float


UNITS = (TimeUnit("days", 86400.0), TimeUnit("hours", 3600.0), TimeUnit("minutes", 60.0))


def unit_for(span_s: float, seconds: str = "s") -> TimeUnit:
    """Return the largest unit of which a span has two or more; `seconds` names the smallest."""
    return next((unit for unit in UNITS if span_s >= 2 * unit.seconds), TimeUnit(seconds, 1.0))


def time_unit(times_s: Iterable[float]) -> TimeUnit:
    """Return the unit for the longest of some times in seconds, those that are infinite aside."""
    return unit_for(max((time for time in times_s if math.isfinite(time)), default=0.0), "seconds")


def time_text(span_s: float) -> str:
    """Return a span of time, in seconds, as people write it: ``20.14 days``."""
    unit = unit_for(span_s)
    return f"{span_s / unit.seconds:,.2f} {unit.name}"


def steps_text(steps: int, span_s: float) -> str:
    """Return an interval in steps with the time that they take: ``34 steps (39.2 minutes)``."""
    unit = unit_for(span_s)
    counted = "1 step" if steps == 1 else f"{steps:,} steps"
    return f"{counted} ({span_s / unit.seconds:,.1f} {unit.name})"
