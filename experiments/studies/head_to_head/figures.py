"""Figures of the head-to-head: maps of the soonest scheme, and the times of all schemes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.figures.maps import draw_cells, legend_of_cells
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.style import (
    legend_below,
    mark,
    name_rows,
    ticks_at,
    write_notes,
    write_title,
)
from faultline.experiments.studies.head_to_head.grids import FACTS, JOBS, MAPS, RATES_S
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_BY_SIZE = "sizes"
_TITLES = {
    "restart": "Slow restarts call for replica drop, fast ones for checkpoints in memory",
    "stalls": "At one price per recovery checkpoints lead from a minute on, or many tie",
    _BY_SIZE: "Replica drop leads on thousands of GPUs; on more no scheme is a clear choice",
}
"""Titles of the figures of maps: each map has its own, but for those by size."""


def name_of(scheme: str) -> str:
    """Return a scheme's title, with a star if its gradients are approximate."""
    return title_of(scheme, star=True)


def soonest_schemes(cells: pd.DataFrame) -> list[list[str]]:
    """Return the schemes that each cell of a map shows: the best one and those that tie with it."""
    pairs = zip(cells["best"], cells["ties"].fillna(""), strict=True)
    return [sorted({best, *ties.split()}) for best, ties in pairs]


def map_figures(cells: pd.DataFrame) -> dict[str, Callable[[], Figure]]:
    """Return the figures of the maps that the table has, by file name."""
    figures = cells["map"].map(lambda name: _BY_SIZE if MAPS[name].is_by_size else name)
    return {
        f"head-to-head-{name}.png": partial(draw_maps, shown, _TITLES[str(name)])
        for name, shown in cells.groupby(figures)
    }


def draw_maps(cells: pd.DataFrame, title: str) -> Figure:
    """Draw a panel per job and map: a cell has the colours of its soonest schemes."""
    cells = cells.assign(schemes=soonest_schemes(cells))
    panels = list(cells.groupby(["job", "map"], sort=False))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.5 * len(panels) + 0.6, 4.2), sharey=True, squeeze=False
    )
    is_one_map = cells["map"].nunique() == 1
    for panel, ((job, name), of_map) in zip(axes[0], panels, strict=True):
        known, xs, ys = MAPS[name], sorted(of_map["x"].unique()), sorted(of_map["y"].unique())
        columns = {x: f"{x / 1000:.0f}k" if known.is_by_size else duration_text(x) for x in xs}
        rows = {y: f"{y:.0%}" if known.is_by_size else duration_text(y) for y in ys}
        draw_cells(panel, of_map, columns, rows)
        panel.set_title(JOBS[job] if is_one_map else known.title, fontsize=9.5)
        panel.set(xlabel=known.x_label, ylabel=known.y_label)
        panel.label_outer()
    legend_of_cells(figure, cells, name_of)
    write_title(figure, title)
    colour = "Colour: the scheme of the least expected time over the priors of all other inputs"
    number = "Number: that time over the time without failures"
    write_notes(figure, [f"{colour}; stripes: schemes that tie. {number}."])
    return figure


def map_sentences(cells: pd.DataFrame) -> list[str]:
    """Return a sentence per job and map: the shares of schemes that are alone the soonest."""
    sentences = []
    for (job, name), of_map in cells.groupby(["job", "map"], sort=False):
        soonest = soonest_schemes(of_map)
        names = pd.Series([name_of(one[0]) if len(one) == 1 else "ties" for one in soonest])
        shares = names.value_counts(normalize=True).items()
        texts = ", ".join(f"{scheme} {share:.0%}" for scheme, share in shares)
        sentences.append(f"Least expected time, {JOBS[job]}, {MAPS[name].title}: {texts}.")
    return sentences


_FACT_LOOKS: Sequence[Mapping[str, Any]] = ({"marker": "o"}, {"marker": "s", "mfc": "white"})
"""Looks of marks by the source of machines, in the order of `FACTS`."""

_TICKS: Mapping[float, Sequence[float]] = {
    1.15: (1, 1.02, 1.05, 1.1),
    4.0: (1, 1.2, 1.5, 2, 3),
    float("inf"): (1, 2, 5, 10),
}
"""Ticks of a panel by its largest ratio."""


def draw_settings(table: pd.DataFrame) -> Figure:
    """Draw each scheme's expected time with its 80 % band, a panel per setting.

    All panels order the schemes by their mean ratio over the settings.
    """
    shown = table[table["worlds"] > 0]
    logarithms = np.log(shown["ratio"]).groupby(shown["scheme"]).mean()
    order = {str(name): place for place, name in enumerate(logarithms.sort_values().index)}
    places = sorted(shown["x"].unique())
    figure, panels = plt.subplots(
        1, len(places), figsize=(3.1 * len(places) + 1.5, 0.36 * len(order) + 2.2), sharey=True,
        squeeze=False,
    )  # fmt: skip
    for panel, place in zip(panels[0], places, strict=True):
        _draw_bands(panel, shown[shown["x"] == place], order)
        setting = list(RATES_S)[int(place)]
        panel.set_title(f"{setting}: a failure\nevery {duration_text(RATES_S[setting])}")
        panel.set_xlabel("time over that without failures (log)", fontsize=9)
    name_rows(panels[0][0], range(len(order)), [name_of(scheme) for scheme in order])
    facts = [int(y) for y in sorted(shown["y"].unique())]
    handles = [mark(f"machines: {FACTS[y]}", linestyle="none", **_FACT_LOOKS[y]) for y in facts]
    legend_below(figure, handles, 2)
    write_title(figure, "With standbys most schemes are close; with a queue they are not")
    notes = ["Expected time, with the 80 % band of a run. Schemes by their mean over all settings."]
    if (shown["capped"] > 0).any():
        notes += ["An arrow: some runs count as the cap, three times the soonest."]
    if any(name_of(scheme).endswith("*") for scheme in order):
        notes += [
            "* Trains on approximate gradients while a node works for two, which is not charged."
        ]
    write_notes(figure, notes)
    return figure


def _draw_bands(panel: Axes, rows: pd.DataFrame, order: Mapping[str, int]) -> None:
    # A mark per source of machines, one above the other.
    apart = 0.18 if rows["y"].nunique() > 1 else 0.0
    for row in rows.itertuples(index=False):
        place = order[str(row.scheme)] + (apart if row.y else -apart)
        ends = [[max(0.0, row.ratio - row.ratio_low)], [max(0.0, row.ratio_high - row.ratio)]]
        look = {"color": look_of(str(row.scheme)).colour, **_FACT_LOOKS[int(row.y)]}
        panel.errorbar(
            row.ratio, place, xerr=ends, markersize=5, elinewidth=1.2, xlolims=row.capped > 0,
            **look,
        )  # fmt: skip
    panel.set_xscale("log")
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x")
    panel.grid(axis="y", visible=False)
    # Every second row is shaded, to lead the eye from its name.
    for place in range(0, len(order), 2):
        panel.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
    most = rows["ratio"].max()
    ticks = next(ticks for up_to, ticks in _TICKS.items() if most <= up_to)
    ticks_at(panel.xaxis, ticks)
    panel.set_xlim(0.97, 1.06 * rows["ratio_high"].max())
