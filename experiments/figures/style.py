"""One look for all figures: a style sheet, and colours that colour-blind readers can tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

import matplotlib as mpl
from faultline.strategies.registry import all_strategies
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

Dashes = Literal["-", "--", "-.", ":"]
"""Matplotlib's names of line styles."""

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

# Those of the palette that no scheme above has; yellow is too pale for a line.
_FREE_COLOURS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A7A00")
_FREE_MARKERS = ("D", "v", "P", "X", "<", ">", "*", "h", "p")
_DASHES: tuple[Dashes, ...] = ("-", "--", "-.", ":")


@dataclass(frozen=True, slots=True)
class LineLook:
    """How one line of a picture looks, and what it is called in the legend."""

    label: str
    colour: str
    marker: str
    dashes: Dashes = "-"


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


def scheme_looks(names: Iterable[str]) -> dict[str, LineLook]:
    """Return a look for each scheme, the same in every figure.

    Schemes without a look of their own take what is left of the palette in alphabetical order of
    all schemes there are; where the palette is used up it begins anew with other dashes.
    """
    asked = list(dict.fromkeys(names))
    others = sorted({*all_strategies(), *asked} - set(SCHEME_COLOURS))
    looks = {
        name: LineLook(SCHEME_NAMES[name], colour, SCHEME_MARKERS[name])
        for name, colour in SCHEME_COLOURS.items()
    }
    for place, name in enumerate(others):
        turn, colour = divmod(place, len(_FREE_COLOURS))
        looks[name] = LineLook(
            name,
            _FREE_COLOURS[colour],
            _FREE_MARKERS[place % len(_FREE_MARKERS)],
            _DASHES[(turn + (turn > 0)) % len(_DASHES)],
        )
    return {name: looks[name] for name in asked}


def graded_looks(labels: Sequence[str]) -> list[LineLook]:
    """Return a look for each of several values of one axis, from dark to light in their order."""
    # The last tenth of the colour map is too pale for a line on white.
    colours = plt.get_cmap("viridis")
    return [
        LineLook(
            label,
            mpl.colors.to_hex(colours(0.88 * place / max(1, len(labels) - 1))),
            ("o", *_FREE_MARKERS)[place % (1 + len(_FREE_MARKERS))],
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
