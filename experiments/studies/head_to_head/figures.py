"""Figures of the head-to-head: maps of the soonest scheme, and the times of all schemes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.style import (
    legend_below,
    mark,
    name_rows,
    pale,
    ticks_at,
    write_notes,
    write_title,
)
from faultline.experiments.studies.head_to_head.grids import FACTS, JOBS, MAPS, RATES_S
from matplotlib import patheffects
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

_MOST_STRIPES = 3
"""Schemes that tie in a cell have a stripe each; more of them have one neutral colour."""

_STRIPES = 6
"""Columns of pixels of a cell: a multiple of 1, 2 and 3."""

_NEUTRAL, _PALE = "#ececec", 0.6
FIGURES = {
    "head-to-head-restart.png": (
        ("restart",),
        "Slow restarts call for replica drop, fast ones for checkpoints in memory",
    ),
    "head-to-head-stalls.png": (
        ("stalls",),
        "At one price per recovery checkpoints lead from a minute on, or many tie",
    ),
    "head-to-head-sizes.png": (
        ("queue", "standbys"),
        "Replica drop leads on thousands of GPUs; on more no scheme is a clear choice",
    ),
}
"""Figures of maps by file name: the maps, a panel per map and job, and the title."""

_NOTES = (
    "Colour: the scheme of the least expected time over the priors of all other inputs; stripes: "
    "schemes that tie.",
    "Number: that time over the time without failures.",
)
_AXES = {
    "restart": ("a failure every", "time of a restart"),
    "stalls": ("a failure every", "time of every recovery"),
    "queue": ("GPUs", "failures of a whole domain"),
    "standbys": ("GPUs", "failures of a whole domain"),
}
_ORDER = (
    "checkpoint", "replication", "spare", "dp-drop", "ntp", "ntp-pw", "mecefo", "bamboo", "oobleck",
    "recycle", "varuna", "warm-standby", "replica-drop",
)  # fmt: skip


def name_of(scheme: str) -> str:
    """Return a scheme's title, with a star if its gradients are approximate."""
    return title_of(scheme, star=True)


def order_of(scheme: str) -> tuple[int, str]:
    """Return the sort key of a scheme: shipped schemes in their order, then all others."""
    return (_ORDER.index(scheme) if scheme in _ORDER else len(_ORDER), scheme)


def first_of(cell: Mapping[str, Any]) -> list[str]:
    """Return the schemes that a cell of a map shows: the best one and those that tie with it."""
    return sorted({cell["best"], *str(cell["ties"] or "").split()}, key=order_of)


def colours_of(schemes: Sequence[str]) -> list[str]:
    """Return the colours of a cell, in which some schemes tie."""
    if len(schemes) > _MOST_STRIPES:
        return [_NEUTRAL]
    return [pale(look_of(scheme).colour, _PALE) for scheme in schemes]


def map_figures(cells: pd.DataFrame) -> dict[str, Callable[[], Figure]]:
    """Return the figures of the maps that the table has, by file name."""
    drawn = dict[str, Callable[[], Figure]]()
    for file, (names, title) in FIGURES.items():
        shown = cells[cells["map"].isin(names)]
        if not shown.empty:
            drawn[file] = partial(draw_maps, shown, title)
    return drawn


def draw_maps(cells: pd.DataFrame, title: str) -> Figure:
    """Draw a panel per job and map: a cell has the colours of its soonest schemes."""
    cells = cells.fillna({"ties": ""})
    panels = [(str(job), str(name)) for job, name in cells[["job", "map"]].drop_duplicates().values]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.5 * len(panels) + 0.6, 4.2), sharey=True, squeeze=False
    )
    for axis, (job, name) in zip(axes[0], panels, strict=True):
        _draw_map(axis, cells[(cells["job"] == job) & (cells["map"] == name)], name)
        is_one_map = cells["map"].nunique() == 1
        axis.set_title(JOBS.get(job, job) if is_one_map else MAPS[name].title, fontsize=9.5)
    for axis in axes[0][1:]:
        axis.set_ylabel("")
    shown = [first_of(cell) for cell in cells.to_dict("records")]
    drawn = {one for schemes in shown if len(schemes) <= _MOST_STRIPES for one in schemes}
    handles = [
        Patch(facecolor=colours_of([one])[0], label=name_of(one))
        for one in sorted(drawn, key=order_of)
    ]
    if any(len(schemes) > _MOST_STRIPES for schemes in shown):
        handles.append(Patch(facecolor=_NEUTRAL, label=f"more than {_MOST_STRIPES} tie"))
    legend_below(figure, handles, len(handles))
    write_title(figure, title)
    write_notes(figure, _NOTES)
    return figure


def _draw_map(panel: Axes, cells: pd.DataFrame, name: str) -> None:
    xs, ys = sorted(cells["x"].unique()), sorted(cells["y"].unique())
    pixels = np.ones((len(ys), _STRIPES * len(xs), 3))
    for cell in cells.to_dict("records"):
        column, row = xs.index(cell["x"]), ys.index(cell["y"])
        colours = colours_of(first_of(cell))
        for stripe in range(_STRIPES):
            of_stripe = colours[stripe * len(colours) // _STRIPES]
            pixels[row, _STRIPES * column + stripe] = to_rgb(of_stripe)
        panel.text(
            column + 0.5, row + 0.5, f"{cell['cost']:#.3g}", ha="center", va="center", fontsize=8,
            path_effects=[patheffects.withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip
    panel.imshow(
        pixels, extent=(0, len(xs), 0, len(ys)), origin="lower", aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    for place in range(1, len(xs)):
        panel.axvline(place, color="white", linewidth=1.5)
    for place in range(1, len(ys)):
        panel.axhline(place, color="white", linewidth=1.5)
    by_size = MAPS[name].is_by_size
    x_texts = [f"{x / 1000:.0f}k" if by_size else duration_text(x) for x in xs]
    y_texts = [f"{y:.0%}" if by_size else duration_text(y) for y in ys]
    panel.set_xticks([place + 0.5 for place in range(len(xs))], x_texts)
    panel.set_yticks([place + 0.5 for place in range(len(ys))], y_texts)
    panel.tick_params(length=0, labelsize=8)
    panel.grid(visible=False)
    x_label, y_label = _AXES[name]
    panel.set_xlabel(x_label)
    panel.set_ylabel(y_label)


def map_sentences(cells: pd.DataFrame) -> list[str]:
    """Return a sentence per job: which schemes train soonest on its maps."""
    return [
        f"{JOBS.get(str(job), job)}: least expected time on "
        + "; ".join(
            f"{MAPS[str(name)].title}: {_shares(of_map)}"
            for name, of_map in of_job.groupby("map", sort=False)
        )
        + "."
        for job, of_job in cells.groupby("job", sort=False)
    ]


def _shares(cells: pd.DataFrame) -> str:
    """Return the schemes that are alone the soonest, with their shares of the cells, and ties."""
    first = [first_of(cell) for cell in cells.fillna({"ties": ""}).to_dict("records")]
    names = pd.Series(["ties" if len(one) > 1 else name_of(one[0]) for one in first])
    shares = names.value_counts(normalize=True)
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items())


_FACT_LOOKS: tuple[Mapping[str, Any], ...] = (
    {"marker": "o"},
    {"marker": "s", "markerfacecolor": "white"},
)
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
    notes = [
        "Expected time, with the 80 % band of a run. Schemes by their mean over all settings.",
        "An arrow: some runs count as the cap, three times the soonest."
        if (shown["capped"] > 0).any()
        else "",
        "* Trains on approximate gradients while a node works for two, which is not charged."
        if any(name_of(scheme).endswith("*") for scheme in order)
        else "",
    ]
    write_notes(figure, list(filter(None, notes)))
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
