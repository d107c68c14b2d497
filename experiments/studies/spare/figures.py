"""The figures of the SPARe reproduction; they read tables and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import seaborn as sns
from faultline.experiments.figures.palette import LineLook, looks_of_schemes
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
from faultline.experiments.studies.spare import cells
from faultline.experiments.studies.spare.cells import GROUPS, SCHEMES
from faultline.experiments.studies.spare.rates import NAMES, REJOINING, REPAIR_S, span_text
from faultline.experiments.studies.spare.rates import SCHEMES as RATE_SCHEMES
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

_QUANTITIES = {
    "time_to_train_ratio": "time-to-train ratio (log)",
    "availability": "availability",
    "mean_stacks": "mean stacks a step",
}
_LOOKS = looks_of_schemes(RATE_SCHEMES)
_LOOKS[REJOINING] = replace(
    _LOOKS["spare"], label=NAMES[REJOINING], colour="#56B4E9", marker="D", dashes=":"
)
RULES_NAMES = {"spare-study": "rules of the study", "spare-sound": "sound rules"}
_TICKS = {60.0: "1 min", 300.0: "5 min", 1800.0: "30 min", 7200.0: "2 h", 28_800.0: "8 h",
          86_400.0: "1 day"}  # fmt: skip
_LANDMARKS = (
    (300.0, "every 5 min: as foreseen\nfor 600,000 GPUs"),
    (10_800.0, "every 3 h: as on\n16,000 GPUs today"),
)
_TOP = 20.0
_RATIOS = (1, 1.5, 2, 3, 5, 10, 20)
_TIME_BETWEEN = "mean time between failures of the whole job"


def draw_curves(runs: pd.DataFrame, rules: str, distribution: str) -> Figure:
    """Draw ratio, availability and mean stacks over redundancy, a column an N.

    Bands span the seeds; published values lie on top as hollow diamonds (rules of the study and
    Weibull failures only: nothing else was published).
    """
    chosen = runs[(runs.rules == rules) & (runs.distribution == distribution)]
    with_published = rules == "spare-study" and distribution == "weibull"
    figure, axes = plt.subplots(3, len(GROUPS), figsize=(10.5, 8.4), sharex="col", sharey="row")
    for groups, column in zip(GROUPS, axes.T, strict=True):
        source = cells.trials() if groups == 200 else cells.headline()
        known = source[source.groups == groups] if with_published else source[:0]
        for quantity, axis in zip(_QUANTITIES, column, strict=True):
            _draw_quantity(axis, chosen[chosen.groups == groups], known, quantity)
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
    if with_published:
        entries.append(mark("published (Lee et al. 2026)", **PUBLISHED))
    legend_below(figure, entries, 3)
    failures = distribution.capitalize() if distribution == "weibull" else distribution
    title = f"Redundancy against time, {RULES_NAMES[rules]}, {failures} failures every 300 s"
    write_title(figure, title)
    return figure


def _draw_quantity(axis: Axes, runs: pd.DataFrame, known: pd.DataFrame, quantity: str) -> None:
    """Draw a quantity over redundancy, a line a scheme, and what is published of it."""
    for scheme in runs.strategy.unique():
        sns.lineplot(
            data=runs[runs.strategy == scheme], x="redundancy", y=quantity, ax=axis, legend=False,
            color=_LOOKS[scheme].colour, marker=_LOOKS[scheme].marker, markeredgewidth=0,
            errorbar=("pi", 100),
        )  # fmt: skip
    if quantity in known:
        for scheme in SCHEMES:
            mine = known[known.scheme == scheme]
            axis.plot(mine.redundancy, mine[quantity], **PUBLISHED)
    axis.set(xlabel="", ylabel="")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))


def draw_headline(table: pd.DataFrame, savings: pd.DataFrame) -> Figure:
    """Draw the headline: ratio of both schemes, published, simulated, and under sound rules.

    `table` and `savings` are those of `study.headline_of` and `study.savings_of`. Lines on bars are
    95 % intervals over seeds; under sound rules both schemes are at their best redundancy.
    """
    kinds = {
        "published": ("published", "redundancy"),
        "study": ("simulated,\nrules of the study", "redundancy"),
        "sound_best": ("simulated,\nsound rules,\nbest redundancy", "sound_best_redundancy"),
    }
    highest = float(table[list(kinds)].max().max())
    figure, axes = plt.subplots(1, len(GROUPS), figsize=(10.5, 3.8), sharey=True)
    for axis, groups in zip(axes, GROUPS, strict=True):
        mine = table[table.groups == groups].set_index("scheme")
        saved = savings[savings.groups == groups].set_index("rules")
        shares = (
            f"−{saved.published['spare-study']:.0%}",
            _saved_text(saved, "spare-study"),
            _saved_text(saved, "spare-sound"),
        )
        for place, (kind, (_, redundancy)) in enumerate(kinds.items()):
            values = mine[kind]
            for offset, scheme in zip((-0.19, 0.19), SCHEMES, strict=True):
                at, value, top = place + offset, float(values[scheme]), float(values[scheme])
                pale = 0.45 if kind == "published" else 1.0
                axis.bar(at, value, width=0.36, color=_LOOKS[scheme].colour, alpha=pale)
                if kind != "published":
                    low, top = (float(mine[f"{kind}_{end}"][scheme]) for end in ("low", "high"))
                    axis.plot([at, at], [low, top], color="black", lw=1.0)
                axis.text(at, top, f"{value:.2f}", ha="center", va="bottom")
                chosen = f"r={mine[redundancy][scheme]}"
                axis.text(at, 0.1, chosen, ha="center", va="bottom", color="white", fontsize=8)
            above = float(mine.get(f"{kind}_high", values)["replication"]) + 0.095 * highest
            axis.text(place, above, shares[place], ha="center", fontweight="bold", fontsize=9)
        axis.set_xticks(range(len(kinds)), [name for name, _ in kinds.values()])
        axis.tick_params(axis="x", labelsize=7.5, length=0)
        axis.set_title(f"N = {groups} groups")
    axes[0].set(ylabel="time-to-train ratio", ylim=(0, highest * 1.25))
    handles: list[Patch | Line2D] = [
        Patch(color=_LOOKS[one].colour, label=_LOOKS[one].label) for one in SCHEMES
    ]
    handles.append(mark("95 % interval over seeds", "black", lw=1.0))
    legend_below(figure, handles, 3)
    return figure


def _saved_text(saved: pd.DataFrame, rules: str) -> str:
    share, low, high = (saved[name][rules] for name in ("saved", "low", "high"))
    return f"−{share:.0%}\n({100 * low:.0f} to {100 * high:.0f})"


def rate_figures(curves: pd.DataFrame, crossings: pd.DataFrame) -> dict[str, Draw]:
    """Return all figures by file name: the overview, and one for all rules and distributions."""
    drawn: dict[str, Draw] = {"failure-rates.png": partial(draw_overview, curves, crossings)}
    for rules, distribution in product(cells.RULES, cells.DISTRIBUTIONS):
        name = f"failure-rates-{rules.removeprefix('spare-')}-{distribution}.png"
        drawn[name] = partial(draw_all, curves, crossings, rules, distribution)
    return drawn


def draw_overview(curves: pd.DataFrame, crossings: pd.DataFrame) -> Figure:
    """Draw who trains soonest at which failure rate: one job, sound rules, Weibull failures.

    As `rates.sweep` and `crossings.crossings` return them.
    """
    mine = _part(curves, "spare-sound", "weibull", 200)
    changes = _part(crossings, "spare-sound", "weibull", 200)
    figure, axis = plt.subplots(figsize=(8.4, 4.6))
    _draw_ratios(axis, mine)
    _shade_leaders(axis, mine, changes)
    for scheme, place, above in (
        ("checkpoint", 900.0, 1.14), ("replication", 300.0, 1.1), ("spare", 200.0, 1.1),
        (REJOINING, 500.0, 0.78),
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
        "One job in 200 groups of GPUs, restarts of an hour, each scheme at its best "
        "redundancy and checkpoint interval",
        fontsize=8.5, fontweight="normal", pad=22,
    )  # fmt: skip
    legend_below(figure, _keys(published=False))
    repaired = f"Groups that rejoin are repaired in {span_text(REPAIR_S)}."
    write_notes(figure, [repaired, "The shading compares schemes whose groups wait for a restart."])
    return figure


def draw_all(
    curves: pd.DataFrame, crossings: pd.DataFrame, rules: str, distribution: str
) -> Figure:
    """Draw ratio and availability over the failure rate, a column an N."""
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
    axes[1][0].set(ylabel="availability", ylim=(0.0, 1.03))
    axes[1][0].yaxis.set_major_formatter(PercentFormatter(1.0))
    with_published = bool(curves[curves.rules == rules].published_ratio.notna().any())
    with_published &= distribution == "weibull"
    of_figure = curves[(curves.rules == rules) & (curves.distribution == distribution)]
    names = [
        mark(name, _LOOKS[scheme].colour, marker=_LOOKS[scheme].marker, ls="")
        for scheme, name in NAMES.items()
        if scheme in set(of_figure.strategy)
    ]
    legend_below(figure, [*names, *_keys(with_published, crossings=True)])
    failures = "Weibull (shape 0.78)" if distribution == "weibull" else distribution
    title = f"Time to train and availability, {RULES_NAMES[rules]}, {failures} failures"
    write_title(figure, title)
    return figure


def _part(table: pd.DataFrame, rules: str, distribution: str, groups: int) -> pd.DataFrame:
    chosen = (table.rules == rules) & (table.distribution == distribution)
    return table[chosen & (table.groups == groups)]


def _draw_ratios(axis: Axes, mine: pd.DataFrame) -> None:
    axis.set(yscale="log", ylim=(1.0, _TOP))
    ticks_at(axis.yaxis, _RATIOS)
    arrows: dict[float, int] = {}
    for rows, look in _by_scheme(axis, mine, "ratio"):
        draw_means(
            axis, rows.mtbf_s, rows.rename(columns={"time_to_train_ratio": "mean"}),
            linestyle=":", linewidth=0.9, marker=look.marker, color=look.colour, markersize=6,
            elinewidth=1,
        )  # fmt: skip
        for rate in rows.mtbf_s[rows.time_to_train_ratio.isna() | (rows.low > _TOP)]:
            # Beyond the top, or never: side by side where several are.
            turn = arrows[rate] = arrows.get(rate, -1) + 1
            axis.annotate(
                "", (rate * 1.13**turn, _TOP * 1.0), (rate * 1.13**turn, _TOP * 0.82),
                arrowprops={
                    "arrowstyle": "-|>", "color": look.colour, "shrinkA": 0, "shrinkB": 0,
                },
            )  # fmt: skip


def _draw_availabilities(axis: Axes, mine: pd.DataFrame) -> None:
    for rows, look in _by_scheme(axis, mine, "availability"):
        axis.plot(rows.mtbf_s, rows.availability, look.marker, color=look.colour, markersize=6)


def _by_scheme(
    axis: Axes, mine: pd.DataFrame, what: str
) -> Iterator[tuple[pd.DataFrame, LineLook]]:
    """Yield the rates of each scheme to be drawn, between its closed form and what is published."""
    for scheme in NAMES:
        rows, look = mine[mine.strategy == scheme], _LOOKS[scheme]
        form, published = rows[f"closed_form_{what}"], rows[f"published_{what}"]
        axis.plot(rows.mtbf_s, form, color=look.colour, linewidth=1.6, alpha=0.75)
        yield rows, look
        axis.plot(rows.mtbf_s, published, **{**PUBLISHED, "markersize": 10})


def _draw_crossings(axis: Axes, changes: pd.DataFrame) -> None:
    for change in changes.dropna(subset=["mtbf_s"]).itertuples():
        axis.axvspan(change.low_s, change.high_s, color="#888888", alpha=0.3, linewidth=0)
        axis.axvline(change.mtbf_s, color="#666666", linewidth=0.9)


def _shade_leaders(axis: Axes, mine: pd.DataFrame, changes: pd.DataFrame) -> None:
    """Shade the rates by who is soonest there, and name the scheme and the borders above."""
    ratios = mine.pivot_table(index="mtbf_s", columns="strategy", values="time_to_train_ratio")
    # Where groups rejoin, the rules are others: leaders are those of one set of rules.
    leaders = ratios[list(RATE_SCHEMES)].idxmin(axis=1)
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
    axis.set(xscale="log", xlim=(54.0, 96_000.0))
    axis.set_xticks(list(_TICKS), list(_TICKS.values()))
    axis.set_xticks([], minor=True)


def _keys(published: bool, crossings: bool = False) -> list[Line2D]:
    grey = "#444444"
    keys = [
        mark("simulated, with 95 % interval", grey, marker="o", linestyle=""),
        mark("closed form", grey),
        mark("more, or not done in a year", grey, marker="^", markersize=7, linestyle=""),
    ]  # fmt: skip
    if crossings:
        keys.append(mark("one overtakes another", "#aaaaaa", linewidth=6))
    if published:
        keys.append(mark("published (Lee et al. 2026)", **PUBLISHED))
    return keys
