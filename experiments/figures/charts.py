"""Charts of studies: a figure is a list of panels, a panel has two scales and a list of marks.

Marks are lines over numbers (with a band or bars from a low to a high end), bars, levels and texts.
A mark whose look has a label is named in the legend, in the order of the marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
from faultline.experiments.figures.style import (
    BarLook,
    legend_below,
    stack_bars,
    ticks_at,
    write_notes,
    write_title,
)
from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator, NullLocator, PercentFormatter
from numpy.typing import ArrayLike

Look = Mapping[str, Any]
"""Colour, line style, marker and label, as matplotlib takes them."""


class Mark(Protocol):
    """A part of a panel that draws itself."""

    def draw(self, axis: Axes) -> None:
        """Draw onto a panel."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line over numbers, or points where the look has no line style."""

    x: ArrayLike = ()
    y: ArrayLike = ()
    look: Look = field(default_factory=dict)
    ends: tuple[ArrayLike, ArrayLike] | None = None  # Low and high, shaded.
    bars: bool = False  # Whether the ends are bars, and not a band.

    def draw(self, axis: Axes) -> None:
        """Draw the line, and what lies between the ends in its colour."""
        if self.ends is None:
            axis.plot(self.x, self.y, **self.look)
            return
        low, high = map(np.asarray, self.ends)
        if self.bars:
            axis.errorbar(self.x, self.y, yerr=[self.y - low, high - self.y], **self.look)
            return
        axis.plot(self.x, self.y, **self.look)
        axis.fill_between(self.x, low, high, color=self.look["color"], alpha=0.2, linewidth=0)


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Upright bars, each with a thin line from its low to its high end."""

    x: ArrayLike
    heights: ArrayLike
    ends: tuple[ArrayLike, ArrayLike]
    look: Look

    def draw(self, axis: Axes) -> None:
        """Draw the bars."""
        axis.bar(self.x, self.heights, **self.look)
        axis.vlines(self.x, *self.ends, color="black", linewidth=1.2)
        axis.tick_params(axis="x", length=0)


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """Horizontal bars, a row of a table each from the top down; columns are their parts."""

    parts: pd.DataFrame
    looks: Sequence[BarLook]

    def draw(self, axis: Axes) -> None:
        """Draw the bars."""
        stack_bars(axis, range(len(self.parts)), self.parts, self.looks)
        axis.tick_params(axis="y", length=0)
        axis.grid(visible=False, axis="y")
        axis.invert_yaxis()


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line through the whole panel."""

    at: float
    look: Look

    def draw(self, axis: Axes) -> None:
        """Draw the line."""
        axis.axhline(self.at, **self.look)


@dataclass(frozen=True, slots=True)
class Text:
    """A text beside a place."""

    x: float
    y: float
    text: str
    look: Look = field(default_factory=dict)
    offset: tuple[float, float] = (6, 0)  # In points.

    def draw(self, axis: Axes) -> None:
        """Write the text."""
        look = {"textcoords": "offset points", "va": "center", **self.look}
        axis.annotate(self.text, (self.x, self.y), self.offset, **look)


@dataclass(frozen=True, slots=True)
class Scale:
    """What an axis shows, and how."""

    label: str = ""
    limits: tuple[float | None, float | None] | None = None
    log: bool = False
    ticks: Sequence[float] | Mapping[float, str] | None = None  # Those and no others.
    every: float | None = None  # Between two ticks.
    whole: bool = False  # Whether ticks are whole numbers.
    percent: int | None = None  # Decimals of shares in per cent.
    text: str | None = None  # Format of other ticks.
    margin: float | None = None  # Beside what is drawn, as a share of it.

    def apply(self, axis: Axes, name: str) -> None:
        """Set the axis ``x`` or ``y`` of a panel."""
        one = axis.xaxis if name == "x" else axis.yaxis
        if self.log:
            axis.set(**{f"{name}scale": "log"})
        if self.every:
            one.set_major_locator(MultipleLocator(self.every))
        elif self.whole:
            one.set_major_locator(MaxNLocator(integer=True))
        if isinstance(self.ticks, Mapping):
            one.set_ticks(list(self.ticks), list(self.ticks.values()))
            one.set_ticks([], minor=True)
        elif self.ticks is not None:
            ticks_at(one, self.ticks)
        if self.percent is not None:
            one.set_major_formatter(PercentFormatter(1, decimals=self.percent))
        elif self.text:
            one.set_major_formatter(self.text)
            one.set_minor_locator(NullLocator())
        axis.set(**{f"{name}label": self.label})
        if self.margin is not None:
            set_margin = axis.set_xmargin if name == "x" else axis.set_ymargin
            set_margin(self.margin)
        if self.limits:
            axis.set(**{f"{name}lim": self.limits})


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes with what is drawn on it."""

    marks: Sequence[Mark]
    x: Scale
    y: Scale
    title: str = ""
    legend: Look | None = None  # Of its own, as matplotlib takes it.

    def draw(self, axis: Axes) -> None:
        """Draw everything."""
        for mark in self.marks:
            mark.draw(axis)
        self.x.apply(axis, "x")
        self.y.apply(axis, "y")
        axis.set_title(self.title)
        if self.legend is not None:
            axis.legend(**self.legend)


def draw_panels(
    panels: Sequence[Panel],
    size: tuple[float, float],
    *,
    title: str = "",
    below: int = 0,
    share_y: bool = False,
    notes: Sequence[str] = (),
) -> Figure:
    """Draw panels side by side.

    Parameters
    ----------
    panels : sequence of Panel
        From left to right.
    size : tuple of float
        Width and height of the figure in inches.
    title : str
        Written above all panels.
    below : int
        Columns of a legend below all panels, of every label once; none if 0.
    share_y : bool
        Whether the panels have one vertical scale, named at the first.
    notes : sequence of str
        Sentences below the figure.
    """
    figure, axes = plt.subplots(1, len(panels), figsize=size, sharey=share_y, squeeze=False)
    entries: dict[str, Artist] = {}
    for panel, axis in zip(panels, axes[0], strict=True):
        panel.draw(axis)
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if below:
        legend_below(figure, list(entries.values()), below)
    if title:
        write_title(figure, title)
    write_notes(figure, notes)
    return figure


def line_of(
    table: pd.DataFrame, x: str, y: str, look: Look, *, band: bool = False, bars: bool = False
) -> Line:
    """Return a column of a table over another, with its columns ``low`` and ``high`` if wanted."""
    ends = (table["low"], table["high"]) if band or bars else None
    return Line(table[x], table[y], look, ends, bars)


def lines_by(
    table: pd.DataFrame,
    by: str,
    looks: Mapping[Any, Look],
    x: str,
    y: str,
    *,
    band: bool = False,
    bars: bool = False,
) -> Iterator[Line]:
    """Yield a line for each value of a column that has a look, in the order of the looks."""
    for value, look in looks.items():
        yield line_of(table[table[by] == value], x, y, look, band=band, bars=bars)
