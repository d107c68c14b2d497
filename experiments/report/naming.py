"""What settings and choices are called on the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from faultline.experiments.analysis.quantities import quantity, setting_text, shown_value
from faultline.experiments.figures.palette import look_of
from faultline.experiments.report.quantities import is_missing


def scheme_name(name: Any) -> str:
    """Return a scheme's name in words."""
    return look_of(str(name)).label


def axis_value(axis: str, value: Any) -> str:
    """Return a value of an axis as it stands in a table whose heading names the unit."""
    if is_missing(value):
        return shown_value(axis, None)
    return scheme_name(value) if axis == "strategy.name" else shown_value(axis, value)


def axis_title(axis: str) -> str:
    """Return the heading of an axis, with its unit."""
    return quantity(axis).with_unit


def choice_name(row: Mapping[Any, Any], knobs: Iterable[str]) -> str:
    """Return a scheme with its redundancy and other knobs: ``SPARe + checkpoint, r = 9``."""
    return ", ".join(filter(None, (scheme_name(row["strategy"]), knobs_name(row, knobs))))


def knobs_name(row: Mapping[Any, Any], knobs: Iterable[str]) -> str:
    """Return the knobs of a choice: ``r = 9, checkpoint interval = 12 steps``.

    Parameters
    ----------
    row : mapping
        ``redundancy`` as it was played (1 is none), and the knobs.
    knobs : iterable of str
        Dotted keys; those without a value do not exist for this scheme.
    """
    redundancy = None if row["redundancy"] == 1 else row["redundancy"]
    others = {knob: row[knob] for knob in knobs if knob != "strategy.redundancy"}
    return setting_text({"strategy.redundancy": redundancy, **others})
