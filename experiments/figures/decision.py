"""Figures of a decision: by how much each input moves it, and a plane of two inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from faultline.experiments.analysis.decision import BAND
from faultline.experiments.analysis.design import Design
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
from matplotlib.colors import ListedColormap
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
_LOW, _HIGH = OKABE_ITO[5], OKABE_ITO[1]


def draw_tornado(swings: Sequence[Swing], scales: Mapping[str, InputScale], first: str) -> Figure:
    """Draw the advised candidate's lead over its closest rival at both ends of each input.

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
    leads = np.array([one.ends_s for one in shown])
    unit = time_unit(np.abs(leads).ravel())
    with figure_style():
        figure, axis = plt.subplots(figsize=(8.0, 1.5 + 0.42 * len(shown)))
        middle = float(np.mean([one.leads_s.mean() for one in shown])) / unit.seconds
        for row, swing in enumerate(shown):
            scale, ends = scales[swing.name], leads[row] / unit.seconds
            for end, colour, quantile in zip(ends, (_LOW, _HIGH), BAND, strict=True):
                axis.barh(row, end - middle, left=middle, color=colour, height=0.6)
                # The greater of both is written right of both bars, however small its own.
                right = end == ends.max()
                axis.annotate(
                    scale.text(quantile), (max(end, middle) if right else min(end, middle), row),
                    xytext=(4 if right else -4, 0), textcoords="offset points", fontsize=8,
                    va="center", ha="left" if right else "right",
                )  # fmt: skip
        name_rows(axis, range(len(shown)), [scales[one.name].label for one in shown])
        axis.margins(x=0.12)
        axis.axvline(0.0, color="#111111", linewidth=1.2)
        axis.set_xlabel(f"lead over the closest rival ({unit.name})")
        legend_below(
            figure,
            [
                Patch(facecolor=_LOW, label="input at its 10 % quantile"),
                Patch(facecolor=_HIGH, label="at its 90 % quantile"),
            ],
        )
        write_title(figure, f"{scales[shown[0].name].label} moves the lead of {first} most")
        write_notes(
            figure,
            ["Other inputs over their priors. Left of 0, another candidate is expected sooner."],
        )
    return figure


def draw_plane(
    emulator: Emulator,
    design: Design,
    scales: Mapping[str, InputScale],
    inputs: tuple[str, str],
    colours: Mapping[str, str],
) -> Figure:
    """Draw the candidate of the least expected time over two inputs whose values are positive.

    Parameters
    ----------
    emulator : Emulator
        Of all candidates.
    design : Design
        Whose first samples are those of all other inputs.
    scales : mapping of str to InputScale
        By names of inputs.
    inputs : tuple of str
        The inputs of the two axes.
    colours : mapping of str to str
        By candidates.
    """
    cells = _plane(emulator, design, scales, inputs)
    with figure_style():
        figure, axis = plt.subplots(figsize=(8.0, 5.2))
        draw_choices(axis, cells, colours)
        for own, name in zip((axis.xaxis, axis.yaxis), inputs, strict=True):
            ticks = _ticks(scales[name])
            own.set_ticks(list(ticks), list(ticks.values()))
            own.set_label_text(scales[name].label)
        colour = colours[cells["best"].mode()[0]]
        likely, less = (Patch(facecolor=pale(colour, share)) for share in (_SOLID, _PALE))
        likely.set_label(f"at least {_SURE_PERCENT} % likely the soonest")
        less.set_label("less likely")
        legend_below(figure, [likely, less])
        soonest = cells["best"].value_counts(normalize=True)
        share = (
            "everywhere"
            if len(soonest) == 1
            else f"on {percent_text(soonest.iloc[0])} of the plane"
        )
        write_title(figure, f"{soonest.index[0]} is expected to train soonest {share}")
        write_notes(figure, [f"Emulated. Other inputs: {_OTHERS} samples of their priors."])
    return figure


def draw_choices(axis: Axes, cells: pd.DataFrame, colours: Mapping[str, str]) -> None:
    """Draw the choice in each cell on logarithmic axes, paler if it is not certain, and its name.

    Cells have the columns ``x``, ``y``, ``best`` and the probability of that in ``percent``.
    """
    names = list(dict.fromkeys(cells["best"]))
    shades = [pale(colours[name], share) for name in names for share in (_PALE, _SOLID)]
    places = 2 * cells["best"].map(names.index) + (cells["percent"] >= _SURE_PERCENT)
    wide = cells.assign(place=places).pivot(index="y", columns="x", values="place")
    axis.pcolormesh(
        wide.columns, wide.index, wide, cmap=ListedColormap(shades), vmin=-0.5,
        vmax=len(shades) - 0.5, shading="nearest", rasterized=True,
    )  # fmt: skip
    axis.set(xscale="log", yscale="log")
    axis.grid(visible=False)
    axis.minorticks_off()
    logs = np.log(cells[["x", "y"]])
    spread = logs.std()
    halo = [patheffects.withStroke(linewidth=3.0, foreground="white", alpha=0.85)]
    for name, of_name in logs.groupby(cells["best"]):
        if len(of_name) >= _LEAST_REGION * len(cells):
            apart = (((of_name - of_name.mean()) / spread) ** 2).sum(axis=1)
            x, y = cells.loc[apart.idxmin(), ["x", "y"]]
            axis.text(
                x, y, str(name), ha="center", va="center", fontweight="bold", path_effects=halo
            )


def _plane(
    emulator: Emulator, design: Design, scales: Mapping[str, InputScale], inputs: tuple[str, str]
) -> pd.DataFrame:
    """Return a row per cell: ``x``, ``y``, ``best``, and its probability in ``percent``."""
    columns = [design.names.index(name) for name in inputs]
    low, high = emulator.range[:, columns]
    steps = np.linspace(low, high, _SIDE, axis=1)
    others = np.clip(design.unit[:_OTHERS], *emulator.range)
    rows = []
    for y_unit in steps[1]:
        points = np.tile(others, (_SIDE, 1))
        points[:, columns[0]] = steps[0].repeat(len(others))
        points[:, columns[1]] = y_unit
        logs = emulator.log_times(points).reshape(len(emulator.candidates), _SIDE, -1)
        best = np.exp(logs).mean(axis=2).argmin(axis=0)
        wins = (logs.argmin(axis=0) == best[:, None]).mean(axis=1)
        for x_unit, place, share in zip(steps[0], best, wins, strict=True):
            x, y = (scales[n].value(u) for n, u in zip(inputs, (x_unit, y_unit), strict=True))
            name = emulator.candidates[place]
            rows.append((x, y, name, 100.0 * share))
    return pd.DataFrame(rows, columns=["x", "y", "best", "percent"])


def _ticks(scale: InputScale) -> dict[float, str]:
    """Return ticks at quantiles, as far as they are apart from each other."""
    found: dict[float, str] = {}
    reach = np.log(scale.values[-1] / scale.values[0])
    for value in (scale.value(unit) for unit in (0.001, 0.1, 0.5, 0.9, 0.999)):
        if all(abs(np.log(value / other)) > 0.08 * reach for other in found):
            found[value] = scale.value_text(value)
    return found


def positive_inputs(names: Sequence[str], scales: Mapping[str, InputScale]) -> list[str]:
    """Return the inputs that a plane can have: their values are positive and differ."""
    return [name for name in names if 0.0 < scales[name].values[0] < scales[name].values[-1]]
