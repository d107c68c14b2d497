"""The plane of a decision: each cell has its choice, and each region has its name inside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from faultline.experiments.figures.decision import draw_choices
from faultline.experiments.figures.style import save_figure
from matplotlib import pyplot as plt


def test_each_region_has_its_colour_and_its_name_inside(tmp_path: Path) -> None:
    """A is chosen below 1000, B from there on; the rows are not in the order of the axes."""
    xs, ys = np.geomspace(1.0, 1e6, 7), np.geomspace(1.0, 10.0, 6)
    cells = pd.DataFrame([(x, y) for x in xs[::-1] for y in ys], columns=["x", "y"])
    cells = cells.assign(best=np.where(cells.x < 1000, "A", "B"), percent=40.0 + 6.0 * cells.y)
    figure, axis = plt.subplots(layout="constrained")
    draw_choices(axis, cells, {"A": "#0072B2", "B": "#D55E00"})
    (mesh,) = axis.collections
    # Shades of B, which the first row has, and of A; the upper rows are certain.
    shown = np.asarray(mesh.get_array()).reshape(6, 7)
    assert shown[0].tolist() == [2, 2, 2, 0, 0, 0, 0]
    assert shown[-1].tolist() == [3, 3, 3, 1, 1, 1, 1]
    places = {text.get_text(): text.get_position() for text in axis.texts}
    assert places["A"][0] < 1000 <= places["B"][0]
    assert save_figure(figure, tmp_path / "map.png").stat().st_size > 5_000
