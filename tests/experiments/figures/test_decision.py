"""The plane of a decision: each cell has its choice, and each region has its name inside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from faultline.experiments.figures.decision import draw_choices
from faultline.experiments.figures.style import pale, save_figure
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex


def test_each_region_has_its_colour_and_its_name_inside(tmp_path: Path) -> None:
    """A is chosen below 1000, B from there on; the rows are not in the order of the axes."""
    xs, ys = np.geomspace(1.0, 1e6, 7), np.geomspace(1.0, 10.0, 6)
    cells = pd.DataFrame([(x, y) for x in xs[::-1] for y in ys], columns=["x", "y"])
    cells = cells.assign(best=np.where(cells.x < 1000, "A", "B"), percent=40.0 + 6.0 * cells.y)
    figure, axis = plt.subplots(layout="constrained")
    draw_choices(axis, cells, {"A": "#0072B2", "B": "#D55E00"})
    (mesh,) = axis.collections
    shown = [[to_hex(cell) for cell in row] for row in mesh.get_array()]
    # The upper rows are certain.
    for row, share in ((0, 0.34), (-1, 0.82)):
        assert shown[row] == [pale("#0072B2", share)] * 3 + [pale("#D55E00", share)] * 4
    places = {text.get_text(): text.get_position() for text in axis.texts}
    assert places["A"][0] < 1000 <= places["B"][0]
    assert save_figure(figure, tmp_path / "map.png").stat().st_size > 5_000
