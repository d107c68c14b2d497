"""Selection of the runs of a sweep: successful ones, their axes, and each scheme at its best."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import grouped_by, mean_over_seeds
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.keys import schema_keys
from faultline.experiments.config.scenario import Scenario

_CHOSEN_TABLES = ("strategy", "protection")
_OTHER_KNOBS = ("checkpoint.interval_steps",)
_FEW_SOURCES = 2
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def axes_of(frame: pd.DataFrame) -> list[str]:
    """Return the axes of a sweep, in order: its columns that are keys of a scenario."""
    keys = {key.dotted for key in schema_keys(Scenario).values() if "." in key.dotted}
    return [name for name in frame.columns if name in keys]


def varied_axes(frame: pd.DataFrame) -> list[str]:
    """Return the axes that have more than one value."""
    return [axis for axis in axes_of(frame) if frame[axis].nunique(dropna=False) > 1]


def is_knob(axis: str) -> bool:
    """Whether a user may set an axis for each scheme: its redundancy, its protection."""
    table = axis.partition(".")[0]
    return axis in _OTHER_KNOBS or (table in _CHOSEN_TABLES and axis != "strategy.name")


def knobs_of(frame: pd.DataFrame) -> list[str]:
    """Return the knobs that have more than one value."""
    return [axis for axis in varied_axes(frame) if is_knob(axis)]


def is_numeric_axis(frame: pd.DataFrame, axis: str) -> bool:
    """Return whether all values of an axis are numbers; missing values are ignored."""
    values = frame[axis].dropna().unique()
    return len(values) > 0 and all(
        isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_))
        for value in values
    )


def metrics_of(frame: pd.DataFrame) -> list[str]:
    """Return the columns that can be averaged: numbers that are neither an axis nor the seed."""
    axes = axes_of(frame)
    return [
        name
        for name in frame.columns
        if name not in axes
        and name != "seed"
        and pd.api.types.is_numeric_dtype(frame[name])
        and not pd.api.types.is_bool_dtype(frame[name])
    ]


def check_metric(frame: pd.DataFrame, metric: str) -> None:
    """Raise a UserError, with the likely metric, if the sweep lacks one."""
    known = metrics_of(frame)
    if metric not in known:
        raise UserError(
            f"--metric {metric}: the sweep has no such metric; {did_you_mean(str(metric), known)}"
        )


def check_axis(frame: pd.DataFrame, axis: str, origin: str) -> None:
    """Raise a UserError, with the likely axis, if the sweep lacks one."""
    known = axes_of(frame)
    if axis in known:
        return
    remedy = did_you_mean(str(axis), known) if known else "nothing was varied but the seed"
    raise UserError(f"{origin} {axis}: the sweep has no such axis; {remedy}")


def successful(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that have a record; if there is none, that is a UserError."""
    if "status" not in getattr(frame, "columns", ()):
        raise UserError("these are no runs of a sweep: they have no column 'status'")
    good = frame[frame["status"] == "ok"]
    if good.empty:
        raise UserError(f"none of the {len(frame)} runs of this sweep gave a record")
    return good


def caveats(frame: pd.DataFrame) -> list[str]:
    """Return caveats about the runs behind a figure or a table, one sentence each."""
    sentences = []
    failed = int((frame["status"] != "ok").sum())
    if failed:
        sentences.append(f"{_runs(failed)} failed and {_are(failed)} left out.")
    gave_up = int(gave_up_rows(frame).sum())
    if gave_up:
        sentences.append(
            f"{_runs(gave_up)} gave up before the last step and {_are(gave_up)} taken as far as "
            f"{'they' if gave_up > 1 else 'it'} came."
        )
    return sentences


def machines_notes(frame: pd.DataFrame) -> list[str]:
    """Return where failed machines are replaced from, a sentence per source.

    Sources that differ in numbers alone are one, with the ranges of these numbers. If there are
    more than a few, the runs' column has them.
    """
    texts = frame["machines"].dropna().unique() if "machines" in frame else []
    alike: dict[str, list[list[str]]] = {}
    for text in texts:
        alike.setdefault(_NUMBER.sub("{}", text), []).append(_NUMBER.findall(text))
    if len(alike) > _FEW_SOURCES:
        return ["Replacement machines differ between the settings: see the column machines."]
    return [
        f"Machines: {source.format(*map(_range_text, zip(*numbers, strict=True)))}."
        for source, numbers in alike.items()
    ]


def _range_text(numbers: Sequence[str]) -> str:
    """Return the least and the largest of some written numbers."""
    low, *_, high = sorted((*numbers, numbers[0]), key=lambda one: float(one.replace(",", "")))
    return low if low == high else f"{low} to {high}"


def gave_up_rows(frame: pd.DataFrame) -> pd.Series:
    """Whether each run ended before its last step."""
    if not {"completed_steps", "steps"} <= set(frame.columns):
        return pd.Series(False, index=frame.index)
    return (frame["status"] == "ok") & (frame["completed_steps"] < frame["steps"])


def _runs(count: int) -> str:
    return f"{count:,} run{'s' if count > 1 else ''}"


def _are(count: int) -> str:
    return "are" if count > 1 else "is"


def averaged_axes(frame: pd.DataFrame, kept: Collection[str]) -> list[str]:
    """Return the axes that still vary if all of the `kept` columns are fixed."""
    columns = list(kept)
    others = [axis for axis in varied_axes(frame) if axis not in columns]
    if not columns or not others:
        return others
    most = frame.groupby(columns, dropna=False)[others].nunique(dropna=False).max()
    return [axis for axis in others if most[axis] > 1]


def at_best(
    runs: pd.DataFrame, kept: Sequence[str], knobs: Sequence[str], metric: str
) -> pd.DataFrame:
    """Return the runs with the best setting of `knobs` for each setting of `kept`.

    The best setting is selected and judged by the same seeds, so its mean is slightly optimistic,
    and more so if many settings are close. Settings with fewer seeds than others of the same
    `kept` are skipped: if runs failed, the mean over the rest would be optimistic. Settings are
    first sorted by the number of jobs that gave up, because such a job has not trained.

    Runs are successful ones, a row per run, with the column ``seed``; their order stays.
    """
    if not knobs:
        return runs
    names = list(kept)
    table = mean_over_seeds(runs, [*names, *knobs], metric).drop(columns=["low", "high"])
    if quantity(metric).better == "higher":
        table["mean"] = -table["mean"]
    most = grouped_by(table, names, sort=False)["seeds"].transform("max")
    table = table[table["seeds"] == most]
    gave_up = runs[[*names, *knobs]].assign(gave_up=gave_up_rows(runs).astype(int))
    gave_up = gave_up.groupby([*names, *knobs], dropna=False)["gave_up"].sum().reset_index()
    table = table.merge(gave_up, on=[*names, *knobs], how="left")
    # A stable sort by mean: the first of equal settings, in the order of the knobs, is taken.
    ordered = table.sort_values(["gave_up", "mean"], kind="stable")
    chosen = grouped_by(ordered, names).head(1)[[*names, *knobs]]
    positions = pd.Series(range(len(runs)), name="position")
    marked = runs[[*names, *knobs]].reset_index(drop=True).assign(position=positions)
    places = marked.merge(chosen, on=[*names, *knobs])["position"].sort_values()
    return runs.iloc[places.to_numpy()]


def without_other_knobs(
    frame: pd.DataFrame, drawn: Collection[str | None], metric: str
) -> tuple[pd.DataFrame, list[str]]:
    """Set the knobs that a figure does not show to their best values in a metric.

    The frame has the best runs for each setting of all other axes, and the failed runs. It lacks
    the columns of those knobs. A sentence names such knobs, if there are any.
    """
    knobs = [knob for knob in knobs_of(frame) if knob not in drawn]
    if not knobs:
        return frame, []
    ended_well = frame["status"] == "ok"
    kept = [axis for axis in varied_axes(frame) if axis not in knobs]
    best = at_best(frame[ended_well], kept, knobs, metric)
    names = " and ".join(quantity(knob).label for knob in knobs)
    chosen = pd.concat([best, frame[~ended_well]]).drop(columns=knobs)
    return chosen, [f"Each point at the {names} with the best {quantity(metric).label}."]
