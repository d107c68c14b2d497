"""Each scheme at its best: the setting of its own knobs with the best mean."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.analysis.selection import gave_up_rows, knobs_of, varied_axes


def at_best(
    runs: pd.DataFrame, kept: Sequence[str], knobs: Sequence[str], metric: str
) -> pd.DataFrame:
    """Return the runs with the best setting of `knobs` for each setting of `kept`.

    The best is picked by the same seeds that it is judged by, so its mean flatters it a little; the
    more settings lie near it, the more.

    Parameters
    ----------
    runs : DataFrame
        Successful runs, a row each, with the column ``seed``.
    kept : sequence of str
        Axes that are given, such as the scheme and the failures.
    knobs : sequence of str
        Axes that may be chosen for each of them.
    metric : str
        What is best in: a quantity that is better the lower, or the higher, it is.

    Returns
    -------
    DataFrame
        Those rows, in their order. Settings with fewer seeds than others of the same `kept` are
        passed over: where runs failed, the mean over the others would flatter. Settings under which
        jobs gave up come after those under which fewer did: a job that gave up has not trained.
    """
    if not knobs:
        return runs
    names = list(kept)
    table = mean_over_seeds(runs, [*names, *knobs], metric).drop(columns=["low", "high"])
    if quantity(metric).better == "higher":
        table["mean"] = -table["mean"]
    groups = [table[name] for name in names] or [pd.Series(0, index=table.index)]
    grouped = table.groupby(groups, dropna=False, sort=False)
    table = table[table["seeds"] == grouped["seeds"].transform("max")]
    groups = [series.loc[table.index] for series in groups]
    gave_up = runs[[*names, *knobs]].assign(gave_up=gave_up_rows(runs).astype(int))
    gave_up = gave_up.groupby([*names, *knobs], dropna=False)["gave_up"].sum().reset_index()
    table = table.merge(gave_up, on=[*names, *knobs], how="left").set_axis(table.index)
    # Sorted by mean, stably: of equal ones the first in the order of the knobs is taken.
    first = table.sort_values(["gave_up", "mean"], kind="stable")
    first = first.groupby([series.loc[first.index] for series in groups], dropna=False).head(1)
    chosen = first[[*names, *knobs]]
    positions = pd.Series(range(len(runs)), name="position")
    marked = runs[[*names, *knobs]].reset_index(drop=True).assign(position=positions)
    places = marked.merge(chosen, on=[*names, *knobs])["position"].sort_values()
    return runs.iloc[places.to_numpy()]


def without_other_knobs(
    frame: pd.DataFrame, drawn: Collection[str | None], metric: str
) -> tuple[pd.DataFrame, list[str]]:
    """Put the knobs that a picture does not show to their best.

    Parameters
    ----------
    frame : DataFrame
        A sweep, a row a run.
    drawn : collection of str
        The axes that the picture shows.
    metric : str
        What is best in: a quantity that is better the lower, or the higher, it is.

    Returns
    -------
    frame : DataFrame
        The runs with the best setting for each setting of all other axes, and the failed runs; the
        columns of those knobs are gone.
    notes : list of str
        A sentence that says so, if there are such knobs.
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
