"""The figures of the SPARe reproduction; they read only tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
from faultline.experiments.studies.spare.cells import GROUPS, RULES, SCHEMES, rows_with
from faultline.experiments.studies.spare.rates import OVERVIEW, REJOINING, REPAIR_S
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import CARETUP
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

_LOOKS = {
    "checkpoint": replace(look_of("checkpoint"), label="checkpoint only"),
    **{scheme: replace(look_of(scheme), label=title_of(scheme)) for scheme in SCHEMES},
    REJOINING: LineLook("SPARe, groups rejoin", "#56B4E9", "D", ":"),
}
_PUBLISHED = mark("published (Lee et al. 2026)", **PUBLISHED)
_TICKS = {60.0: "1 min", 300.0: "5 min", 1800.0: "30 min", 7200.0: "2 h", 28_800.0: "8 h",
          86_400.0: "1 day"}  # fmt: skip
_LANDMARKS = {
    300.0: "every 5 min: as foreseen\nfor 600,000 GPUs",
    10_800.0: "every 3 h: as on\n16,000 GPUs today",
}
_TOP = 20.0
_BEYOND: Mapping[str, Any] = {
    "marker": CARETUP, "markersize": 9, "markerfacecolor": "white", "linestyle": "none",
}  # fmt: skip
"""Markers of values above the top: hollow, as checkpoints alone have filled triangles."""


def draw_curves(runs: pd.DataFrame) -> Figure:
    """Draw the ratio over redundancy, a panel per N.

    These are runs under the rules of the study, with Weibull failures. Bands span the seeds;
    published values are hollow diamonds.
    """
    chosen = rows_with(runs, rules="spare-study", distribution="weibull")
    figure, axes = plt.subplots(1, len(GROUPS), figsize=(10.5, 4.2), sharey=True)
    for groups, axis in zip(GROUPS, axes, strict=True):
        mine = rows_with(chosen, groups=groups)
        for scheme in SCHEMES:
            look = _LOOKS[scheme]
            sns.lineplot(
                data=rows_with(mine, strategy=scheme), x="redundancy", y="time_to_train_ratio",
                ax=axis, legend=False, color=look.colour, marker=look.marker, markeredgewidth=0,
                errorbar=("pi", 100),
            )  # fmt: skip
        axis.plot(mine.redundancy, mine["published_time_to_train_ratio"], **PUBLISHED)
        axis.set(xlabel="redundancy r", ylabel="", title=f"N = {groups} groups")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes[0].set_ylabel("time-to-train ratio (log)")
    # Logarithmic: at r = 2 the ratio is ten times that of the optimum.
    axes[0].set_yscale("log")
    ticks_at(axes[0].yaxis, [2, 3, 4, 5, 7, 10, 15, 20, 30])
    entries = [
        mark(f"{look.label} (band: all seeds)", look.colour, marker=look.marker)
        for look in map(_LOOKS.__getitem__, SCHEMES)
    ]
    legend_below(figure, [*entries, _PUBLISHED], 3)
    write_title(figure, "The published times come out at each redundancy, under the study's rules")
    return figure


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
    write_title(figure, _headline_title(savings))
    return figure


def _headline_title(savings: pd.DataFrame) -> str:
    """Return the published saving, and that under sound rules, over all N."""
    study, sound = (rows_with(savings, rules=rules) for rules in RULES)
    return (
        f"SPARe's published saving of {study.published.min():.0%} to {study.published.max():.0%} "
        f"becomes {sound.saved.min():.0%} to {sound.saved.max():.0%} under sound rules"
    )


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
        colour = "black" if kind == "published" else "white"
        axis.text(at, 0.1, chosen, ha="center", va="bottom", color=colour, fontsize=8)


def _saved_text(saved: pd.Series) -> str:
    return f"−{saved.saved:.0%}\n({100 * saved.low:.0f} to {100 * saved.high:.0f})"


def draw_rates(curves: pd.DataFrame, crossings: pd.DataFrame) -> Figure:
    """Draw the fastest scheme by failure rate, for the job of the overview.

    Tables are those of `rates.sweep` and `rates.crossings`.
    """
    mine = rows_with(curves, **OVERVIEW)
    figure, axis = plt.subplots(figsize=(8.4, 4.8))
    for place, (scheme, look) in enumerate(_LOOKS.items()):
        _draw_scheme(axis, rows_with(mine, strategy=scheme), look, place)
    axis.set(yscale="log", ylim=(1.0, _TOP), xscale="log", xlim=(54.0, 96_000.0))
    ticks_at(axis.yaxis, (1, 1.5, 2, 3, 5, 10, 20))
    axis.set_xticks(list(_TICKS), list(_TICKS.values()))
    axis.set_xticks([], minor=True)
    _shade_leaders(axis, mine, rows_with(crossings, **OVERVIEW))
    for rate, landmark in _LANDMARKS.items():
        axis.annotate(
            landmark, (rate, 1.0), (rate, 1.07), fontsize=8.5, color="#444444", ha="center",
            va="bottom", arrowprops={"arrowstyle": "-|>", "color": "#444444", "shrinkA": 0},
        )  # fmt: skip
    axis.set_xlabel("mean time between failures of the whole job  (failures often → seldom)")
    axis.set_ylabel("time to train, without failures = 1 (log)")
    write_title(figure, "How often something fails decides which scheme trains soonest")
    axis.set_title(
        "One job in 200 groups of GPUs, restarts of an hour, each scheme at its best "
        "redundancy and checkpoint interval",
        fontsize=8.5, fontweight="normal", pad=22,
    )  # fmt: skip
    keys = [mark(look.label, look.colour, marker=look.marker, ls="") for look in _LOOKS.values()]
    grey = "#444444"
    keys += [
        mark("simulated, with 95 % interval", grey, marker="o", linestyle=""),
        mark("closed form", grey),
        mark("more, or not done in a year", grey, **_BEYOND),
    ]
    legend_below(figure, keys)
    repaired = f"Groups that rejoin are repaired in {duration_text(REPAIR_S)}."
    write_notes(figure, [repaired, "The shading compares schemes whose groups wait for a restart."])
    return figure


def _draw_scheme(axis: Axes, rows: pd.DataFrame, look: LineLook, place: int) -> None:
    """Draw the ratio of a scheme over the rate, with its closed form as a line."""
    colour = look.colour
    axis.plot(rows.mtbf_s, rows.closed_form_ratio, color=colour, linewidth=1.6, alpha=0.75)
    draw_means(
        axis, rows.mtbf_s, rows.rename(columns={"time_to_train_ratio": "mean"}), linestyle=":",
        linewidth=0.9, marker=look.marker, color=colour, markersize=6, elinewidth=1,
    )  # fmt: skip
    beyond = rows.mtbf_s[rows.time_to_train_ratio.isna() | (rows.low > _TOP)]
    # Side by side if several schemes exceed the top.
    axis.plot(beyond * 1.13**place, [_TOP] * len(beyond), color=colour, **_BEYOND)


def _shade_leaders(axis: Axes, mine: pd.DataFrame, crossings: pd.DataFrame) -> None:
    """Shade the rates by the fastest scheme, and name the scheme and the borders above."""
    # Rejoining changes the rules; leaders are compared under one set of rules.
    first = mine[(mine.mtbf_s == mine.mtbf_s.min()) & (mine.strategy != REJOINING)]
    spans = [(first.set_index("strategy").time_to_train_ratio.idxmin(), float(mine.mtbf_s.min()))]
    for change in crossings.dropna(subset=["mtbf_s"]).sort_values("mtbf_s").itertuples():
        if change.often == spans[-1][0]:
            spans.append((change.seldom, change.mtbf_s))
            axis.axvspan(change.low_s, change.high_s, color="#777777", alpha=0.35, linewidth=0)
    ends = [left for _, left in spans[1:]]
    for (scheme, left), right in zip(spans, [*ends, float(mine.mtbf_s.max())], strict=True):
        look = _LOOKS[scheme]
        axis.axvspan(left, right, color=look.colour, alpha=0.09, linewidth=0)
        axis.text(
            np.sqrt(left * right), _TOP * 1.04, f"{look.label} trains soonest", ha="center",
            va="bottom", color=look.colour, fontweight="bold", fontsize=10,
        )  # fmt: skip
        if left in ends:
            since = f"from about {left / 3600:.1f} h"
            axis.text(left * 1.06, _TOP * 0.93, since, va="top", fontsize=10)
