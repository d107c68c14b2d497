"""Maps of winners: cells are entered by their place, and each region has its name inside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from faultline.experiments.figures.regions import MapAxes, Regions, draw_levels, draw_regions
from faultline.experiments.figures.style import save_figure
from matplotlib import pyplot as plt

_AXES = MapAxes("rate", "share", {1: "1", 1000: "1k"}, {0: "0", 1: "1"}, False, ((10, 0.5, "us"),))


def _map() -> Regions:
    """A wins below 1000, B from there on, and neither in the last cell of the first row."""
    xs, ys = np.geomspace(1.0, 1e6, 7), np.linspace(0.0, 1.0, 6)
    cells = pd.DataFrame([(x, y) for x in xs for y in ys], columns=["x", "y"])
    won = cells.assign(
        winner=np.where(cells.x < 1000, "a", "b"), ratio=1.0 + cells.y, sure=cells.y > 0
    )
    won = won[(won.x < 1e6) | (won.y > 0)]
    looks = {"a": ("#0072B2", "scheme A"), "b": ("#D55E00", "B")}
    return Regions(cells, won, ("winner", "ratio", "sure"), ["a", "b"], looks)


def test_winners_are_entered_where_they_won() -> None:
    regions = _map()
    assert regions.place.shape == (6, 7)
    assert regions.place[0].tolist() == [0, 0, 0, 1, 1, 1, -1]
    assert np.isnan(regions.value[0, -1])
    assert regions.value[-1, 0] == 2.0
    assert regions.sure[:, 0].tolist() == [False, *[True] * 5]


def test_each_region_has_its_name_inside(tmp_path: Path) -> None:
    figure, axis = plt.subplots(layout="constrained")
    regions = _map()
    draw_regions(axis, regions, _AXES)
    draw_levels(axis, regions, (1.2, 1.5))
    places = {text.get_text(): text.get_position() for text in axis.texts}
    assert places["scheme A"][0] < 1000 <= places["B"][0]
    assert "us" in places
    assert save_figure(figure, tmp_path / "map.png").stat().st_size > 10_000
