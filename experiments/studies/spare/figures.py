"""The figures of the SPARe reproduction; they read tables and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.figures.palette import LineLook, look_of, title_of
from faultline.experiments.figures.style import (
    PUBLISHED,
    draw_means,
    legend_below,
    mark,
    ticks_at,
    write_notes,
    write_title,
)
from faultline.experiments.studies.base import Draw
from faultline.experiments.studies.spare.cells import (
    DISTRIBUTIONS,
    GROUPS,
    RULES,
    SCHEMES,
    rows_with,
)
from faultline.experiments.studies.spare.rates import OVERVIEW, REJOINING, REPAIR_S
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETUP
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

_QUANTITIES = {
    "time_to_train_ratio": "time-to-train ratio (log)",
    "availability": "availability",
    "mean_stacks": "mean stacks a step",
}
_LOOKS = {
    "checkpoint": replace(look_of("checkpoint"), label="checkpoint only"),
    **{scheme: replace(look_of(scheme), label=title_of(scheme)) for scheme in SCHEMES},
    REJOINING: LineLook("SPARe, groups rejoin", "#56B4E9", "D", ":"),
}
_RULES_NAMES = {"spare-study": "rules of the study", "spare-sound": "sound rules"}
_TICKS = {60.0: "1 min", 300.0: "5 min", 1800.0: "30 min", 7200.0: "2 h", 28_800.0: "8 h",
          86_400.0: "1 day"}  # fmt: skip
_LANDMARKS = {
    300.0: "every 5 min: as foreseen\nfor 600,000 GPUs",
    10_800.0: "every 3 h: as on\n16,000 GPUs today",
}
_TOP = 20.0
_TIME_BETWEEN = "mean time between failures of the whole job"


def draw_curves(runs: pd.DataFrame, rules: str, distribution: str) -> Figure:
    """Draw ratio, availability and mean stacks over redundancy, a column an N.

    Bands span the seeds; published values lie on top as hollow diamonds (`study.with_published`).
    """
    chosen = rows_with(runs, rules=rules, distribution=distribution)
    figure, axes = plt.subplots(3, len(GROUPS), figsize=(10.5, 8.4), sharex="col", sharey="row")
    for groups, column in zip(GROUPS, axes.T, strict=True):
        for quantity, axis in zip(_QUANTITIES, column, strict=True):
            _draw_quantity(axis, rows_with(chosen, groups=groups), quantity)
        column[0].set_title(f"N = {groups} groups")
        column[-1].set_xlabel("redundancy r")
    for label, axis in zip(_QUANTITIES.values(), axes[:, 0], strict=True):
        axis.set_ylabel(label)
    # Logarithmic: at r = 2 the ratio is ten times that of the optimum.
    axes[0, 0].set_yscale("log")
    ticks_at(axes[0, 0].yaxis, [2, 3, 4, 5, 7, 10, 15, 20, 30])
    axes[1, 0].yaxis.set_major_formatter(PercentFormatter(1.0))
    axes[1, 0].set_ylim(0, 1.04)
    entries = [
        mark(f"{look.label} (band: all seeds)", look.colour, marker=look.marker)
        for look in map(_LOOKS.__getitem__, SCHEMES)
    ]
    if chosen.published_time_to_train_ratio.notna().any():
        entries.append(mark("published (Lee et al. 2026)", **PUBLISHED))
    legend_below(figure, entries, 3)
    failures = f"{distribution.capitalize()} failures every 300 s"
    write_title(figure, f"Redundancy against time, {_RULES_NAMES[rules]}, {failures}")
    return figure


def _draw_quantity(axis: Axes, runs: pd.DataFrame, quantity: str) -> None:
    """Draw a quantity over redundancy, a line a scheme, and what is published of it."""
    for scheme, mine in runs.groupby("strategy"):
        look = _LOOKS[str(scheme)]
        sns.lineplot(
            data=mine, x="redundancy", y=quantity, ax=axis, legend=False, color=look.colour,
            marker=look.marker, markeredgewidth=0, errorbar=("pi", 100),
        )  # fmt: skip
    if (published := f"published_{quantity}") in runs:
        axis.plot(runs.redundancy, runs[published], **PUBLISHED)
    axis.set(xlabel="", ylabel="")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))


def draw_headline(table: pd.DataFrame, savings: pd.DataFrame) -> Figure:
    """Draw the headline: ratio of both schemes, published, simulated, and under sound rules.

    `table` and `savings` are those of `study.headline_of` and `study.savings_of`. Lines on bars are
    95 % intervals over seeds; under sound rules both schemes are at their best redundancy.
    """
    kinds = ("published", "study", "sound_best")
    names = ("published", "rules of the study", "sound rules,\nbest redundancy")
    highest = float(table[[*kinds]].max().max())
    figure, axes = plt.subplots(1, len(GROUPS), figsize=(10.5, 3.8), sharey=True)
    for axis, groups in zip(axes, GROUPS, strict=True):
        mine = rows_with(table, groups=groups).set_index("scheme")
        study, sound = (rows_with(savings, groups=groups, rules=rules).iloc[0] for rules in RULES)
        shares = (f"−{study.published:.0%}", *(_saved_text(saved) for saved in (study, sound)))
        for place, (kind, share) in enumerate(zip(kinds, shares, strict=True)):
            _draw_pair(axis, place, mine, kind)
            tops = mine.get(f"{kind}_high", mine[kind])
            above = float(tops["replication"]) + 0.095 * highest
            axis.text(place, above, share, ha="center", fontweight="bold", fontsize=9)
        axis.set_xticks(range(len(kinds)), names)
        axis.tick_params(axis="x", labelsize=7.5, length=0)
        axis.set_title(f"N = {groups} groups")
    axes[0].set(ylabel="time-to-train ratio", ylim=(0, highest * 1.25))
    bars = [Patch(color=_LOOKS[one].colour, label=_LOOKS[one].label) for one in SCHEMES]
    legend_below(figure, [*bars, mark("95 % interval over seeds", "black", lw=1.0)], 3)
    return figure


def _draw_pair(axis: Axes, place: int, mine: pd.DataFrame, kind: str) -> None:
    """Draw the bars of both schemes, with their ratio, interval and redundancy."""
    redundancies = mine.sound_best_redundancy if kind == "sound_best" else mine.redundancy
    for at, scheme in zip((place - 0.19, place + 0.19), SCHEMES, strict=True):
        value = top = float(mine[kind][scheme])
        pale = 0.45 if kind == "published" else 1.0
        axis.bar(at, value, width=0.36, color=_LOOKS[scheme].colour, alpha=pale)
        if kind != "published":
            low, top = (float(mine[f"{kind}_{end}"][scheme]) for end in ("low", "high"))
            axis.plot([at, at], [low, top], color="black", lw=1.0)
        axis.text(at, top, f"{value:.2f}", ha="center", va="bottom")
        chosen = f"r={redundancies[scheme]}"
        axis.text(at, 0.1, chosen, ha="center", va="bottom", color="white", fontsize=8)


def _saved_text(saved: pd.Series) -> str:
    return f"−{saved.saved:.0%}\n({100 * saved.low:.0f} to {100 * saved.high:.0f})"


def rate_figures(curves: pd.DataFrame, crossings: pd.DataFrame) -> dict[str, Draw]:
    """Return all figures by file name: the overview, and one for all rules and distributions.

    Tables are those of `rates.sweep` and `crossings.crossings`.
    """
    drawn: dict[str, Draw] = {"failure-rates.png": partial(draw_overview, curves, crossings)}
    for rules, distribution in product(RULES, DISTRIBUTIONS):
        name = f"failure-rates-{rules.removeprefix('spare-')}-{distribution}.png"
        drawn[name] = partial(draw_all, curves, crossings, rules, distribution)
    return drawn


def draw_overview(curves: pd.DataFrame, crossings: pd.DataFrame) -> Figure:
    """Draw which scheme trains soonest at which failure rate, for the job of the overview."""
    mine = rows_with(curves, **OVERVIEW)
    figure, axis = plt.subplots(figsize=(8.4, 4.8))
    _draw_rates(axis, mine, "ratio")
    _shade_leaders(axis, mine, rows_with(crossings, **OVERVIEW))
    for rate, what in _LANDMARKS.items():
        axis.annotate(
            what, (rate, 1.0), (rate, 1.07), fontsize=8.5, color="#444444", ha="center",
            va="bottom", arrowprops={"arrowstyle": "-|>", "color": "#444444", "shrinkA": 0},
        )  # fmt: skip
    axis.set_xlabel(f"{_TIME_BETWEEN}  (failures often → seldom)")
    axis.set_ylabel("time to train, without failures = 1 (log)")
    write_title(figure, "How often something fails decides which scheme trains soonest")
    axis.set_title(
        "One job in 200 groups of GPUs, restarts of an hour, each scheme at its best "
        "redundancy and checkpoint interval",
        fontsize=8.5, fontweight="normal", pad=22,
    )  # fmt: skip
    legend_below(figure, _keys(mine))
    repaired = f"Groups that rejoin are repaired in {duration_text(REPAIR_S)}."
    write_notes(figure, [repaired, "The shading compares schemes whose groups wait for a restart."])
    return figure


def draw_all(
    curves: pd.DataFrame, crossings: pd.DataFrame, rules: str, distribution: str
) -> Figure:
    """Draw ratio and availability over the failure rate, a column an N."""
    of_figure, changes = (
        rows_with(table, rules=rules, distribution=distribution) for table in (curves, crossings)
    )
    figure, axes = plt.subplots(2, len(GROUPS), figsize=(11.5, 7.2), sharex=True, sharey="row")
    for groups, (above, below) in zip(GROUPS, axes.T, strict=True):
        mine = rows_with(of_figure, groups=groups)
        _draw_rates(above, mine, "ratio")
        for change in _crossed(rows_with(changes, groups=groups)):
            above.axvspan(change.low_s, change.high_s, color="#888888", alpha=0.3, linewidth=0)
            above.axvline(change.mtbf_s, color="#666666", linewidth=0.9)
        above.set_title(f"N = {groups} groups")
        _draw_rates(below, mine, "availability")
        below.set_xlabel(_TIME_BETWEEN)
        below.tick_params(axis="x", labelsize=8.5)
    axes[0][0].set_ylabel("time-to-train ratio (log)")
    axes[1][0].set(ylabel="availability", ylim=(0.0, 1.03))
    axes[1][0].yaxis.set_major_formatter(PercentFormatter(1.0))
    legend_below(figure, [*_keys(of_figure), mark("one overtakes another", "#aaaaaa", linewidth=6)])
    failures = "Weibull (shape 0.78)" if distribution == "weibull" else distribution
    title = f"Time to train and availability, {_RULES_NAMES[rules]}, {failures} failures"
    write_title(figure, title)
    return figure


def _crossed(crossings: pd.DataFrame) -> list[Any]:
    return list(crossings.dropna(subset=["mtbf_s"]).sort_values("mtbf_s").itertuples())


def _draw_rates(axis: Axes, mine: pd.DataFrame, what: str) -> None:
    """Draw ratio or availability over the rate: closed forms as lines, published values on top."""
    for place, (scheme, look) in enumerate(_LOOKS.items()):
        rows = rows_with(mine, strategy=scheme)
        form, published = rows[f"closed_form_{what}"], rows[f"published_{what}"]
        axis.plot(rows.mtbf_s, form, color=look.colour, linewidth=1.6, alpha=0.75)
        if what == "availability":
            axis.plot(rows.mtbf_s, rows.availability, look.marker, color=look.colour, markersize=6)
        else:
            means = rows.rename(columns={"time_to_train_ratio": "mean"})
            draw_means(
                axis, rows.mtbf_s, means, linestyle=":", linewidth=0.9, marker=look.marker,
                color=look.colour, markersize=6, elinewidth=1,
            )  # fmt: skip
            beyond = rows.mtbf_s[rows.time_to_train_ratio.isna() | (rows.low > _TOP)]
            # Side by side if several schemes are beyond the top.
            beside = beyond * 1.13**place
            axis.plot(beside, [_TOP] * len(beside), color=look.colour, **_BEYOND)
        axis.plot(rows.mtbf_s, published, **{**PUBLISHED, "markersize": 10})
    if what == "ratio":
        axis.set(yscale="log", ylim=(1.0, _TOP))
        ticks_at(axis.yaxis, (1, 1.5, 2, 3, 5, 10, 20))
    axis.set(xscale="log", xlim=(54.0, 96_000.0))
    axis.set_xticks(list(_TICKS), list(_TICKS.values()))
    axis.set_xticks([], minor=True)


_BEYOND: Mapping[str, Any] = {
    "marker": CARETUP, "markersize": 9, "markerfacecolor": "white", "linestyle": "none",
}  # fmt: skip
"""Markers of values above the top: hollow, as checkpoints alone have filled triangles."""


def _shade_leaders(axis: Axes, mine: pd.DataFrame, changes: pd.DataFrame) -> None:
    """Shade the rates by the scheme that is soonest, and name the scheme and the borders above."""
    # If groups rejoin, the rules are others: leaders are those of one set of rules.
    first = mine[(mine.mtbf_s == mine.mtbf_s.min()) & (mine.strategy != REJOINING)]
    spans = [(first.set_index("strategy").time_to_train_ratio.idxmin(), float(mine.mtbf_s.min()))]
    for change in _crossed(changes):
        if change.often == spans[-1][0]:
            spans.append((change.seldom, change.mtbf_s))
            axis.axvspan(change.low_s, change.high_s, color="#777777", alpha=0.35, linewidth=0)
    for place, (scheme, left) in enumerate(spans):
        right = spans[place + 1][1] if place + 1 < len(spans) else float(mine.mtbf_s.max())
        look = _LOOKS[scheme]
        axis.axvspan(left, right, color=look.colour, alpha=0.09, linewidth=0)
        axis.text(
            np.sqrt(left * right), _TOP * 1.04, f"{look.label} trains soonest", ha="center",
            va="bottom", color=look.colour, fontweight="bold", fontsize=10,
        )  # fmt: skip
        if place:
            since = f"from {duration_text(left)}"
            axis.text(left * 1.06, _TOP * 0.93, since, va="top", fontsize=10)


def _keys(curves: pd.DataFrame) -> list[Line2D]:
    """Return the entries of a legend: the schemes of a figure, and the kinds of values."""
    grey = "#444444"
    keys = [
        mark(look.label, look.colour, marker=look.marker, ls="")
        for scheme, look in _LOOKS.items()
        if scheme in set(curves.strategy)
    ]
    keys += [
        mark("simulated, with 95 % interval", grey, marker="o", linestyle=""),
        mark("closed form", grey),
        mark("more, or not done in a year", grey, **_BEYOND),
    ]
    if curves.published_ratio.notna().any():
        keys.append(mark("published (Lee et al. 2026)", **PUBLISHED))
    return keys
