"""Paired comparison of runs with the same seed and settings except for one axis; its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from faultline.experiments.analysis.intervals import paired_differences
from faultline.experiments.analysis.quantities import (
    counted,
    is_missing,
    quantity,
    shown_value,
    value_text,
)
from faultline.experiments.analysis.selection import (
    at_best,
    axes_of,
    caveats,
    check_axis,
    check_metric,
    gave_up_rows,
    is_knob,
    knobs_of,
    machines_notes,
    successful,
    varied_axes,
)
from faultline.experiments.config.errors import UserError, did_you_mean

_FEWEST_SEEDS = 3
SECTIONS = ("at_best", "overall", "settings")
BASELINE = "baseline "
PAIRED_AT = "paired_at"
ALL_SETTINGS = "all settings"


def _keys(values: pd.Series) -> list[Any]:
    # NaN is not equal to itself, but two missing values match.
    return [None if is_missing(value) else value for value in values.unique()]


def _paired_runs(
    runs: pd.DataFrame,
    by: str,
    value: Any,
    baseline: Any,
    axes: Sequence[str],
    metric: str,
    own: Sequence[str] = (),
) -> pd.DataFrame:
    """Pair the runs of a value of an axis with those of the baseline; otherwise as `compare`.

    Knobs without a common value, such as a redundancy that only one scheme has, are not matched:
    each side keeps its own, and every combination is compared. All that the user does not choose,
    such as the failures, must be equal on both sides.

    The frame has a row per pair: the other axes (of the value's side), ``seed``, ``ours``,
    ``theirs``, ``gave_up`` and ``baseline_gave_up``. Axes that could not be matched have a second
    column for the baseline's side, with the prefix ``baseline ``.
    """
    ours, theirs = (
        runs.loc[runs[by] == chosen, [*axes, *own, "seed", metric]].assign(
            gave_up=gave_up_rows(runs).astype(int)
        )
        for chosen in (value, baseline)
    )
    knobs = filter(is_knob, axes)
    apart = [knob for knob in knobs if set(_keys(ours[knob])).isdisjoint(_keys(theirs[knob]))]
    apart += own
    shared = [axis for axis in axes if axis not in apart]
    renamed = theirs.rename(
        columns={metric: "theirs", "gave_up": "baseline_gave_up"}
        | {axis: f"{BASELINE}{axis}" for axis in apart}
    )
    return ours.rename(columns={metric: "ours"}).merge(renamed, on=[*shared, "seed"])


def compare(
    runs: pd.DataFrame,
    by: str,
    baseline: Any,
    axes: Sequence[str],
    metric: str,
    *,
    own: Sequence[str] = (),
    over_all: bool = False,
) -> pd.DataFrame:
    """Compare each value of an axis with the baseline, with 95 % intervals by paired t.

    Runs are successful ones, a row per run, with the column ``seed``. `axes` are all except `by`.
    Those in `own` are never matched. The average `over_all` settings covers those that are paired
    in every seed. Column ``paired_at`` names the only values at which a value's runs are paired.

    The frame has a row per value and setting: `by`, the axes, and the columns of
    `paired_differences`, whose pairs are seeds. ``settings`` is the number averaged over;
    ``gave_up`` and ``baseline_gave_up`` count runs that gave up on each side.
    """
    tables = []
    for value in _others(runs, by, baseline):
        pairs = _paired_runs(runs, by, value, baseline, axes, metric, own)
        labels = [
            column
            for column in pairs.columns
            if column not in {"seed", "ours", "theirs", "gave_up", "baseline_gave_up"}
        ]
        matched = [axis for axis in axes if f"{BASELINE}{axis}" not in labels]
        if over_all:
            pairs = _in_every_seed(pairs, labels)
        paired_at = _restriction(pairs, runs[runs[by].isin([value, baseline])], matched)
        if over_all:
            pairs, labels = _mean_of_settings(pairs), []
        else:
            pairs = pairs.assign(settings=1)
        table = paired_differences(
            pairs,
            labels,
            settings=("settings", "first"),
            gave_up=("gave_up", "sum"),
            baseline_gave_up=("baseline_gave_up", "sum"),
        )
        tables.append(table.assign(**{by: value, PAIRED_AT: paired_at}))
    tables = [table for table in tables if not table.empty]
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[by])
    return table[[by, *table.columns.drop(by)]]


def _others(runs: pd.DataFrame, by: str, baseline: Any) -> list[Any]:
    return [value for value in runs[by].dropna().unique() if value != baseline]


def unpaired_runs(
    runs: pd.DataFrame, by: str, baseline: Any, axes: Sequence[str]
) -> dict[Any, int]:
    """Count the runs without a partner in the baseline, for each other value of an axis."""
    numbered = runs.assign(number=range(len(runs)))
    return {
        value: int((runs[by] == value).sum())
        - _paired_runs(numbered, by, value, baseline, axes, "number")["ours"].nunique()
        for value in _others(runs, by, baseline)
    }


def _in_every_seed(pairs: pd.DataFrame, labels: list[str]) -> pd.DataFrame:
    """Return the pairs of those settings that every seed has."""
    if not labels:
        return pairs
    sizes = pairs.groupby(labels, dropna=False)["seed"].transform("nunique")
    return pairs[sizes == pairs["seed"].nunique()]


def _restriction(pairs: pd.DataFrame, runs: pd.DataFrame, axes: Sequence[str]) -> str:
    """Return the values of axes that some `pairs` have, if the `runs` of both sides have more."""
    texts = []
    for axis in axes:
        paired = _keys(pairs[axis])
        if set(paired) != set(_keys(runs[axis])):
            name = quantity(axis).symbol or quantity(axis).label
            texts.append(f"{name} = {', '.join(shown_value(axis, value) for value in paired)}")
    return "; ".join(texts) or ALL_SETTINGS


def _mean_of_settings(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return one pair per seed: its mean over settings.

    Pairs of one seed share their failures, so only seeds are independent samples.
    """
    return pairs.groupby("seed", as_index=False).agg(
        ours=("ours", "mean"),
        theirs=("theirs", "mean"),
        settings=("ours", "size"),
        gave_up=("gave_up", "sum"),
        baseline_gave_up=("baseline_gave_up", "sum"),
    )


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """The result of `make_report`."""

    # The compared column, and the axis whose values are compared.
    metric: str
    by: str
    baseline: Any  # The other values are compared with this one.
    # ``at_best``, ``overall`` and ``settings``, as `compare` returns them. Redundant ones are
    # absent.
    sections: dict[str, pd.DataFrame]
    notes: list[str]  # Sentences on runs that failed, gave up or have no partner.


def make_report(
    frame: pd.DataFrame, metric: str, by: str | None = None, baseline: str | None = None
) -> ComparisonReport:
    """Compare the values of an axis of a sweep with one of them, by a numeric column.

    The default axis is the scheme if it was varied, else the first varied axis. The baseline is
    given as text; its default is the first value of the axis.

    It is a UserError if the metric, axis or value is missing, or if no runs can be compared.
    """
    runs = successful(frame)
    check_metric(runs, metric)
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
    notes = [*caveats(frame), *machines_notes(frame)]
    pairs = int(sections["settings"]["pairs"].max())
    if pairs < _FEWEST_SEEDS:
        notes.append(
            f"{counted(pairs, 'seed')}: a difference of fewer than {_FEWEST_SEEDS} may be luck; "
            "run more seeds."
        )
    for value, count in unpaired_runs(runs, by, chosen, axes).items():
        both = runs[runs[by].isin([value, chosen])]
        theirs = unpaired_runs(both, by, value, axes)[chosen]
        for of, lacking, other in ((value, count, chosen), (chosen, theirs, value)):
            if lacking:
                notes.append(
                    f"{lacking} of the runs of {value_text(of)} have no partner with "
                    f"{value_text(other)} of the same seed and setting."
                )
    return ComparisonReport(metric, by, chosen, sections, notes)


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
        sections["at_best"] = compare(best, by, baseline, kept, metric, own=knobs)
    return {name: sections[name] for name in SECTIONS if name in sections}


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
