"""Figures of a decision: by how much each input moves it, and a plane of two inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from faultline.experiments.analysis.decision import BAND
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.analysis.input_scales import InputScale
from faultline.experiments.analysis.quantities import percent_text, time_unit
from faultline.experiments.analysis.sensitivity import Swing
from faultline.experiments.figures.palette import OKABE_ITO
from faultline.experiments.figures.style import (
    figure_style,
    legend_below,
    name_rows,
    pale,
    write_notes,
    write_title,
)
from matplotlib import patheffects
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.patches import Patch

_MOST_BARS = 10
_SIDE = 25  # Cells of a plane in each direction.
_OTHERS = 64  # Samples of the other inputs per cell.
_SOLID, _PALE = 0.82, 0.34
"""Share of its colour that a cell keeps, if its choice is certain and if it is not."""
_SURE_PERCENT = 80
_LEAST_REGION = 0.02
"""Of the cells of a plane: choices of fewer have no name in it."""
_ENDS = {
    "input at its 10 % quantile": OKABE_ITO[5],
    "at its 90 % quantile": OKABE_ITO[1],
}
"""Colours of the ends of `BAND`, by their labels."""


def draw_tornado(swings: Sequence[Swing], scales: Mapping[str, InputScale], first: str) -> Figure:
    """Draw the reach of the advised candidate's lead over its closest rival, by input.

    Parameters
    ----------
    swings : sequence of Swing
        The effect of each input, the largest first.
    scales : mapping of str to InputScale
        By names of inputs.
    first : str
        The advised candidate.
    """
    shown = swings[:_MOST_BARS]
    unit = time_unit(np.abs([one.reach_s for one in shown]).ravel())
    ends = np.array([one.ends_s for one in shown]) / unit.seconds
    low, high = np.array([one.reach_s for one in shown]).T / unit.seconds
    with figure_style():
        figure, axis = plt.subplots(figsize=(8.0, 1.5 + 0.42 * len(shown)))
        rows = range(len(shown))
        axis.hlines(rows, low, high, color="#b0b0b0", linewidth=4)
        for (label, colour), at in zip(_ENDS.items(), ends.T, strict=True):
            axis.plot(at, rows, "o", color=colour, label=label, markersize=8)
        for row, swing in enumerate(shown):
            # Texts are apart, however close the ends are.
            lesser, greater = ends[row].argsort()
            for end, side, aligned in ((lesser, -3, "right"), (greater, 3, "left")):
                axis.annotate(
                    scales[swing.name].text(BAND[end]), (ends[row, end], row), fontsize=8,
                    xytext=(side, 5), textcoords="offset points", ha=aligned,
                )  # fmt: skip
        name_rows(axis, rows, [scales[one.name].label for one in shown])
        axis.margins(x=0.12)
        axis.axvline(0.0, color="#111111", linewidth=1.2)
        axis.set_xlabel(f"lead over the closest rival ({unit.name})")
        legend_below(figure, axis)
        write_title(figure, f"{scales[shown[0].name].label} moves the lead of {first} most")
        line = "Line: the lead over the input's 80 % range, others over their priors."
        write_notes(figure, [line, "Left of 0, another candidate is expected sooner."])
    return figure


def draw_plane(
    emulator: Emulator,
    scales: Mapping[str, InputScale],
    inputs: Sequence[str],
    colours: Mapping[str, str],
) -> Figure:
    """Draw the candidate of the least expected time over two inputs whose values are positive.

    Parameters
    ----------
    emulator : Emulator
        Of all candidates.
    scales : mapping of str to InputScale
        By names of inputs.
    inputs : sequence of str
        The inputs of the two axes.
    colours : mapping of str to str
        By candidates.
    """
    cells = _plane(emulator, scales, inputs)
    with figure_style():
        figure, axis = plt.subplots(figsize=(8.0, 5.2))
        draw_choices(axis, cells, colours)
        for own, name in zip((axis.xaxis, axis.yaxis), inputs, strict=True):
            ticks = _ticks(scales[name])
            own.set_ticks(list(ticks), list(ticks.values()))
            own.set_label_text(scales[name].label)
        soonest, share = next(cells["best"].value_counts(normalize=True).items())
        solid, paler = (pale(colours[soonest], kept) for kept in (_SOLID, _PALE))
        likely = Patch(facecolor=solid, label=f"at least {_SURE_PERCENT} % likely the soonest")
        legend_below(figure, [likely, Patch(facecolor=paler, label="less likely")])
        where = f"on {percent_text(share)} of the plane" if share < 1.0 else "everywhere"
        write_title(figure, f"{soonest} is expected to train soonest {where}")
        write_notes(figure, [f"Emulated. Other inputs: {_OTHERS} samples of their priors."])
    return figure


def draw_choices(axis: Axes, cells: pd.DataFrame, colours: Mapping[str, str]) -> None:
    """Draw the choice in each cell on logarithmic axes, paler if it is not certain, and its name.

    Cells have the columns ``x``, ``y``, ``best`` and the probability of that in ``percent``.
    """
    shares = np.where(cells["percent"] >= _SURE_PERCENT, _SOLID, _PALE)
    shades = [pale(colours[name], share) for name, share in zip(cells["best"], shares, strict=True)]
    wide = cells.assign(shade=shades).pivot(index="y", columns="x", values="shade")
    pixels = to_rgba_array(wide.to_numpy().ravel()).reshape(*wide.shape, 4)
    axis.pcolormesh(wide.columns, wide.index, pixels, shading="nearest", rasterized=True)
    axis.set(xscale="log", yscale="log")
    axis.grid(visible=False)
    axis.minorticks_off()
    logs = np.log(cells[["x", "y"]])
    halo = [patheffects.withStroke(linewidth=3.0, foreground="white", alpha=0.85)]
    for name, region in logs.groupby(cells["best"]):
        if len(region) >= _LEAST_REGION * len(cells):
            # The cell next to the middle, which itself may be outside of the region.
            apart = (((region - region.mean()) / logs.std()) ** 2).sum(axis=1)
            place = cells.loc[apart.idxmin(), ["x", "y"]].tolist()
            axis.annotate(
                str(name), place, ha="center", va="center", fontweight="bold", path_effects=halo
            )


def _plane(
    emulator: Emulator, scales: Mapping[str, InputScale], inputs: Sequence[str]
) -> pd.DataFrame:
    """Return a row per cell: ``x``, ``y``, ``best``, and its probability in ``percent``."""
    places = [emulator.names.index(name) for name in inputs]
    low, high = emulator.range[:, places]
    steps = np.linspace(low, high, _SIDE)
    units = np.array([(x, y) for y in steps[:, 1] for x in steps[:, 0]]).T
    logs = emulator.log_times_at(dict(zip(places, units, strict=True)), _OTHERS)
    best = np.exp(logs).mean(axis=2).argmin(axis=0)
    wins = (logs.argmin(axis=0) == best[:, None]).mean(axis=1)
    x, y = (list(map(scales[n].value, at.tolist())) for n, at in zip(inputs, units, strict=True))
    names = [emulator.candidates[place] for place in best]
    return pd.DataFrame({"x": x, "y": y, "best": names, "percent": 100.0 * wins})


def _ticks(scale: InputScale) -> dict[float, str]:
    """Return ticks at quantiles, as far as they are apart from each other."""
    found: dict[float, str] = {}
    reach = np.log(scale.values[-1] / scale.values[0])
    for value in (scale.value(unit) for unit in (0.001, 0.1, 0.5, 0.9, 0.999)):
        if all(abs(np.log(value / other)) > 0.08 * reach for other in found):
            found[value] = scale.value_text(value)
    return found
