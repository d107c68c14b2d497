"""What was asked: every key of the scenario with its value, its unit and its meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from faultline.experiments.analysis.numbers import is_missing, number_range, with_unit
from faultline.experiments.config.reference import KeyReference, scenario_reference

_NOT_OF_THE_QUESTION = ("version", "name", "description")

# Left open, these are filled in for each run; the records say with what.
_FILLED_IN = {
    "strategy.redundancy": "redundancy",
    "checkpoint.interval_steps": "checkpoint_interval_steps",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of the scenario.

    Attributes
    ----------
    key : str
        Its dotted name.
    value : str
        Its value, or the values that the sweep gives it, with the unit.
    meaning : str
        What it stands for.
    varied : bool
        Whether the sweep varies it.
    idle : bool
        Whether other settings make it meaningless.
    """

    key: str
    value: str
    meaning: str
    varied: bool
    idle: bool


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the scenario."""

    name: str
    summary: str
    settings: tuple[Setting, ...]


def scenario_sections(
    fixed: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], frame: pd.DataFrame
) -> tuple[Section, ...]:
    """Return all that the scenario says, by section, in the order of the schema.

    Parameters
    ----------
    fixed : mapping of str to object
        Dotted keys and values that all points have in common.
    axes : mapping of str to sequence
        Dotted keys that the sweep varies, with their values.
    frame : DataFrame
        The runs: their records say what became of values that were left open.

    Notes
    -----
    Keys that this version does not know are told without a meaning: a sweep may be older.
    """
    known = _references()
    played = {key: [value] for key, value in fixed.items()} | {
        key: list(values) for key, values in axes.items()
    }
    keys = [key for key in known if key in played] + [key for key in played if key not in known]
    sections: dict[str, list[Setting]] = {}
    for key in keys:
        if key in _NOT_OF_THE_QUESTION:
            continue
        reference = known.get(key)
        setting = Setting(
            key,
            ", ".join(value_text(key, value) for value in played[key])
            + _filled_in(key, played, frame),
            reference.meaning if reference else "",
            key in axes,
            _is_idle(reference, played),
        )
        sections.setdefault(key.partition(".")[0], []).append(setting)
    return tuple(
        Section(name.replace("_", " "), meaning_of(name), tuple(settings))
        for name, settings in sections.items()
    )


def meaning_of(key: str) -> str:
    """Return what a dotted key of a scenario means, or nothing for a key that it does not have."""
    reference = _references().get(key)
    return reference.meaning if reference else ""


def value_text(key: str, value: Any) -> str:
    """Write a value of a scenario's key with its unit; what was left open is told as such."""
    if is_missing(value):
        return "left open"
    reference = _references().get(key)
    return with_unit(value, reference.unit if reference else None)


def _references() -> dict[str, KeyReference]:
    return {reference.dotted: reference for reference in scenario_reference().values()}


def _filled_in(key: str, played: Mapping[str, Sequence[Any]], frame: pd.DataFrame) -> str:
    column = _FILLED_IN.get(key)
    if column not in frame or not any(map(is_missing, played[key])):
        return ""
    left_open = frame[frame[key].isna()] if key in frame else frame
    return f" (filled in: {number_range(left_open[column])})"


def _is_idle(reference: KeyReference | None, played: Mapping[str, Sequence[Any]]) -> bool:
    conditions = reference.only_with if reference else {}
    return any(
        key in played and not {_as_toml(value) for value in played[key]} & set(wanted)
        for key, wanted in conditions.items()
    )


def _as_toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
