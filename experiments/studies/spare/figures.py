"""The figures of the SPARe reproduction; they read tables and nothing else."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import seaborn as sns
from faultline.experiments.figures.style import (
    SCHEME_COLOURS,
    SCHEME_MARKERS,
    SCHEME_NAMES,
    figure_style,
    save_figure,
)
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
_RULES_NAMES = {"spare-study": "rules of the study", "spare-sound": "sound rules"}


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
        figure.suptitle(
            f"Redundancy against time, {_RULES_NAMES[rules]}, {failures} failures every 300 s",
            x=0.01,
            ha="left",
            fontweight="bold",
        )
        return save_figure(figure, path)


def _draw_quantity(axis: Axes, runs: pd.DataFrame, quantity: str) -> None:
    for scheme in SCHEMES:
        mine = runs[runs.strategy == scheme]
        if mine.empty:
            continue
        sns.lineplot(
            data=mine,
            x="redundancy",
            y=quantity,
            color=SCHEME_COLOURS[scheme],
            marker=SCHEME_MARKERS[scheme],
            markeredgewidth=0,
            errorbar=("pi", 100),
            ax=axis,
            legend=False,
        )


def _draw_published(axis: Axes, groups: int, quantity: str) -> None:
    source = trials() if groups == 200 else headline()
    if quantity not in source:
        return
    for scheme in SCHEMES:
        known = source[(source.groups == groups) & (source.scheme == scheme)]
        axis.plot(
            known.redundancy,
            known[quantity],
            linestyle="none",
            marker="D",
            markersize=8,
            markerfacecolor="none",
            markeredgecolor="black",
            markeredgewidth=1.1,
            zorder=5,
        )


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
        Line2D(
            [], [], color=SCHEME_COLOURS[scheme], marker=SCHEME_MARKERS[scheme],
            label=f"{SCHEME_NAMES[scheme]} (band: all seeds)",
        )
        for scheme in SCHEMES
    ]  # fmt: skip
    if with_published:
        entries.append(
            Line2D(
                [], [], linestyle="none", marker="D", markersize=8, markerfacecolor="none",
                markeredgecolor="black", label="published (Lee et al. 2026)",
            )
        )  # fmt: skip
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
    with figure_style():
        figure, axes = plt.subplots(1, len(GROUPS), figsize=(10.5, 3.6), sharey=True)
        for axis, groups in zip(axes, GROUPS, strict=True):
            mine = table[table.groups == groups].set_index("scheme")
            for place, kind in enumerate(kinds):
                for offset, scheme in zip((-0.19, 0.19), SCHEMES, strict=True):
                    value = float(mine.loc[scheme, kind])
                    axis.bar(
                        place + offset,
                        value,
                        width=0.36,
                        color=SCHEME_COLOURS[scheme],
                        alpha=0.45 if kind == "published" else 1.0,
                    )
                    axis.text(place + offset, value, f"{value:.2f}", ha="center", va="bottom")
                less = 1 - float(mine.loc["spare", kind]) / float(mine.loc["replication", kind])
                above = float(mine.loc["spare", kind]) + 0.085 * float(
                    table[list(kinds)].max().max()
                )
                axis.text(place + 0.19, above, f"−{less:.0%}", ha="center", fontweight="bold")
            axis.set_xticks(
                range(len(kinds)), [name.replace(", ", ",\n") for name in kinds.values()]
            )
            axis.tick_params(axis="x", labelsize=8, length=0)
            axis.set_title(f"N = {groups} groups")
        axes[0].set_ylabel("time-to-train ratio")
        axes[0].set_ylim(0, float(table[list(kinds)].max().max()) * 1.1)
        handles = [
            Patch(color=SCHEME_COLOURS[scheme], label=SCHEME_NAMES[scheme]) for scheme in SCHEMES
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
        return save_figure(figure, path)
