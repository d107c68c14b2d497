"""What the columns of a sweep are called, in which unit they are read, and which way is good."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from faultline.simulator.badput import CAUSES, MEANINGS


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


_DAYS = 1 / 86400.0
_HOURS = 1 / 3600.0

_KNOWN = {
    "time_to_train_ratio": Quantity("time-to-train ratio", better="lower"),
    "availability": Quantity("availability", "%", 100.0, "higher", share=True),
    "available_domains": Quantity("available domains", share=True),
    "completed_fraction": Quantity("completed fraction", share=True),
    "goodput": Quantity("goodput", "%", 100.0, "higher", share=True),
    "time_s": Quantity("simulated time", "days", _DAYS, "lower"),
    "downtime_s": Quantity("downtime", "days", _DAYS, "lower"),
    "restarts": Quantity("restarts", better="lower"),
    "restarts_from_memory": Quantity("restarts from nodes' own memory"),
    "restarts_from_peers": Quantity("restarts from the memory of peers"),
    "rejoined": Quantity("groups that rejoined"),
    "snapshots": Quantity("snapshots taken in the background"),
    "snapshot_interval_steps": Quantity("snapshot interval", "steps"),
    "failures": Quantity("failures"),
    "failures_while_down": Quantity("failures of groups that were down"),
    "reorderings": Quantity("reorderings"),
    "moved_types": Quantity("shard types moved"),
    "checkpoints": Quantity("checkpoints written"),
    "checkpoint_interval_steps": Quantity("checkpoint interval", "steps"),
    "checkpoint_interval_s": Quantity("time between checkpoints", "minutes", 1 / 60),
    "completed_steps": Quantity("steps completed", better="higher"),
    "played_steps": Quantity("steps played"),
    "mean_stacks": Quantity("mean stacks a step"),
    "groups": Quantity("groups N", symbol="N"),
    "gpus": Quantity("GPUs"),
    "redundancy": Quantity("redundancy r", symbol="r"),
    "wall_s": Quantity("real time of the run", "s"),
    "seed": Quantity("seed"),
    "strategy.name": Quantity("scheme"),
    "protection.name": Quantity("protection"),
    "strategy.redundancy": Quantity("redundancy r", symbol="r"),
    "job.groups": Quantity("groups N", symbol="N"),
    "job.gpus": Quantity("GPUs"),
    "job.gpus_per_group": Quantity("GPUs a group"),
    "job.steps": Quantity("steps"),
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
    **{f"{cause}_s": Quantity(MEANINGS[cause], "hours", _HOURS) for cause in CAUSES},
}

_UNITS = {
    "bytes_per_s": "B/s",
    "bytes": "B",
    "steps": "steps",
    "s": "s",
}


def quantity(column: str) -> Quantity:
    """Return how a column of a sweep is read.

    Columns that the table does not know are named after themselves: underscores become blanks, and
    a unit at the end of the name stays a unit.
    """
    if column in _KNOWN:
        return _KNOWN[column]
    *tables, name = column.split(".")
    for suffix, unit in _UNITS.items():
        if name.endswith(f"_{suffix}"):
            return Quantity(_in_words(tables, name.removesuffix(f"_{suffix}")), unit)
    return Quantity(_in_words(tables, name))


def _in_words(tables: list[str], name: str) -> str:
    # The first table says where in the scenario to look; those below it name a scheme or a part.
    return " ".join((*tables[1:], name)).replace("_", " ")


def is_missing(value: Any) -> bool:
    """Whether there is no value: None or NaN, as for an axis that a scheme does not have."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def value_text(value: Any) -> str:
    """Return a value of an axis as people write it; a dash where there is none."""
    if is_missing(value):
        return "–"
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    if isinstance(value, (int, float, np.integer, np.floating)):
        number = float(value)
        return f"{number:,.6g}" if abs(number) < 1e6 else f"{number:.4g}"
    return str(value)


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
