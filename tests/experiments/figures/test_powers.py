"""Axes of powers of ten read as such though mathtext is off."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.figures.style import figure_style, save_figure
from matplotlib import pyplot as plt


@pytest.mark.parametrize(
    ("span", "texts"),
    [
        ((1e-4, 1e6), {"10\u207b\u2074", "0.01", "1", "100", "10000", "10\u2076"}),
        ((2.0, 9.0), {"2", "5"}),
    ],
)
def test_powers_of_ten_are_written_plainly(
    span: tuple[float, float], texts: set[str], tmp_path: Path
) -> None:
    with figure_style():
        figure, axis = plt.subplots()
        axis.loglog(span, span)
        save_figure(figure, tmp_path / "log.png")
        shown = axis.get_xticklabels() + axis.get_xticklabels(minor=True)
        written = {label.get_text() for label in shown}
    assert texts <= written
    assert not any("$" in text for text in written)
