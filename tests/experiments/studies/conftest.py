"""What tests of studies share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faultline.experiments.figures.style import figure_style, save_figure
from matplotlib.figure import Figure


@pytest.fixture
def saved_bytes(tmp_path: Path) -> Iterator[Callable[[Figure], int]]:
    """In the style of all figures: returns how large the file of a figure is, in bytes."""
    with figure_style():
        yield lambda figure: save_figure(figure, tmp_path / "figure.png").stat().st_size
