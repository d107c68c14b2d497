"""One look for all figures: a style sheet, and colours of what is no scheme."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import matplotlib as mpl
from faultline.experiments.figures.palette import FREE_MARKERS, LineLook, looks_of_schemes
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

__all__ = [
    "ACTIVITY_LOOKS", "CAUSE_LOOKS", "PUBLISHED", "SCHEME_COLOURS", "SCHEME_MARKERS",
    "SCHEME_NAMES", "BarLook", "LineLook", "figure_style", "graded_looks", "save_figure",
    "scheme_looks",
]  # fmt: skip

# Other names of `palette`, until everybody uses it.
scheme_looks = looks_of_schemes
_EVERYWHERE = looks_of_schemes(("checkpoint", "replication", "spare"))
SCHEME_COLOURS = {name: look.colour for name, look in _EVERYWHERE.items()}
SCHEME_MARKERS = {name: look.marker for name, look in _EVERYWHERE.items()}
SCHEME_NAMES = {name: look.label for name, look in _EVERYWHERE.items()}


@dataclass(frozen=True, slots=True)
class BarLook:
    """How one part of a bar looks: neighbours differ in lightness or hatching, not in hue alone."""

    colour: str
    hatch: str = ""


# By `simulator.badput.CAUSES`: what is useful in blue, what the scheme costs in green, what
# failures cost in warm colours, what checkpoints cost in grey.
CAUSE_LOOKS = {
    "compute": BarLook("#0072B2"),
    "all_reduce": BarLook("#8CC9EE"),
    "redundancy": BarLook("#4DB993"),
    "patch_compute": BarLook("#B5E6D6", "////"),
    "degraded": BarLook("#9C86C4", "++++"),
    "waiting": BarLook("#F0E442"),
    "repeated": BarLook("#B04E00"),
    "detection": BarLook("#F3C26B", "...."),
    "reconfigure": BarLook("#4D4D4D"),
    "checkpoint": BarLook("#CFCFCF", "\\\\\\\\"),
    "restart": BarLook("#CC79A7"),
    "load": BarLook("#F0D5E3", "xxxx"),
}

# By `experiments.analysis.course.ACTIVITIES`, as the causes that they are.
ACTIVITY_LOOKS = {
    "training": CAUSE_LOOKS["compute"],
    "repair": CAUSE_LOOKS["redundancy"],
    "lost": CAUSE_LOOKS["repeated"],
    "checkpoint": BarLook("#8A8A8A"),
    "rejoin": BarLook("#E69F00"),
    "restart": CAUSE_LOOKS["restart"],
    "load": CAUSE_LOOKS["load"],
}


PUBLISHED: Mapping[str, Any] = {
    "linestyle": "none", "marker": "D", "markersize": 8, "markerfacecolor": "none",
    "markeredgecolor": "black", "markeredgewidth": 1.1, "zorder": 5,
}  # fmt: skip
"""How published values lie on top of ours."""


def graded_looks(labels: Sequence[str]) -> list[LineLook]:
    """Return a look for each of several values of one axis, from dark to light in their order."""
    # The last tenth of the colour map is too pale for a line on white.
    colours = plt.get_cmap("viridis")
    return [
        LineLook(
            label,
            mpl.colors.to_hex(colours(0.88 * place / max(1, len(labels) - 1))),
            FREE_MARKERS[place % len(FREE_MARKERS)],
        )
        for place, label in enumerate(labels)
    ]


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw with Faultline's style sheet, without a display."""
    mpl.use("Agg")
    with (
        as_file(files("faultline.experiments.figures").joinpath("faultline.mplstyle")) as path,
        plt.style.context(path),
    ):
        yield


def save_figure(figure: Figure, path: Path) -> Path:
    """Save a figure and close it."""
    figure.savefig(path)
    plt.close(figure)
    return path
