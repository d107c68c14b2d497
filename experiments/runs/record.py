"""The record of a run: each column defined once, with unit, meaning and which way is good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from faultline.simulator.badput import CAUSES, MEANINGS

Record = dict[str, Any]
"""A flat record: column to scalar."""

Kind = Literal["text", "count", "number"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a record.

    Attributes
    ----------
    name : str
        Its key; ends with the unit of its values, if they have one.
    kind : {"text", "count", "number"}
        Text, a whole number, or any number.
    label : str
        Its name in words, without the unit, for axes and tables.
    meaning : str
        What it says, in a sentence without a full stop.
    better : {"lower", "higher"} or None
        Which way is good; None where neither is.
    unit : str
        Of its values: "s", "steps", or "1" for counts and ratios; empty for text.
    shown_unit, scale : str, float
        The unit in which people read it, and what a value is multiplied with to be in it.
    symbol : str
        What stands for it where there is little room; by default the label.
    optional : bool
        Whether a run may have no value.
    """

    name: str
    kind: Kind
    label: str
    meaning: str
    better: Literal["lower", "higher"] | None = None
    unit: str = "1"
    shown_unit: str = ""
    scale: float = 1.0
    symbol: str = ""
    optional: bool = False


def _text(name: str, label: str, meaning: str) -> Column:
    return Column(name, "text", label, meaning, unit="")


def _count(name: str, label: str, meaning: str, **more: Any) -> Column:
    return Column(name, "count", label, meaning, **more)


def _time(name: str, label: str, meaning: str, shown: str, **more: Any) -> Column:
    scale = {"days": 1 / 86400.0, "hours": 1 / 3600.0}[shown]
    return Column(name, "number", label, meaning, unit="s", shown_unit=shown, scale=scale, **more)


_STEPS = {"unit": "steps", "shown_unit": "steps"}

_DEFINED = (
    _text("scenario", "scenario", "name of the scenario"),
    _text("scenario_hash", "scenario", "digest of all the scenario says but name and description"),
    _text("version", "version", "version of Faultline"),
    _text("strategy", "scheme", "the fault-tolerance scheme"),
    _text("engine", "engine", "which engine played: replay or simgrid"),
    _count("seed", "seed", "names the random numbers; one seed, one record"),
    _count("groups", "groups N", "data-parallel groups of the job", symbol="N"),
    _count("gpus", "GPUs", "GPUs of the job, without spares"),
    _count("redundancy", "redundancy r", "copies of each shard type, as played", symbol="r"),
    _count(
        "checkpoint_interval_steps", "checkpoint interval", "steps between checkpoints", **_STEPS
    ),
    Column(
        "checkpoint_interval_s",
        "number",
        "time between checkpoints",
        "how long the steps between two checkpoints take on average",
        unit="s",
        shown_unit="minutes",
        scale=1 / 60.0,
    ),
    _text("protection", "protection", "how the state is kept between checkpoints"),
    _count(
        "snapshot_interval_steps",
        "snapshot interval",
        "steps between snapshots in memory",
        optional=True,
        **_STEPS,
    ),
    _text("distribution", "failures", "the process that failures come from"),
    _count("steps", "steps", "steps that the job is asked for"),
    Column(
        "completed_steps",
        "number",
        "steps completed",
        "full batches trained and not taken back by a restart",
        "higher",
    ),
    _time("time_s", "simulated time", "simulated time of the whole job", "days", better="lower"),
    Column(
        "goodput",
        "number",
        "goodput",
        "share of the time that went into useful work",
        "higher",
        shown_unit="%",
        scale=100.0,
    ),
    Column(
        "time_to_train_ratio",
        "number",
        "time-to-train ratio",
        "simulated time over that of as many steps without redundancy, failures, jitter and "
        "checkpoints; infinite where no step was done",
        "lower",
    ),
    Column(
        "availability",
        "number",
        "availability",
        "share of the time in which the job was up: not restarting, loading or reconfiguring",
        "higher",
        shown_unit="%",
        scale=100.0,
    ),
    _time(
        "downtime_s",
        "downtime",
        "time of restarts, loads and reconfigurations",
        "days",
        better="lower",
    ),
    _count("restarts", "restarts", "global restarts", better="lower"),
    _count(
        "restarts_from_memory",
        "restarts from nodes' own memory",
        "restarts after which every node had its state in its memory",
    ),
    _count(
        "restarts_from_peers",
        "restarts from the memory of peers",
        "restarts after which what lost nodes had held was found at their peers",
    ),
    _count("rejoined", "groups that came back", "groups that came back, spares included"),
    _count("failures", "failures", "failures of groups"),
    _count(
        "failures_while_down",
        "failures of groups that were down",
        "failures that struck a group which was down already",
    ),
    _count("reorderings", "reorderings", "times that shard types were put in another order"),
    _count("moved_types", "shard types moved", "shard types that groups took over"),
    _count("checkpoints", "checkpoints written", "checkpoints written to storage"),
    _count(
        "snapshots",
        "snapshots taken in the background",
        "snapshots taken in the background, in memory and on storage",
    ),
    _count("played_steps", "steps played", "all-reduced steps, lost and repeated ones included"),
    Column(
        "mean_stacks",
        "number",
        "mean stacks a step",
        "shard types that a group computes in a step, patch compute included, on average",
    ),
    *(
        _time(
            f"{cause}_s",
            MEANINGS[cause],
            f"simulated time booked under: {MEANINGS[cause]}",
            "hours",
        )
        for cause in CAUSES
    ),
)

COLUMNS: dict[str, Column] = {one.name: one for one in _DEFINED}
"""All columns of a record by name, in its order; those of `FAMILIES` stand beside them."""

FAMILIES: dict[str, Column] = {
    "failures_by_cause.": _count(
        "failures_by_cause.",
        "failures by",
        "failures of groups by that cause, where causes are known",
    ),
}
"""Columns of which there is one a name: by what stands before that name."""


def column(name: str) -> Column | None:
    """Return the definition of a column of a record, or None if it has none of that name."""
    if name in COLUMNS:
        return COLUMNS[name]
    return next((FAMILIES[prefix] for prefix in FAMILIES if name.startswith(prefix)), None)
