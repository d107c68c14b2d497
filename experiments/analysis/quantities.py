"""What the columns of a sweep are called, in which unit they are read, and which way is good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from faultline.experiments.analysis.numbers import is_missing, value_text
from faultline.experiments.runs.record import COLUMNS


@dataclass(frozen=True, slots=True)
class Quantity:
    """How a column is read.

    Attributes
    ----------
    label : str
        Its name in words, without the unit.
    unit : str
        The unit it is shown in; empty where it has none.
    scale : float
        What a value of the column is multiplied with to be shown in `unit`.
    better : {"lower", "higher"} or None
        Which way is good; None where neither is.
    symbol : str
        What stands for it where there is little room; by default the label.
    share : bool
        Whether its values, unscaled, lie between 0 and 1, and so must their intervals.
    """

    label: str
    unit: str = ""
    scale: float = 1.0
    better: Literal["lower", "higher"] | None = None
    symbol: str = ""
    share: bool = False

    @property
    def with_unit(self) -> str:
        """The label of an axis: name and unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


# What is no column of a record: axes, and what only studies have.
_KNOWN = {
    "available_domains": Quantity("available domains", share=True),
    "completed_fraction": Quantity("completed fraction", share=True),
    "wall_s": Quantity("real time of the run", "s"),
    "strategy.name": Quantity("scheme"),
    "protection.name": Quantity("protection"),
    "strategy.redundancy": Quantity("redundancy r", symbol="r"),
    "job.groups": Quantity("groups N", symbol="N"),
    "job.gpus": Quantity("GPUs"),
    "job.gpus_per_group": Quantity("GPUs a group"),
    "job.compute_s": Quantity("compute time of a stack", "s", symbol="compute"),
    "job.compute_jitter": Quantity("jitter of compute"),
    "job.parameter_bytes": Quantity("size of the model", "TB", 1e-12, symbol="model"),
    "failures.mtbf_s": Quantity("MTBF of the system", "s", symbol="MTBF"),
    "failures.distribution": Quantity("failures"),
    "failures.shape": Quantity("Weibull shape"),
    "failures.clock": Quantity("failure clock"),
    "detection.watchdog_s": Quantity("time-out of the watchdog", "s", symbol="watchdog"),
    "all_reduce.time_s": Quantity("all-reduce time", "s", symbol="all-reduce"),
    "all_reduce.failed_fraction": Quantity("failed all-reduce, fraction of its time"),
    "checkpoint.interval_steps": Quantity("checkpoint interval", "steps", symbol="interval"),
    "checkpoint.write_s": Quantity("checkpoint write time", "s", symbol="checkpoint write"),
    "restart.duration_s": Quantity("restart duration", "s", symbol="restart"),
    "restart.controller_s": Quantity("controller time", "s", symbol="controller"),
    "platform.file": Quantity("platform"),
}
_SUFFIXES = {"_bytes_per_s": "B/s", "_bytes": "B", "_steps": "steps", "_s": "s"}


def quantity(name: str) -> Quantity:
    """Return how a column of a sweep is read: of a record as that defines it.

    Columns that nobody knows are named after themselves: underscores become blanks, and a unit at
    the end of the name stays a unit.
    """
    if name in COLUMNS:
        known = COLUMNS[name]
        return Quantity(
            known.label, known.shown_unit, known.scale, known.better, known.symbol, known.share
        )
    if name in _KNOWN:
        return _KNOWN[name]
    # The first table says where in the scenario to look; those below it name a scheme or a part.
    *tables, last = name.split(".")
    suffix = next((suffix for suffix in _SUFFIXES if last.endswith(suffix)), "")
    words = " ".join((*tables[1:], last.removesuffix(suffix))).replace("_", " ")
    return Quantity(words, _SUFFIXES.get(suffix, ""))


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
        unit = f" {known.unit}" if known.unit else ""
        parts.append(f"{name}{shown_value(column, value)}{unit}")
    return ", ".join(parts)
