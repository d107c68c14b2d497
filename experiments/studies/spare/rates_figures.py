"""The figures of the sweep over failure rates; they read tables and nothing else."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from faultline.experiments.figures.style import figure_style, save_figure, scheme_looks, write_title
from faultline.experiments.studies.base import Draw
from faultline.experiments.studies.spare.figures import PUBLISHED, RULES_NAMES
from faultline.experiments.studies.spare.published import GROUPS
from faultline.experiments.studies.spare.rates import (
    DISTRIBUTIONS,
    NAMES,
    RULES,
    SCHEMES,
    span_text,
)
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, PercentFormatter

_LOOKS = scheme_looks(SCHEMES)
_TICKS = {60.0: "1 min", 300.0: "5 min", 1800.0: "30 min", 7200.0: "2 h", 28_800.0: "8 h",
          86_400.0: "1 day"}  # fmt: skip
_LANDMARKS = (
    (300.0, "every 5 min: as foreseen\nfor 600,000 GPUs"),
    (10_800.0, "every 3 h: as on\n16,000 GPUs today"),
)
_TOP = 20.0
_RATIOS = (1, 1.5, 2, 3, 5, 10, 20)
_TIME_BETWEEN = "mean time between failures of the whole job"


def figures(curves: pd.DataFrame, crossings: pd.DataFrame) -> dict[str, Draw]:
    """Return all figures by file name: the overview, and one for all rules and distributions."""
    overview: Draw = partial(draw_overview, curves, crossings)
    return {
        "failure-rates.png": overview,
        **{
            f"failure-rates-{rules.removeprefix('spare-')}-{distribution}.png": partial(
                draw_all, curves, crossings, rules, distribution
            )
            for rules in RULES
            for distribution in DISTRIBUTIONS
        },
    }


def draw_overview(
    curves: pd.DataFrame, crossings: pd.DataFrame, path: Path, groups: int = 200
) -> Path:
    """Draw who trains soonest at which failure rate: one job, sound rules, Weibull failures.

    Parameters
    ----------
    curves, crossings : DataFrame
        As `rates.sweep` and `crossings.crossings` return them.
    """
    mine = _part(curves, "spare-sound", "weibull", groups)
    changes = _part(crossings, "spare-sound", "weibull", groups)
    with figure_style():
        figure, axis = plt.subplots(figsize=(8.4, 4.6))
        _draw_ratios(axis, mine)
        _shade_leaders(axis, mine, changes)
        for scheme, place, above in (
            ("checkpoint", 900.0, 1.14), ("replication", 300.0, 1.1), ("spare", 300.0, 0.84)
        ):  # fmt: skip
            line = mine[(mine.strategy == scheme) & mine.time_to_train_ratio.notna()]
            rates, ratios = np.log(line.mtbf_s), np.log(line.time_to_train_ratio.to_numpy())
            height = np.exp(np.interp(np.log(place), rates, ratios))
            axis.text(
                place * (1.06 if above > 1 else 0.94), height * above, NAMES[scheme],
                ha="left" if above > 1 else "right", color=_LOOKS[scheme].colour, fontsize=12,
                fontweight="bold",
            )  # fmt: skip
        for rate, what in _LANDMARKS:
            axis.annotate(
                what, (rate, 1.0), (rate, 1.07), fontsize=8.5, color="#444444", ha="center",
                va="bottom", arrowprops={"arrowstyle": "-|>", "color": "#444444", "shrinkA": 0},
            )  # fmt: skip
        _label_rates(axis)
        axis.set_xlabel(f"{_TIME_BETWEEN}  (failures often → seldom)")
        axis.set_ylabel("time to train, without failures = 1 (log)")
        write_title(figure, "How often something fails decides which scheme trains soonest")
        axis.set_title(
            f"One job in {groups} groups of GPUs, restarts of an hour, each scheme at its best "
            "redundancy and checkpoint interval",
            fontsize=8.5, fontweight="normal", pad=22,
        )  # fmt: skip
        figure.legend(handles=_keys(published=False), loc="outside lower center", ncols=4)
        return save_figure(figure, path)


def draw_all(
    curves: pd.DataFrame, crossings: pd.DataFrame, rules: str, distribution: str, path: Path
) -> Path:
    """Draw ratio and availability over the failure rate, a column an N."""
    with figure_style():
        figure, axes = plt.subplots(2, len(GROUPS), figsize=(11.5, 7.2), sharex=True, sharey="row")
        for column, groups in enumerate(GROUPS):
            mine = _part(curves, rules, distribution, groups)
            above, below = axes[0][column], axes[1][column]
            _draw_ratios(above, mine)
            _draw_crossings(above, _part(crossings, rules, distribution, groups))
            above.set_title(f"N = {groups} groups")
            _draw_availabilities(below, mine)
            below.set_xlabel(_TIME_BETWEEN)
            below.tick_params(axis="x", labelsize=8.5)
            _label_rates(below)
        axes[0][0].set_ylabel("time-to-train ratio (log)")
        axes[1][0].set_ylabel("availability")
        axes[1][0].set_ylim(0.0, 1.03)
        axes[1][0].yaxis.set_major_formatter(PercentFormatter(1.0))
        with_published = bool(curves[curves.rules == rules].published_ratio.notna().any())
        with_published &= distribution == "weibull"
        names = [
            Line2D([], [], color=_LOOKS[s].colour, marker=_LOOKS[s].marker, ls="", label=NAMES[s])
            for s in SCHEMES
        ]
        keys = [*names, *_keys(with_published, crossings=True)]
        figure.legend(handles=keys, loc="outside lower center", ncols=4)
        failures = "Weibull (shape 0.78)" if distribution == "weibull" else distribution
        title = f"Time to train and availability, {RULES_NAMES[rules]}, {failures} failures"
        write_title(figure, title)
        return save_figure(figure, path)


def _part(table: pd.DataFrame, rules: str, distribution: str, groups: int) -> pd.DataFrame:
    chosen = (table.rules == rules) & (table.distribution == distribution)
    return table[chosen & (table.groups == groups)]


def _draw_ratios(axis: Axes, mine: pd.DataFrame) -> None:
    axis.set_yscale("log")
    axis.set_ylim(1.0, _TOP)
    axis.yaxis.set_major_locator(FixedLocator(_RATIOS))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter("{x:g}")
    arrows: dict[float, int] = {}
    for scheme in SCHEMES:
        rows = mine[mine.strategy == scheme]
        colour, marker = _LOOKS[scheme].colour, _LOOKS[scheme].marker
        axis.plot(rows.mtbf_s, rows.closed_form_ratio, color=colour, linewidth=1.6, alpha=0.75)
        axis.errorbar(
            rows.mtbf_s, rows.time_to_train_ratio,
            yerr=[rows.time_to_train_ratio - rows.low, rows.high - rows.time_to_train_ratio],
            linestyle=":", linewidth=0.9, marker=marker, color=colour, markersize=6, elinewidth=1,
        )  # fmt: skip
        for rate in rows.mtbf_s[rows.time_to_train_ratio.isna() | (rows.low > _TOP)]:
            # Beyond the top, or never: side by side where several are.
            turn = arrows[rate] = arrows.get(rate, -1) + 1
            axis.annotate(
                "", (rate * 1.13**turn, _TOP * 1.0), (rate * 1.13**turn, _TOP * 0.82),
                arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0},
            )  # fmt: skip
        _draw_published(axis, rows, "published_ratio")


def _draw_availabilities(axis: Axes, mine: pd.DataFrame) -> None:
    for scheme in SCHEMES:
        rows = mine[mine.strategy == scheme]
        colour = _LOOKS[scheme].colour
        axis.plot(
            rows.mtbf_s, rows.closed_form_availability, color=colour, linewidth=1.6, alpha=0.75
        )
        axis.plot(
            rows.mtbf_s, rows.availability, linestyle="none", marker=_LOOKS[scheme].marker,
            color=colour, markersize=6,
        )  # fmt: skip
        _draw_published(axis, rows, "published_availability")


def _draw_published(axis: Axes, rows: pd.DataFrame, column: str) -> None:
    axis.plot(
        rows.mtbf_s, rows[column], **{**PUBLISHED, "markersize": 10, "markeredgewidth": 1.1},
        zorder=5,
    )  # fmt: skip


def _draw_crossings(axis: Axes, changes: pd.DataFrame) -> None:
    for change in changes.dropna(subset=["mtbf_s"]).itertuples():
        axis.axvspan(change.low_s, change.high_s, color="#888888", alpha=0.3, linewidth=0)
        axis.axvline(change.mtbf_s, color="#666666", linewidth=0.9)


def _shade_leaders(axis: Axes, mine: pd.DataFrame, changes: pd.DataFrame) -> None:
    """Shade the rates by who is soonest there, and name the scheme and the borders above."""
    ratios = mine.pivot_table(index="mtbf_s", columns="strategy", values="time_to_train_ratio")
    leaders = ratios.idxmin(axis=1)
    edges, holders = [float(leaders.index[0])], [leaders.iloc[0]]
    for change in changes.dropna(subset=["mtbf_s"]).sort_values("mtbf_s").itertuples():
        if change.often == holders[-1]:
            edges.append(change.mtbf_s)
            holders.append(change.seldom)
            axis.axvspan(change.low_s, change.high_s, color="#777777", alpha=0.35, linewidth=0)
    edges.append(float(leaders.index[-1]))
    for place, scheme in enumerate(holders):
        left, right = edges[place], edges[place + 1]
        axis.axvspan(left, right, color=_LOOKS[scheme].colour, alpha=0.09, linewidth=0)
        axis.text(
            np.sqrt(left * right), _TOP * 1.04, f"{NAMES[scheme]} trains soonest", ha="center",
            va="bottom", color=_LOOKS[scheme].colour, fontweight="bold", fontsize=10,
        )  # fmt: skip
        if place:
            below = _TOP * 0.93
            axis.text(left * 1.06, below, f"from {span_text(left)}", va="top", fontsize=10)


def _label_rates(axis: Axes) -> None:
    axis.set_xscale("log")
    axis.set_xlim(54.0, 96_000.0)
    axis.xaxis.set_major_locator(FixedLocator(list(_TICKS)))
    axis.xaxis.set_major_formatter(lambda rate, _: _TICKS.get(float(rate), ""))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_minor_formatter(NullFormatter())


def _keys(published: bool, crossings: bool = False) -> list[Line2D]:
    grey = "#444444"
    keys = [
        Line2D([], [], color=grey, marker="o", linestyle="", label="simulated, with 95 % interval"),
        Line2D([], [], color=grey, label="closed form"),
        Line2D([], [], color=grey, marker=r"$\uparrow$", markersize=9, linestyle="",
               label="more, or not done in a year"),
    ]  # fmt: skip
    if crossings:
        keys.append(Line2D([], [], color="#aaaaaa", linewidth=6, label="one overtakes another"))
    if published:
        keys.append(Line2D([], [], label="published (Lee et al. 2026)", **PUBLISHED))
    return keys
