"""A comparison in three sections: each at its best, over all settings, setting by setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
from faultline.experiments.analysis.best import at_best
from faultline.experiments.analysis.comparison import compare, unpaired_runs
from faultline.experiments.analysis.numbers import value_text
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.analysis.selection import (
    axes_of,
    caveats,
    check_axis,
    check_metric,
    knobs_of,
    successful,
    varied_axes,
)
from faultline.experiments.config.errors import UserError, did_you_mean


@dataclass(frozen=True, slots=True)
class Report:
    """What `make_report` found.

    Attributes
    ----------
    metric, by : str
        Columns compared, and the axis whose values are.
    baseline : object
        The value that the others are compared with.
    sections : dict of str to DataFrame
        ``at_best``, ``overall`` and ``settings``, as `compare` returns them; only those that say
        something.
    notes : list of str
        Sentences on runs that failed, gave up or have no partner.
    """

    metric: str
    by: str
    baseline: Any
    sections: dict[str, pd.DataFrame]
    notes: list[str]

    @property
    def headline(self) -> str:
        """What is compared with what, in one line."""
        what = quantity(self.metric)
        way = f" ({what.better} is better)" if what.better else ""
        against = f"{quantity(self.by).label} {value_text(self.baseline)}"
        return f"{what.label}{way}: differences from {against}, paired by seed and setting"


def make_report(
    frame: pd.DataFrame, metric: str, by: str | None = None, baseline: str | None = None
) -> Report:
    """Compare the values of an axis of a sweep with one of them.

    Parameters
    ----------
    frame : DataFrame
        The sweep, a row a run.
    metric : str
        A numeric column.
    by : str, optional
        An axis; by default the scheme where it was varied, else the first axis that was.
    baseline : str, optional
        One of its values as text; by default the first.

    Raises
    ------
    UserError
        If there is no such metric, axis or value, or nothing to compare.
    """
    runs = successful(frame)
    check_metric(runs, metric, "--metric")
    by = _axis(frame, by)
    chosen = _value(frame, by, baseline)
    if chosen not in set(runs[by]):
        raise UserError(f"--baseline {value_text(chosen)}: no run of it gave a record")
    axes = [axis for axis in axes_of(frame) if axis != by]
    sections = _sections(runs, metric, by, chosen, axes)
    if not sections:
        raise UserError(
            f"--by {by}: no run of another value has the seed and the setting of one with "
            f"{value_text(chosen)}"
        )
    notes = caveats(frame)
    for value, count in unpaired_runs(runs, by, chosen, axes).items():
        if count:
            notes.append(
                f"{count} of the runs of {value_text(value)} have no partner with "
                f"{value_text(chosen)} of the same seed and setting."
            )
    return Report(metric, by, chosen, sections, notes)


def _sections(
    runs: pd.DataFrame, metric: str, by: str, baseline: Any, axes: list[str]
) -> dict[str, pd.DataFrame]:
    settings = compare(runs, by, baseline, axes, metric)
    if settings.empty:
        return {}
    sections = {"settings": settings}
    if len(settings) > settings[by].nunique():
        overall = compare(runs, by, baseline, axes, metric, over_all=True)
        sections = {"overall": overall, **sections} if len(overall) else sections
    knobs = [axis for axis in knobs_of(runs) if axis != by]
    if knobs and quantity(metric).better:
        kept = [axis for axis in axes if axis not in knobs]
        best = at_best(runs, [by, *kept], knobs, metric)
        table = compare(best, by, baseline, kept, metric, own=knobs)
        sections["at_best"] = table
    order = ("at_best", "overall", "settings")
    return {name: sections[name] for name in order if name in sections}


def _axis(frame: pd.DataFrame, by: str | None) -> str:
    varied = varied_axes(frame)
    if by is None:
        if not varied:
            raise UserError("nothing but the seed was varied in this sweep: nothing to compare")
        return "strategy.name" if "strategy.name" in varied else varied[0]
    check_axis(frame, by, "--by")
    if by not in varied:
        raise UserError(
            f"--by {by}: it has one value only in this sweep; {did_you_mean(by, varied)}"
            if varied
            else f"--by {by}: it has one value only in this sweep: nothing to compare"
        )
    return by


def _value(frame: pd.DataFrame, by: str, text: str | None) -> Any:
    values = list(frame[by].dropna().unique())
    if text is None:
        return values[0]
    for value in values:
        if text in {str(value), value_text(value)} or _same_number(text, value):
            return value
    raise UserError(
        f"--baseline {text}: no run has {by} = {text}; "
        f"{did_you_mean(text, [value_text(value) for value in values])}"
    )


def _same_number(text: str, value: Any) -> bool:
    try:
        return bool(float(text) == float(value))
    except (TypeError, ValueError):
        return False
