"""Badput as stacked bars, one per point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.quantities import duration_text, is_missing, setting_text
from faultline.experiments.analysis.selection import successful
from faultline.experiments.figures.palette import look_of
from faultline.experiments.figures.style import (
    CAUSE_LOOKS,
    figure_style,
    in_order,
    name_rows,
    run_notes,
    stack_bars,
    write_notes,
    write_title,
)
from faultline.simulator.accounting.badput import CAUSES, MEANINGS, USEFUL
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

_SECONDS = [f"{cause}_s" for cause in CAUSES]


def draw_badput(frame: pd.DataFrame, by: Sequence[str], notes: Sequence[str] = ()) -> Figure:
    """Draw a bar for each combination of `by`: mean shares of the time, useful causes first.

    The frame has a column ``<cause>_s`` per cause in `CAUSES`. The other arguments are those of
    `curves.draw_curves`.
    """
    keys = list(by)
    table = _mean_seconds(successful(frame), keys)
    amounts = table[_SECONDS].div(table[_SECONDS].sum(axis=1), axis=0) * 100
    useful = amounts[[f"{cause}_s" for cause in USEFUL]].sum(axis=1, skipna=False) / 100
    labels = [_label(row) for row in table[keys].to_dict(orient="records")]
    with figure_style():
        places = _places(table, keys)
        figure = Figure(figsize=(9.6, 1.9 + 0.3 * places[-1]))
        axis = figure.subplots()
        stack_bars(axis, places, amounts, (CAUSE_LOOKS[cause] for cause in CAUSES), height=0.78)
        _name_bars(axis, labels, places, useful)
        axis.set_xlabel("share of the time (%)")
        axis.set_xlim(0, 100)
        figure.legend(handles=_legend(amounts), loc="outside right center")
        low, high = (f"{100 * end:.0f}" for end in (useful.min(), useful.max()))
        share = low if low == high else f"{low} to {high}"
        write_title(figure, f"{share} % of the time is useful: simulated time by cause")
        useful_share = "Right: useful share of the time."
        write_notes(figure, [*notes, useful_share, *run_notes(frame, keys, "Mean")])
    return figure


def _mean_seconds(runs: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    table = runs.groupby(keys, dropna=False, sort=False)[_SECONDS].mean().reset_index()
    for key in reversed(keys):
        order = {value: place for place, value in enumerate(in_order(runs[key]))}
        places = table[key].map(order).fillna(-1)
        table = table.iloc[np.argsort(places.to_numpy(), kind="stable")]
    table = table.reset_index(drop=True)
    # A negative wait, of groups that are faster than nominal, shortens the compute.
    faster = table["waiting_s"].clip(upper=0)
    return table.assign(
        compute_s=table["compute_s"] + faster, waiting_s=table["waiting_s"] - faster
    )


def _label(setting: dict[Any, Any]) -> str:
    name = setting.get("strategy.name")
    if name is not None:
        setting = setting | {"strategy.name": look_of(name).label}
    every: Any = setting.get("failures.mtbf_s")
    if is_missing(every):
        return setting_text(setting)
    rest = {key: value for key, value in setting.items() if key != "failures.mtbf_s"}
    return f"a failure every {duration_text(every)}: {setting_text(rest)}".removesuffix(": ")


def _places(table: pd.DataFrame, keys: list[str]) -> np.ndarray:
    """Return the place of each bar, with gaps between values of the first of several keys."""
    if len(keys) < 2:
        return np.arange(len(table), dtype=float)
    first = table[keys[0]].to_numpy()
    begins = np.concatenate([[0.0], (first[1:] != first[:-1]).astype(float)])
    return np.arange(len(table)) + 0.5 * np.cumsum(begins)


def _name_bars(axis: Axes, labels: list[str], places: np.ndarray, useful: pd.Series) -> None:
    name_rows(axis, places.tolist(), labels)
    for place, share in zip(places, useful, strict=True):
        text = f"{share:.0%}" if np.isfinite(share) else "–"
        axis.annotate(
            text, (1, place), xycoords=("axes fraction", "data"), xytext=(4, 0),
            textcoords="offset points", va="center", fontsize=8,
        )  # fmt: skip


def _legend(amounts: pd.DataFrame) -> list[Patch]:
    """Return an entry for each visible cause, in the order of the bars."""
    visible = amounts.max() > 3e-3 * amounts.sum(axis=1).max()
    return [
        Patch(
            facecolor=CAUSE_LOOKS[cause].colour, hatch=CAUSE_LOOKS[cause].hatch,
            edgecolor="white", linewidth=0.4, label=MEANINGS[cause],
        )
        for cause, column in zip(CAUSES, _SECONDS, strict=True)
        if visible[column]
    ]  # fmt: skip
