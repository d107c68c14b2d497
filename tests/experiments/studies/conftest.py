"""What tests of studies share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faultline.experiments.figures.style import figure_style, save_figure
from faultline.experiments.studies.stage import Stage
from matplotlib.figure import Figure
from rich.console import Console


@pytest.fixture
def saved_bytes(tmp_path: Path) -> Iterator[Callable[[Figure], int]]:
    """In the style of all figures: returns how large the file of a figure is, in bytes."""
    with figure_style():
        yield lambda figure: save_figure(figure, tmp_path / "figure.png").stat().st_size


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Three seeds, simulated in this process without a word."""
    return Stage(tmp_path, Console(quiet=True), workers=1)
