"""Maps of choices: each cell has its choice, and each region has its name inside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from faultline.experiments.figures.regions import MapAxes, Regions, draw_choices
from faultline.experiments.figures.style import save_figure
from matplotlib import pyplot as plt

_AXES = MapAxes("rate", "share", {1: "1", 1000: "1k"}, {0: "0", 1: "1"}, False, ((10, 0.5, "us"),))
_LOOKS = {"a": ("#0072B2", "scheme A"), "b": ("#D55E00", "B")}


def _cells() -> pd.DataFrame:
    """A is chosen below 1000, B from there on; the rows are not in the order of the axes."""
    xs, ys = np.geomspace(1.0, 1e6, 7), np.linspace(0.0, 1.0, 6)
    cells = pd.DataFrame([(x, y) for x in xs[::-1] for y in ys], columns=["x", "y"])
    return cells.assign(best=np.where(cells.x < 1000, "a", "b"), percent=40.0 + 59.0 * cells.y)


def test_choices_are_entered_at_their_cells() -> None:
    regions = Regions(_cells(), _LOOKS)
    assert regions.place.shape == (6, 7)
    assert regions.place[0].tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert regions.percent[[0, -1], 0].tolist() == [40.0, 99.0]
    assert regions.xs[0] == 1.0
    assert regions.ys[-1] == 1.0


def test_each_region_has_its_name_inside(tmp_path: Path) -> None:
    figure, axis = plt.subplots(layout="constrained")
    draw_choices(axis, _cells(), _LOOKS, _AXES)
    places = {text.get_text(): text.get_position() for text in axis.texts}
    assert places["scheme A"][0] < 1000 <= places["B"][0]
    assert "us" in places
    assert save_figure(figure, tmp_path / "map.png").stat().st_size > 10_000
