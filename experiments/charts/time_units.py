"""Units of time that read well."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """A unit of time and its length in seconds."""

    name: str
    seconds: float


UNITS = (TimeUnit("days", 86400.0), TimeUnit("hours", 3600.0), TimeUnit("minutes", 60.0))


def unit_for(span_s: float) -> TimeUnit:
    """Return the largest unit of which a span of simulated time has at least two."""
    return next((unit for unit in UNITS if span_s >= 2 * unit.seconds), TimeUnit("s", 1.0))
