"""The figures of a decision: the ends of each input's line, and the regions of a plane."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.analysis.design import Design
from faultline.experiments.analysis.input_scales import scales_of
from faultline.experiments.analysis.sensitivity import Swing
from faultline.experiments.figures.decision import draw_choices, draw_tornado
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


def test_a_line_of_the_tornado_is_the_reach_of_the_lead_and_has_the_ends_of_its_input() -> None:
    """The second input has no effect; the third moves the lead between equal ends."""
    stops = np.linspace(0.01, 0.99, 41)
    scales = scales_of(Design(("a", "b", "c"), *np.stack([[stops] * 3] * 2).transpose(0, 2, 1)))
    leads_s = 3600.0 * np.array([10.0 - 20.0 * stops, np.full(41, 2.0), 50.0 * (stops - 0.5) ** 2])
    advised = np.zeros(41, dtype=int)
    swings = [
        Swing(name, stops, leads, advised) for name, leads in zip("abc", leads_s, strict=True)
    ]
    figure = draw_tornado(swings, scales, "A")
    (axis,) = figure.axes
    low, high = (line.get_xdata() for line in axis.lines[:2])
    assert low == pytest.approx([8.0, 2.0, 8.0], abs=0.01)
    assert high == pytest.approx([-8.0, 2.0, 8.0], abs=0.01)
    lines = [line[:, 0].tolist() for line in axis.collections[0].get_segments()]
    assert lines == [
        pytest.approx(ends, abs=0.01) for ends in ([-8.0, 8.0], [2.0, 2.0], [0.0, 8.0])
    ]
    placed = {(text.get_text(), text.xy[1]): text.get_ha() for text in axis.texts}
    assert (placed["0.900", 0], placed["0.100", 0]) == ("right", "left")
    assert (placed["0.100", 1], placed["0.900", 1]) == ("right", "left")
    plt.close(figure)
