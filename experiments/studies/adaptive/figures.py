"""The figures of the study; they read tables and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.figures.badput import draw_badput
from faultline.experiments.figures.palette import LineLook
from faultline.experiments.figures.style import (
    draw_band,
    scheme_looks,
    ticks_at,
    write_notes,
    write_title,
)
from faultline.experiments.studies.adaptive.variants import BASELINE, METRICS, SCHEMES, runs_at
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

# Okabe and Ito (2008), a palette for all kinds of colour vision.
_LOOKS = {
    BASELINE: LineLook("plain", "#000000", "o"),
    "dynamic": LineLook("dynamic", "#D55E00", "s"),
    "rejoin 1 h": LineLook("repair of 1 h", "#009E73", "v"),
    "rejoin 3 h": LineLook("repair of 3 h", "#0072B2", "D"),
    "rejoin 24 h": LineLook("repair of 24 h", "#E69F00", "^"),
    "rejoin 3 h + 5 % spares": LineLook("5 % spares", "#56B4E9", "P"),
    "rejoin 3 h + 10 % spares": LineLook("10 % spares", "#CC79A7", "X"),
    "rejoin 3 h + 20 % spares": LineLook("20 % spares", "#8A7A00", "*"),
}


@dataclass(frozen=True, slots=True)
class _Question:
    """A panel: what is asked, in which metric, and the variants that answer."""

    title: str
    metric: str
    variants: tuple[str, ...]


_REPAIRS = tuple(f"rejoin {hours} h" for hours in (24, 3, 1))
_SPARES = tuple(f"rejoin 3 h + {share} % spares" for share in (5, 10, 20))
_QUESTIONS = (
    _Question("When to save?", "time_to_train_ratio", ("dynamic",)),
    _Question("Rejoin after a repair?", "time_to_train_ratio", _REPAIRS),
    _Question("Spares? In time", "time_to_train_ratio", ("rejoin 3 h", *_SPARES)),
    _Question("Spares? In GPU-hours", "gpu_hours_ratio", ("rejoin 3 h", *_SPARES)),
)


def draw_curves(runs: pd.DataFrame, groups: int) -> Figure:
    """Draw the ratio over redundancy, a row a scheme and a column a question.

    Bands are 95 % intervals of the means over seeds. Plain SPARe is a grey line in every panel of
    the other schemes.
    """
    mine = runs[runs.groups == groups]
    tables = {
        metric: mean_over_seeds(mine, ["strategy", "variant", "redundancy"], metric)
        for metric in METRICS
    }

    def draw(axis: Axes, scheme: str, question: _Question) -> None:
        table = tables[question.metric]
        if scheme != "spare":
            plain = table[(table.strategy == "spare") & (table.variant == BASELINE)]
            axis.plot(
                plain.redundancy, plain["mean"], color="#999999", ls="--", label="plain SPARe"
            )
        for name in (BASELINE, *question.variants):
            line = table[(table.strategy == scheme) & (table.variant == name)]
            look = _LOOKS[name]
            _plot(axis, line.redundancy, line["mean"], look)
            draw_band(axis, line.redundancy, line, look.colour)
        # Logarithmic: at r = 2 the ratio is twice that of the optimum.
        axis.set_yscale("log")
        ticks_at(axis.yaxis, [2, 2.5, 3, 4, 5, 6, 8, 10])

    notes = [
        f"Weibull failures every 300 s, sound rules. Mean over {mine.seed.nunique()} seeds of",
        f"{mine.steps.iloc[0]:,} steps, bands: its 95 % interval. Spares come on top of a repair",
        "of 3 h; GPU-hours: the ratio times 1 + spares / N.",
    ]
    return _draw_grid("ratio (log)", f"Time to train, N = {groups} groups", notes, draw)


def draw_changes(changes: pd.DataFrame, groups: int) -> Figure:
    """Draw each variant's change against the plain scheme at the same redundancy, with intervals.

    `changes` is that of `variants.changes_of`.
    """
    mine = changes[changes.groups == groups]

    def draw(axis: Axes, scheme: str, question: _Question) -> None:
        axis.axhline(0.0, color="#000000", lw=1.0)
        for place, name in enumerate(question.variants):
            line = mine[
                (mine.metric == question.metric)
                & (mine.strategy == scheme)
                & (mine.variant == name)
            ]
            look = _LOOKS[name]
            beside = line.redundancy + 0.09 * (place - (len(question.variants) - 1) / 2)
            _plot(axis, beside, line.change, look)
            axis.vlines(beside, line.change_low, line.change_high, color=look.colour, lw=1.2)
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))

    notes = [
        "Below zero: better than plain. Differences by seed, as shares of the plain mean;",
        f"bars: 95 % intervals by paired t over {mine.pairs.max()} seeds.",
    ]
    title = f"Change against the plain scheme, N = {groups} groups"
    return _draw_grid("change", title, notes, draw)


def draw_causes(runs: pd.DataFrame, best: pd.DataFrame, groups: int) -> Figure:
    """Draw where the time of SPARe went, a bar a variant, each at its best redundancy."""
    mine = runs_at(runs, best)
    mine = mine[(mine.groups == groups) & (mine.strategy == "spare")]
    bars = [f"{name}, r = {r}" for name, r in zip(mine.variant, mine.redundancy, strict=True)]
    frame = mine.assign(bar=bars)
    order = {name: place for place, name in enumerate(dict.fromkeys(runs.variant))}
    frame = frame.sort_values("variant", key=lambda names: names.map(order), kind="stable")
    notes = [f"SPARe, N = {groups}, each variant at its best redundancy."]
    return draw_badput(frame, "bar", unit="days", notes=notes)


def _draw_grid(
    label: str, title: str, notes: list[str], draw: Callable[[Axes, str, _Question], None]
) -> Figure:
    """Draw a row a scheme and a column a question; legends stand in the lower row."""
    figure, axes = plt.subplots(
        len(SCHEMES), len(_QUESTIONS), figsize=(13.0, 6.8), sharex="row", sharey="row"
    )
    for row, scheme in enumerate(SCHEMES):
        for column, question in enumerate(_QUESTIONS):
            axis = axes[row][column]
            draw(axis, scheme, question)
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.set_xlabel("redundancy r")
            if row == 0:
                axis.set_title(question.title)
            if column == 0:
                axis.set_ylabel(f"{scheme_looks([scheme])[scheme].label}\n{label}")
            axis.legend(fontsize=7.5)
    write_title(figure, title)
    write_notes(figure, notes)
    return figure


def _plot(axis: Axes, x: pd.Series, y: pd.Series, look: LineLook) -> None:
    axis.plot(x, y, color=look.colour, marker=look.marker, markersize=4.5, lw=1.4, label=look.label)
