"""The figure of a decision: the best candidate over two inputs, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from faultline.experiments.analysis.design import Design, Floats
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.analysis.quantities import number_text
from faultline.experiments.figures.regions import (
    PALE,
    SOLID,
    MapAxes,
    Regions,
    draw_levels,
    draw_regions,
)
from faultline.experiments.figures.style import (
    figure_style,
    legend_below,
    mark,
    pale,
    write_notes,
    write_title,
)
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

_SIDE = 25  # Cells of a plane in each direction.
_OTHERS = 64  # Samples of the other inputs per cell.
_SURE = 0.8


@dataclass(frozen=True, slots=True)
class InputScale:
    """How an input of a design is written."""

    label: str  # With its unit.
    unit: Floats  # Quantiles in ascending order.
    values: Floats  # Values at these quantiles.

    def value(self, unit: float) -> float:
        """Return the input's value at a quantile of its prior."""
        return float(np.interp(unit, self.unit, self.values))

    def text(self, unit: float) -> str:
        """Return the value at a quantile as people write it."""
        return number_text(self.value(unit), 3)


def scales_of(design: Design, labels: Mapping[str, str]) -> dict[str, InputScale]:
    """Return the scale of each input of a design."""
    orders = design.unit.argsort(axis=0)
    return {
        name: InputScale(
            labels[name],
            design.unit[orders[:, place], place],
            design.values[orders[:, place], place],
        )
        for place, name in enumerate(design.names)
    }


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
    table = _plane(emulator, design, scales, inputs)
    candidates = [name for name in emulator.candidates if (table["best"] == name).any()]
    looks = {name: (colours[name], name) for name in candidates}
    with figure_style():
        figure, axis = plt.subplots(figsize=(8.0, 5.2))
        regions = Regions(table, table, ("best", "percent", "sure"), candidates, looks)
        x, y = (scales[name] for name in inputs)
        draw_regions(axis, regions, MapAxes(x.label, y.label, _ticks(x), _ticks(y), True))
        draw_levels(axis, regions, (50.0, 80.0, 95.0), " %")
        legend_below(
            figure,
            [
                Patch(facecolor=pale("#0072B2", SOLID), label="80 % likely to be the best"),
                Patch(facecolor=pale("#0072B2", PALE), label="less likely"),
                mark("its probability", "#222222", linestyle=":", linewidth=1.0),
            ],
        )
        write_title(figure, "Which candidate is expected to train soonest?")
        write_notes(figure, [f"Emulated. Other inputs: {_OTHERS} samples of their priors."])
    return figure


def _plane(
    emulator: Emulator, design: Design, scales: Mapping[str, InputScale], inputs: tuple[str, str]
) -> pd.DataFrame:
    """Return a row per cell: ``x``, ``y``, ``best``, its probability in ``percent``, ``sure``."""
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
            rows.append((x, y, name, 100.0 * share, share >= _SURE))
    return pd.DataFrame(rows, columns=["x", "y", "best", "percent", "sure"])


def _ticks(scale: InputScale) -> dict[float, str]:
    """Return ticks at quantiles, as far as they are apart from each other."""
    found: dict[float, str] = {}
    reach = np.log(scale.values[-1] / scale.values[0])
    for value in (scale.value(unit) for unit in (0.001, 0.1, 0.5, 0.9, 0.999)):
        if all(abs(np.log(value / other)) > 0.08 * reach for other in found):
            found[value] = number_text(value, 3)
    return found


def positive_inputs(names: Sequence[str], scales: Mapping[str, InputScale]) -> list[str]:
    """Return the inputs that a plane can have: their values are positive and differ."""
    return [name for name in names if 0.0 < scales[name].values[0] < scales[name].values[-1]]
