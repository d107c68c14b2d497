"""What pictures have in common: panels, titles, notes, the order of values."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd
from faultline.experiments.analysis.quantities import quantity, setting_text, shown_value
from faultline.experiments.analysis.selection import averaged_axes, caveats
from faultline.experiments.figures.palette import LineLook, look_of, looks_of_schemes
from faultline.experiments.figures.style import graded_looks
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator

PANELS_A_ROW = 3
LOG_SPAN = 8.0
"""What is measured is on a logarithmic scale where it spans more than this ratio."""

_NOTE_INCHES_PER_LETTER = 0.062


def in_order(values: pd.Series) -> list[Any]:
    """Return the values of an axis once each: numbers ascending, others as the sweep has them."""
    found = list(values.dropna().unique())
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        return sorted(found)
    return found


def make_panels(
    values: Sequence[Any], width: float = 3.3, height: float = 3.2
) -> tuple[Figure, dict[Any, Axes]]:
    """Return a figure with a panel for each value, or one panel (for None) if there is none.

    Parameters
    ----------
    values : sequence
        What the panels stand for, in order.
    width, height : float
        Size of a panel, in inches; a single one is larger.
    """
    wanted = list(values) or [None]
    across = panels_a_row(len(wanted))
    down = -(-len(wanted) // across)
    alone = len(wanted) == 1
    figure = Figure(figsize=(max(6.8, 2.2 + width * across), 4.4 if alone else 0.9 + height * down))
    grid = figure.subplots(
        down,
        across,
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    panels = list(grid.flat)
    for unused in panels[len(wanted) :]:
        unused.set_visible(False)
    return figure, dict(zip(wanted, panels, strict=False))


def panels_a_row(count: int) -> int:
    """Return how many panels stand side by side, so that the rows are as full as can be."""
    rows = -(-count // PANELS_A_ROW)
    return -(-count // rows)


def label_outer(panels: Sequence[Axes], x_label: str, y_label: str) -> None:
    """Name the axes once: below the lowest panel of each column, and left of each row."""
    across = panels_a_row(len(panels))
    for place, axis in enumerate(panels):
        lowest = place + across >= len(panels)
        axis.tick_params(labelbottom=lowest)
        if lowest:
            axis.set_xlabel(x_label)
        if place % across == 0:
            axis.set_ylabel(y_label)


def looks_of(axis: str, values: Sequence[Any]) -> dict[Any, LineLook]:
    """Return a look for each value of an axis: schemes have their own, others are graded."""
    if axis == "strategy.name":
        return dict(looks_of_schemes(values))
    labels = [shown_value(axis, value) for value in values]
    return dict(zip(values, graded_looks(labels), strict=True))


def panel_title(axis: str, value: Any) -> str:
    """Return what a panel stands for: a scheme by its name, else axis and value."""
    if axis == "strategy.name":
        return look_of(value).label
    return setting_text({axis: value})


def plain_ticks(
    axis: XAxis | YAxis, *, log: bool, digits: int = 10, numticks: int | None = None
) -> None:
    """Let ticks read as numbers; on a logarithmic axis at 1, 2 and 5 times powers of ten."""
    if log:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=numticks))
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(lambda value, _: f"{value:,.{digits}g}")


def ticks_at(axis: XAxis | YAxis, values: Sequence[float]) -> None:
    """Let the ticks of a scale be some numbers and nothing else."""
    axis.set_major_locator(FixedLocator(values))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def draw_band(axis: Axes, x: pd.Series, table: pd.DataFrame, colour: str) -> None:
    """Shade what lies between the columns ``low`` and ``high`` of a table."""
    axis.fill_between(x, table["low"], table["high"], color=colour, alpha=0.2, linewidth=0)


def write_title(figure: Figure, text: str) -> None:
    """Write what a figure shows above it, from the left; the first letter becomes a capital."""
    figure.suptitle(text[:1].upper() + text[1:], x=0.01, ha="left", fontweight="bold")


def write_notes(figure: Figure, notes: Sequence[str]) -> None:
    """Write sentences below a figure, in as many lines as they need."""
    if not notes:
        return
    letters = int(figure.get_figwidth() / _NOTE_INCHES_PER_LETTER)
    # As the label of the whole figure, the layout keeps room for it.
    figure.supxlabel(
        textwrap.fill(" ".join(notes), letters), x=0.01, ha="left", fontsize=8, color="#555555"
    )


def run_notes(frame: pd.DataFrame, drawn: Collection[str | None], what: str) -> list[str]:
    """Return what a reader must know of the runs behind a picture, a sentence each.

    Parameters
    ----------
    frame : DataFrame
        The runs, a row each.
    drawn : collection of str
        The columns that the picture tells apart.
    what : str
        What is drawn of the seeds, such as ``Mean``.
    """
    seeds = frame["seed"].nunique()
    sentences = [f"{what} over {seeds} seeds." if seeds > 1 else "One seed."]
    averaged = averaged_axes(frame, [column for column in drawn if column is not None])
    if averaged:
        names = ", ".join(quantity(axis).label for axis in averaged)
        sentences.append(f"Averaged over {names}.")
    return [*sentences, *caveats(frame)]
