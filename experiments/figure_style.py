"""One look for all figures: a style sheet, and colours that colour-blind readers can tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

# Okabe and Ito (2008), a palette for all kinds of colour vision.
SCHEME_COLOURS = {
    "checkpoint": "#555555",
    "replication": "#D55E00",
    "spare": "#0072B2",
}
SCHEME_MARKERS = {"checkpoint": "^", "replication": "s", "spare": "o"}
SCHEME_NAMES = {
    "checkpoint": "checkpoint only",
    "replication": "replication + checkpoint",
    "spare": "SPARe + checkpoint",
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw with Faultline's style sheet, without a display."""
    mpl.use("Agg")
    with (
        as_file(files("experiments").joinpath("faultline.mplstyle")) as path,
        plt.style.context(path),
    ):
        yield


def save_figure(figure: Figure, path: Path) -> Path:
    """Save a figure and close it."""
    figure.savefig(path)
    plt.close(figure)
    return path
