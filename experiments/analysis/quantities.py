"""Readable numbers: columns by name and unit, rounded values, times in fitting units."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from faultline.experiments.runs.record import COLUMNS, Column
from faultline.platforms.units import BANDWIDTH, format_quantity


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """A unit of time, its length in seconds, and its symbol."""

    name: str
    seconds: float
    symbol: str = "s"


UNITS = (
    TimeUnit("days", 86400.0, "d"),
    TimeUnit("hours", 3600.0, "h"),
    TimeUnit("minutes", 60.0, "min"),
)


def unit_within(span_s: float) -> TimeUnit:
    """Return the largest unit of which a span has one or more."""
    return next((unit for unit in UNITS if span_s >= unit.seconds), TimeUnit("seconds", 1.0))


def unit_for(span_s: float, seconds: str = "s") -> TimeUnit:
    """Return the largest unit of which a span has two or more; `seconds` names the smallest."""
    return next((unit for unit in UNITS if span_s >= 2 * unit.seconds), TimeUnit(seconds, 1.0))


def time_unit(times_s: Iterable[float]) -> TimeUnit:
    """Return the unit for the longest finite time of some, in seconds."""
    return unit_for(max((time for time in times_s if math.isfinite(time)), default=0.0), "seconds")


def time_text(span_s: float) -> str:
    """Return a span of time, in seconds, with its unit in words: ``20.14 days``."""
    unit = unit_for(span_s)
    return f"{span_s / unit.seconds:,.2f} {unit.name}"


def duration_text(span_s: float) -> str:
    """Return a time, in seconds, with the symbol of its unit: ``3.09 h``."""
    unit = unit_within(span_s)
    return f"{span_s / unit.seconds:.3g} {unit.symbol}"


def percent_text(share: float, decimals: int = 0) -> str:
    """Return a share in percent: ``7.8 %``."""
    return f"{100.0 * share:.{decimals}f} %"


def counted(count: int, thing: str) -> str:
    """Return a number and its noun: ``1 rack``, ``2 racks``."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def steps_text(steps: int, span_s: float) -> str:
    """Return an interval in steps with its duration: ``34 steps (39.2 minutes)``."""
    unit = unit_for(span_s)
    return f"{counted(steps, 'step')} ({span_s / unit.seconds:,.1f} {unit.name})"


MISSING = "–"

_BYTES = {"bytes": "B", "bytes/s": "B/s"}
_BYTE_PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, or pandas' NA."""
    if value is None or isinstance(value, (float, np.floating)):
        return value is None or math.isnan(value)
    # Slow to import: without frames there is no NA.
    pandas = sys.modules.get("pandas")
    return pandas is not None and value is pandas.NA


def value_text(value: Any) -> str:
    """Return a readable value of an axis; a dash if it is missing."""
    if is_missing(value):
        return MISSING
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    if isinstance(value, (int, float, np.integer, np.floating)):
        number = float(value)
        return f"{number:,.6g}" if abs(number) < 1e6 else f"{number:.4g}"
    return str(value)


def number_text(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits; ∞ for infinity and – for NaN."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:#.{digits}g}"
    return text.rstrip(".").replace("-", "−")


def decimals_for(values: Iterable[float], digits: int = 4) -> int:
    """Return the decimals that show the median of the values with `digits` significant digits."""
    sizes = sorted(abs(value) for value in values if math.isfinite(value) and value != 0)
    if not sizes:
        return 0
    return max(0, digits - 1 - math.floor(math.log10(sizes[len(sizes) // 2])))


def fixed(value: float | None, decimals: int) -> str:
    """Write a number with `decimals` decimals; infinity in words."""
    if is_missing(value) or value is None:
        return MISSING
    if math.isinf(value):
        return "infinite"
    text = f"{value:,.{decimals}f}"
    return text.replace("-", "−" if text.strip("-0.,") else "")


def plain(value: Any) -> str:
    """Write any value of a scenario exactly, but without the noise of binary fractions."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {plain(inner)}" for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        tables = any(isinstance(inner, Mapping) for inner in value)
        return ("; " if tables else ", ").join(map(plain, value))
    if is_missing(value):
        return MISSING
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

    Bytes get a prefix. Long times are repeated in a larger unit.
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


def _in_larger_unit(time_s: float) -> str:
    if time_s < 120:
        return ""
    unit = unit_within(time_s)
    count = f"{time_s / unit.seconds:,.3g}"
    return f" ({count} {unit.name.removesuffix('s') if count == '1' else unit.name})"


# Labels and symbols of axes, and of columns that only studies have, if the name alone is unclear.
# Units are those of the names.
_AXES = {
    "strategy.name": ("scheme", ""),
    "protection.name": ("protection", ""),
    "strategy.redundancy": ("redundancy r", "r"),
    "job.groups": ("groups N", "N"),
    "job.gpus": ("GPUs", ""),
    "times.compute_s": ("compute time of a stack", "compute"),
    "job.compute_jitter": ("jitter of compute", ""),
    "failures.mtbf_s": ("MTBF of the system", "MTBF"),
    "failures.distribution": ("failures", ""),
    "failures.shape": ("Weibull shape", ""),
    "failures.clock": ("failure clock", ""),
    "failures.hardware_share": ("share of hardware failures", ""),
    "failures.kinds.slow_found_s": ("time to find a straggler", ""),
    "failures.kinds.retry_s": ("time-out of a link", ""),
    "failures.kinds.hang_timeout_s": ("time-out of a hang", ""),
    "failures.kinds.migrate_s": ("time to migrate", ""),
    "failures.kinds.correlated_excess": ("failures in a burst", ""),
    "failures.kinds.excess_within_s": ("time between failures of a burst", ""),
    "failures.kinds.recurrence": ("share of repairs that fail", ""),
    "strategy.approximation_loss": ("progress lost by approximation", ""),
    "detection.watchdog_s": ("time-out of the watchdog", "watchdog"),
    "times.all_reduce_s": ("all-reduce time", "all-reduce"),
    "all_reduce.failed_fraction": ("failed all-reduce, fraction of its time", ""),
    "checkpoint.interval_steps": ("checkpoint interval", "interval"),
    "times.checkpoint_write_s": ("checkpoint write time", "checkpoint write"),
    "times.restart_s": ("restart duration", "restart"),
    "times.shrink_s": ("time to shrink", "shrink"),
    "platform.file": ("platform", ""),
    "recovery.detect_s": ("time to detect a failure", ""),
    "recovery.diagnose_s": ("time to diagnose a failure", ""),
    "recovery.requeue_s": ("time in the queue for machines", ""),
    "recovery.reschedule_s": ("time to reschedule", ""),
    "recovery.standby_s": ("time to start a standby", ""),
    "recovery.launch_s": ("time to launch the job", ""),
    "recovery.communicator_s": ("time to make communicators", ""),
    "recovery.time_factor": ("factor on all recovery times", ""),
    "rejoin.repair_s": ("time to repair a machine", ""),
    "protection.launch_s": ("time to launch after a restart from memory", ""),
    "wall_s": ("real time of the run", ""),
}
_SHARES = ("available_domains", "completed_fraction")
_SUFFIXES = {"_bytes_per_s": "B/s", "_bytes": "B", "_steps": "steps", "_s": "s"}


def quantity(name: str) -> Column:
    """Return the definition of a column of a sweep; columns of a record have their own.

    An unknown column gets its own name as label: underscores become blanks, and a unit at the end
    of the name becomes its unit.
    """
    if name in COLUMNS:
        return COLUMNS[name]
    if name == "job.parameter_bytes":
        in_tb: dict[str, Any] = {"shown_unit": "TB", "scale": 1e-12, "symbol": "model"}
        return Column(name, "number", "size of the model", "", **in_tb)
    # The first table is only a place in the scenario; those below it name a scheme or a part.
    *tables, last = name.split(".")
    suffix = next((suffix for suffix in _SUFFIXES if last.endswith(suffix)), "")
    words = " ".join((*tables[1:], last.removesuffix(suffix))).replace("_", " ")
    label, symbol = _AXES.get(name, (words, ""))
    unit = _SUFFIXES.get(suffix, "")
    return Column(name, "number", label, "", shown_unit=unit, symbol=symbol, share=name in _SHARES)


def heading(column: str, *, short: bool = False) -> str:
    """Return the heading of a column: its label, or its symbol, with its unit.

    Seconds are left out: `shown_value` has the unit of each time.
    """
    known = quantity(column)
    name = (short and known.symbol) or known.label
    return f"{name} ({known.shown_unit})" if known.shown_unit not in ("", "s") else name


def shown_value(column: str, value: Any) -> str:
    """Return a value of a column in the column's unit, without naming it; a time with its unit."""
    known = quantity(column)
    if is_missing(value) or isinstance(value, str):
        return value_text(value)
    if known.shown_unit == "s":
        return duration_text(value) if _is_round(value) else f"{value_text(value)} s"
    return value_text(value if known.scale == 1 else value * known.scale)


def setting_text(setting: Mapping[str, Any]) -> str:
    """Return a readable setting, such as ``r = 9, MTBF = 5 min``.

    Axes without a value are omitted: they do not exist in this setting. The scheme, and text in a
    column that is not an axis, appear without a name.
    """
    parts = []
    for column, value in setting.items():
        if is_missing(value):
            continue
        known = quantity(column)
        alone = column == "strategy.name" or ("." not in column and isinstance(value, str))
        name = "" if alone else f"{known.symbol or known.label} = "
        unit = f" {known.shown_unit}" if known.shown_unit not in ("", "s") else ""
        parts.append(f"{name}{shown_value(column, value)}{unit}")
    return ", ".join(parts)


def _is_round(time_s: float) -> bool:
    """Return whether a time has three digits or fewer in its largest unit, also if written."""
    count = time_s / unit_within(time_s).seconds
    return math.isclose(count, float(f"{count:.3g}"))


def rate_text(bytes_per_s: float) -> str:
    """Return a bandwidth with four significant digits."""
    return format_quantity(float(f"{bytes_per_s:.4g}"), BANDWIDTH)
