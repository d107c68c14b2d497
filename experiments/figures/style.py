"""The common look of all figures: a style sheet, and colours other than of schemes."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from io import BytesIO
from math import log10
from pathlib import Path
from typing import Any

import faultline.experiments.figures.safe_matplotlib  # noqa: F401 - before Matplotlib
import matplotlib as mpl
import numpy as np
import pandas as pd
from faultline.experiments.analysis.quantities import quantity
from faultline.experiments.analysis.selection import averaged_axes, caveats
from faultline.platforms.files import write_file
from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogFormatterMathtext,
    NullFormatter,
    NullLocator,
)
from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class BarLook:
    """The look of a part of a bar: neighbours differ in lightness or hatching, not only in hue."""

    colour: str
    hatch: str = ""


# By `badput.CAUSES`: useful time in blue, costs of the scheme in green, costs of failures
# in warm colours, costs of checkpoints in grey.
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

# By `experiments.analysis.course.ACTIVITIES`, with the looks of their causes.
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
"""Markers of published values."""


def pale(colour: str, share: float) -> str:
    """Return a colour mixed with white; `share` is the part of the colour."""
    red, green, blue = (1.0 - share * (1.0 - part) for part in mpl.colors.to_rgb(colour))
    return mpl.colors.to_hex((red, green, blue))


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
    """Save a figure in the format of its file's suffix, and close it."""
    drawn = BytesIO()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            _write_powers_plainly(axis)
    try:
        figure.savefig(drawn, format=path.suffix.removeprefix(".") or None)
    finally:
        plt.close(figure)
    write_file(path, drawn.getvalue())
    return path


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _write_powers_plainly(axis: XAxis | YAxis) -> None:
    """Write powers of ten without mathtext, which is off as it could misread names."""
    if isinstance(axis.get_major_formatter(), LogFormatterMathtext):
        axis.set_major_formatter(FuncFormatter(_power_text))
        low, high = sorted(axis.get_view_interval())
        # Minor ticks have labels if the axis has no power of ten.
        plain = FuncFormatter(_power_text) if high < 10 * low else NullFormatter()
        axis.set_minor_formatter(plain)


def _power_text(value: float, _place: int | None = None) -> str:
    exponent = log10(value) if value > 0 else 0.0
    if value <= 0 or abs(exponent - round(exponent)) > 1e-6:
        return f"{value:g}"
    power = round(exponent)
    return f"{value:g}" if -3 < power < 5 else f"10{str(power).translate(_RAISED)}"


LOG_SPAN = 8.0
"""A quantity that spans more than this ratio has a logarithmic scale."""

_NOTE_INCHES_PER_LETTER = 0.062
_BELOW = "legend-below"


def in_order(values: pd.Series) -> list[Any]:
    """Return the distinct values of an axis: numbers ascending, others in the sweep's order."""
    found = list(values.dropna().unique())
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        return sorted(found)
    return found


def spans(values: ArrayLike, ratio: float = LOG_SPAN) -> bool:
    """Return whether values are positive and span a ratio that needs a logarithmic scale."""
    found = np.asarray(values)
    return bool(found.size and found.min() > 0 and found.max() > ratio * found.min())


def name_rows(axis: Axes, places: Sequence[float], labels: Sequence[str]) -> None:
    """Label rows from top to bottom, with vertical grid lines."""
    axis.set_yticks(places, labels)
    axis.set_ylim(places[-1] + 0.6, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")
    axis.grid(visible=True, axis="x")


def mark(label: str, colour: str = "#555555", **look: Any) -> Line2D:
    """Return an entry of a legend; `look` has arguments of Matplotlib's lines."""
    return Line2D([], [], **{"color": colour, **look}, label=label)


def legend_below(figure: Figure, entries: Axes | Sequence[Artist], columns: int = 4) -> None:
    """Add a legend below a figure: the lines of a panel, or some entries."""
    known = entries.get_legend_handles_labels()[0] if isinstance(entries, Axes) else entries
    legend = figure.legend(handles=list(known), loc="outside lower center", ncols=columns)
    legend.set_gid(_BELOW)


def draw_means(axis: Axes, x: ArrayLike, table: pd.DataFrame, **look: Any) -> None:
    """Draw the column ``mean`` of a table, with bars from ``low`` to ``high``."""
    mean = table["mean"]
    axis.errorbar(x, mean, yerr=[mean - table["low"], table["high"] - mean], **look)


def stack_bars(
    axis: Axes, places: ArrayLike, parts: pd.DataFrame, looks: Iterable[BarLook], **bar: Any
) -> None:
    """Draw a horizontal bar per row of a table, with the columns as its parts."""
    ends = parts.cumsum(axis=1)
    for column, look in zip(parts, looks, strict=True):
        axis.barh(
            places, parts[column], left=ends[column] - parts[column], color=look.colour,
            hatch=look.hatch, edgecolor="white", label=column, **{"linewidth": 0.4, **bar},
        )  # fmt: skip


def ticks_at(axis: XAxis | YAxis, values: Sequence[float]) -> None:
    """Set ticks at some numbers only."""
    axis.set_major_locator(FixedLocator(values))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def draw_band(axis: Axes, x: pd.Series, table: pd.DataFrame, colour: str) -> None:
    """Shade the band between the columns ``low`` and ``high`` of a table."""
    axis.fill_between(x, table["low"], table["high"], color=colour, alpha=0.2, linewidth=0)


def write_title(figure: Figure, text: str) -> None:
    """Write a title above a figure, left-aligned, with a capital first letter."""
    figure.suptitle(text[:1].upper() + text[1:], x=0.01, ha="left", fontweight="bold", wrap=True)


def write_notes(figure: Figure, notes: Sequence[str]) -> None:
    """Write sentences below a figure; call it after `legend_below`."""
    if not notes:
        return
    letters = int(figure.get_figwidth() / _NOTE_INCHES_PER_LETTER)
    text = textwrap.fill(" ".join(notes), letters, break_on_hyphens=False)
    look: dict[str, Any] = {"fontsize": 8, "color": "#555555"}
    for legend in figure.legends:
        if legend.get_gid() == _BELOW:
            # The layout has room for a label or a legend, but not for both.
            legend.set_title(text)
            legend.get_title().set(**look)
            legend.set_alignment("left")
            return
    # The layout keeps room for the label of the figure.
    figure.supxlabel(text, x=0.01, ha="left", **look)


def run_notes(frame: pd.DataFrame, drawn: Collection[str | None], statistic: str) -> list[str]:
    """Return notes on the runs of a figure, a sentence each.

    `drawn` are the columns that the figure distinguishes; `statistic` is the drawn statistic over
    seeds, such as ``Mean``.
    """
    seeds = frame["seed"].nunique()
    sentences = [f"{statistic} over {seeds} seeds." if seeds > 1 else "One seed."]
    averaged = averaged_axes(frame, [column for column in drawn if column is not None])
    if averaged:
        names = ", ".join(quantity(axis).label for axis in averaged)
        sentences.append(f"Averaged over {names}.")
    return [*sentences, *caveats(frame)]
