"""The figures of the SPARe reproduction; they read tables and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import seaborn as sns
from faultline.experiments.figures.style import figure_style, save_figure, scheme_looks, write_title
from faultline.experiments.studies.spare.cells import SCHEMES
from faultline.experiments.studies.spare.published import GROUPS, headline, trials
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, PercentFormatter

_QUANTITIES = {
    "time_to_train_ratio": "time-to-train ratio (log)",
    "availability": "availability",
    "mean_stacks": "mean stacks a step",
}
_LOOKS = scheme_looks(SCHEMES)
RULES_NAMES = {"spare-study": "rules of the study", "spare-sound": "sound rules"}


PUBLISHED: dict[str, Any] = {
    "linestyle": "none", "marker": "D", "markersize": 8, "markerfacecolor": "none",
    "markeredgecolor": "black",
}  # fmt: skip
"""How published values lie on top of ours."""


def draw_curves(runs: pd.DataFrame, rules: str, distribution: str, path: Path) -> Path:
    """Draw ratio, availability and mean stacks over redundancy, a column an N.

    Bands span the seeds; published values lie on top as hollow diamonds (rules of the study and
    Weibull failures only: nothing else was published).
    """
    chosen = runs[(runs.rules == rules) & (runs.distribution == distribution)]
    with_published = rules == "spare-study" and distribution == "weibull"
    with figure_style():
        figure, axes = plt.subplots(3, len(GROUPS), figsize=(10.5, 8.4), sharex="col", sharey="row")
        for column, groups in enumerate(GROUPS):
            for row, quantity in enumerate(_QUANTITIES):
                axis = axes[row][column]
                _draw_quantity(axis, chosen[chosen.groups == groups], quantity)
                if with_published:
                    _draw_published(axis, groups, quantity)
                _label(axis, row, column, quantity, groups)
        figure.legend(handles=_legend_entries(with_published), loc="outside lower center", ncols=3)
        failures = distribution.capitalize() if distribution == "weibull" else distribution
        title = f"Redundancy against time, {RULES_NAMES[rules]}, {failures} failures every 300 s"
        write_title(figure, title)
        return save_figure(figure, path)


def _draw_quantity(axis: Axes, runs: pd.DataFrame, quantity: str) -> None:
    for scheme in SCHEMES:
        mine = runs[runs.strategy == scheme]
        if mine.empty:
            continue
        sns.lineplot(
            data=mine, x="redundancy", y=quantity, color=_LOOKS[scheme].colour,
            marker=_LOOKS[scheme].marker, markeredgewidth=0, errorbar=("pi", 100), ax=axis,
            legend=False,
        )  # fmt: skip


def _draw_published(axis: Axes, groups: int, quantity: str) -> None:
    source = trials() if groups == 200 else headline()
    if quantity not in source:
        return
    for scheme in SCHEMES:
        known = source[(source.groups == groups) & (source.scheme == scheme)]
        axis.plot(known.redundancy, known[quantity], markeredgewidth=1.1, zorder=5, **PUBLISHED)


def _label(axis: Axes, row: int, column: int, quantity: str, groups: int) -> None:
    axis.set_xlabel("redundancy r" if row == len(_QUANTITIES) - 1 else "")
    axis.set_ylabel(_QUANTITIES[quantity] if column == 0 else "")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    if row == 0:
        axis.set_title(f"N = {groups} groups")
    if quantity == "availability":
        axis.yaxis.set_major_formatter(PercentFormatter(1.0))
        axis.set_ylim(0, 1.04)
    if quantity == "time_to_train_ratio":
        # Logarithmic: at r = 2 the ratio is ten times that of the optimum.
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(FixedLocator([2, 3, 4, 5, 7, 10, 15, 20, 30]))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter("{x:g}")


def _legend_entries(with_published: bool) -> list[Line2D]:
    entries = [
        Line2D([], [], color=look.colour, marker=look.marker,
               label=f"{look.label} (band: all seeds)")
        for look in _LOOKS.values()
    ]  # fmt: skip
    if with_published:
        entries.append(Line2D([], [], label="published (Lee et al. 2026)", **PUBLISHED))
    return entries


def draw_headline(table: pd.DataFrame, path: Path) -> Path:
    """Draw the headline: ratio of both schemes, published, simulated, and under sound rules.

    `table` has a row a scheme and N with the columns ``published``, ``study`` and ``sound``.
    """
    kinds = {
        "published": "published",
        "study": "simulated, rules of the study",
        "sound": "simulated, sound rules",
    }
    highest = float(table[list(kinds)].max().max())
    with figure_style():
        figure, axes = plt.subplots(1, len(GROUPS), figsize=(10.5, 3.6), sharey=True)
        for axis, groups in zip(axes, GROUPS, strict=True):
            mine = table[table.groups == groups].set_index("scheme")
            for place, kind in enumerate(kinds):
                values = mine[kind]
                for offset, scheme in zip((-0.19, 0.19), SCHEMES, strict=True):
                    at, value = place + offset, float(values[scheme])
                    pale = 0.45 if kind == "published" else 1.0
                    axis.bar(at, value, width=0.36, color=_LOOKS[scheme].colour, alpha=pale)
                    axis.text(at, value, f"{value:.2f}", ha="center", va="bottom")
                less = 1 - values["spare"] / values["replication"]
                above = values["spare"] + 0.085 * highest
                axis.text(place + 0.19, above, f"−{less:.0%}", ha="center", fontweight="bold")
            names = [name.replace(", ", ",\n") for name in kinds.values()]
            axis.set_xticks(range(len(kinds)), names)
            axis.tick_params(axis="x", labelsize=8, length=0)
            axis.set_title(f"N = {groups} groups")
        axes[0].set_ylabel("time-to-train ratio")
        axes[0].set_ylim(0, highest * 1.1)
        handles = [Patch(color=look.colour, label=look.label) for look in _LOOKS.values()]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
        return save_figure(figure, path)
