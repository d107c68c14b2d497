"""What the columns of a sweep are called, in which unit they are read, and which way is good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultline.experiments.analysis.numbers import is_missing, value_text
from faultline.experiments.runs.record import COLUMNS, Column

# What is no column of a record, where its name alone does not say what it is: axes, by label and
# symbol, and what only studies have. Units are those of the names.
_AXES = {
    "strategy.name": ("scheme", ""),
    "protection.name": ("protection", ""),
    "strategy.redundancy": ("redundancy r", "r"),
    "job.groups": ("groups N", "N"),
    "job.gpus": ("GPUs", ""),
    "job.gpus_per_group": ("GPUs a group", ""),
    "job.compute_s": ("compute time of a stack", "compute"),
    "job.compute_jitter": ("jitter of compute", ""),
    "failures.mtbf_s": ("MTBF of the system", "MTBF"),
    "failures.distribution": ("failures", ""),
    "failures.shape": ("Weibull shape", ""),
    "failures.clock": ("failure clock", ""),
    "detection.watchdog_s": ("time-out of the watchdog", "watchdog"),
    "all_reduce.time_s": ("all-reduce time", "all-reduce"),
    "all_reduce.failed_fraction": ("failed all-reduce, fraction of its time", ""),
    "checkpoint.interval_steps": ("checkpoint interval", "interval"),
    "checkpoint.write_s": ("checkpoint write time", "checkpoint write"),
    "restart.duration_s": ("restart duration", "restart"),
    "restart.controller_s": ("controller time", "controller"),
    "platform.file": ("platform", ""),
    "wall_s": ("real time of the run", ""),
}
_BYTES_AS_TB = {"job.parameter_bytes": ("size of the model", "model")}
_SHARES = ("available_domains", "completed_fraction")
_SUFFIXES = {"_bytes_per_s": "B/s", "_bytes": "B", "_steps": "steps", "_s": "s"}


def quantity(name: str) -> Column:
    """Return how a column of a sweep is read: of a record as that defines it.

    Columns that nobody knows are named after themselves: underscores become blanks, and a unit at
    the end of the name stays a unit.
    """
    if name in COLUMNS:
        return COLUMNS[name]
    if name in _BYTES_AS_TB:
        label, symbol = _BYTES_AS_TB[name]
        return Column(name, "number", label, "", shown_unit="TB", scale=1e-12, symbol=symbol)
    # The first table says where in the scenario to look; those below it name a scheme or a part.
    *tables, last = name.split(".")
    suffix = next((suffix for suffix in _SUFFIXES if last.endswith(suffix)), "")
    words = " ".join((*tables[1:], last.removesuffix(suffix))).replace("_", " ")
    label, symbol = _AXES.get(name, (words, ""))
    unit = _SUFFIXES.get(suffix, "")
    return Column(name, "number", label, "", shown_unit=unit, symbol=symbol, share=name in _SHARES)


def shown_value(column: str, value: Any) -> str:
    """Return a value of a column in the column's unit, without naming it."""
    scale = quantity(column).scale
    return value_text(value if scale == 1 or is_missing(value) else value * scale)


def setting_text(setting: Mapping[str, Any]) -> str:
    """Return a setting as people write it, such as ``r = 9, MTBF = 300 s``.

    Axes without a value are left out: they do not exist in this setting. The scheme, and text in a
    column that is no axis, stand for themselves.
    """
    parts = []
    for column, value in setting.items():
        if is_missing(value):
            continue
        known = quantity(column)
        alone = column == "strategy.name" or ("." not in column and isinstance(value, str))
        name = "" if alone else f"{known.symbol or known.label} = "
        unit = f" {known.shown_unit}" if known.shown_unit else ""
        parts.append(f"{name}{shown_value(column, value)}{unit}")
    return ", ".join(parts)
