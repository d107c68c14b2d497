"""Checkpoints in the host memory of peers (GEMINI, Wang et al. 2023, SOSP).

Whether memory still holds all state after lost machines: the published probabilities, their lower
bound, the exact value and random sets. And what the paper does not study: failures that take a
whole scale-up domain, on 16,384 GPUs with the shipped mixes of causes, for GEMINI and REFT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.figures.style import (
    PUBLISHED,
    draw_means,
    graded_looks,
    legend_below,
    mark,
)
from faultline.experiments.studies.base import Results, Row, Study, row_of
from faultline.experiments.studies.gemini import tables
from faultline.experiments.studies.stage import Stage
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, PercentFormatter

_SHOWN_LOSSES = (2, 3, 4, 8, 16)
_SHOWN_SHARES = (0.0, 0.1, 0.2)
_ROW_WINDOWS_H = (1, 24)
# Okabe and Ito (2008), a palette for all kinds of colour vision.
_LOOKS = {
    "reft-16": ("#D55E00", "s"),
    "reft-8": ("#E69F00", "D"),
    "gemini-2": ("#0072B2", "o"),
    "gemini-3": ("#009E73", "v"),
}
_GREY = "#555555"


def _draw_recovery(table: pd.DataFrame) -> Figure:
    """Draw GEMINI's recovery probability by lost machines, for more machines and more replicas."""
    panels = (
        ("Two replicas", [(machines, 2) for machines in (16, 64, 256, 1024)], "{0:,} machines"),
        ("960 machines", [(960, replicas) for replicas in (2, 3, 4)], "{1} replicas"),
    )
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), sharey=True)
    for axis, (title, jobs, label) in zip(axes, panels, strict=True):
        looks = graded_looks([label.format(*job) for job in jobs])
        for (machines, replicas), look in zip(jobs, looks, strict=True):
            mine = table[(table.machines == machines) & (table.replicas == replicas)]
            axis.plot(mine.lost, mine.exact, color=look.colour)
            axis.plot(mine.lost, mine.bound, color=look.colour, linestyle=":", linewidth=1.2)
            axis.plot(
                mine.lost, mine.drawn, look.marker, color=look.colour, label=look.label,
                clip_on=False,
            )  # fmt: skip
        axis.set_xscale("log", base=2)
        ticks = [lost for lost in tables.LOST_MACHINES if lost & (lost - 1) == 0]
        axis.set_xticks(ticks, [str(lost) for lost in ticks])
        axis.minorticks_off()
        axis.set(xlabel="machines lost at once", title=title)
        axis.legend(loc="lower left")
    for (_, _, lost), percent in tables.PUBLISHED_RECOVERY.items():
        axes[0].plot(lost, percent / 100.0, **PUBLISHED)
    axes[0].yaxis.set_major_formatter(PercentFormatter(1))
    axes[0].set(ylim=(0, 1.02), ylabel="recovery from memory")
    handles = [
        mark("exact", _GREY),
        mark("GEMINI's lower bound", _GREY, ls=":", lw=1.2),
        mark("random sets", _GREY, marker="o", ls="none"),
        mark("published, 16 machines", **PUBLISHED),
    ]
    legend_below(figure, handles)
    return figure


def _draw_survival(table: pd.DataFrame, curves: pd.DataFrame) -> Figure:
    """Draw survival by the share of failures that take a domain, and by the length of a window.

    What was drawn as `window_table` returns it, and the closed form on a finer grid.
    """
    mine = table[(table.mix == tables.SHOWN_MIX) & (table.scheme != "unprotected")]
    lines = curves[curves.mix == tables.SHOWN_MIX]
    figure, (by_share, by_window) = plt.subplots(1, 2, figsize=(10.5, 4.6), sharey=True)
    for axis, fixed, value, column in (
        (by_share, "window_h", 24, "domain_share"),
        (by_window, "domain_share", 0.1, "window_h"),
    ):
        _draw_curves(axis, lines[lines[fixed] == value], mine[mine[fixed] == value], column)
    by_share.set_xlim(0, 0.2)
    by_share.xaxis.set_major_locator(MultipleLocator(0.05))
    by_share.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    by_share.set_xlabel("failures that take a whole scale-up domain")
    by_share.set_title(f"Failures of {tables.SHOWN_MIX} on 16,384 GPUs, 24 hours")
    by_window.set(xlim=(0, 24), xticks=tables.WINDOWS_H)
    by_window.set_xlabel("hours in which nothing is rebuilt")
    by_window.set_title("10% of the failures take a domain")
    by_share.set_ylim(0, 1.02)
    by_share.yaxis.set_major_formatter(PercentFormatter(1))
    by_share.set_ylabel("all state still in memory")
    handles = [
        mark(tables.SCHEMES[name].label, colour, marker=marker)
        for name, (colour, marker) in _LOOKS.items()
    ]
    handles += [
        mark("groups across domains", _GREY),
        mark("groups of neighbours", _GREY, ls="--"),
        mark("failures drawn, 95%", _GREY, marker="o", ls="none"),
    ]
    legend_below(figure, handles)
    return figure


def _draw_curves(axis: Axes, exact: pd.DataFrame, drawn: pd.DataFrame, column: str) -> None:
    for (scheme, placement), line in exact.groupby(["scheme", "placement"]):
        dashes = "-" if placement == "across-domains" else "--"
        axis.plot(line[column], line.exact, color=_LOOKS[scheme][0], linestyle=dashes)
    for (scheme, _), marks in drawn.groupby(["scheme", "placement"]):
        colour, marker = _LOOKS[scheme]
        means = marks.rename(columns={"drawn": "mean"})
        look = {"fmt": marker, "color": colour, "markersize": 4, "linewidth": 1.0}
        draw_means(axis, marks[column], means, **look, clip_on=False)


class GeminiStudy(Study):
    """Recovery from memory, survival through windows of time, and what a failure wastes."""

    charts: ClassVar = {
        "recovery.png": (_draw_recovery, "recovery"),
        "survival.png": (_draw_survival, "windows", "curves"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Draw lost machines, lost domains and failures, and compute the closed forms."""
        seeds = range(stage.seeds)
        sets, days = stage.pick(20_000, 200_000), stage.pick(2_000, 20_000)
        results: Results = {}
        with stage.step("lost machines"):
            results["recovery"] = tables.recovery_table(seeds, sets)
        with stage.step("lost domains"):
            results["domains"] = tables.domain_table(seeds, sets)
        mixes = [(mix, seeds, days) for mix in tables.MIXES]
        windows = stage.calls("failures of mixes", _windows_of, mixes)
        results["windows"] = pd.concat(windows, ignore_index=True)
        with stage.step("closed forms"):
            results["curves"] = tables.curve_table(tables.SHOWN_MIX)
        wasted = {"wasted": tables.wasted_table(), "placement": tables.placement_table()}
        return results | wasted

    def rows(self, results: Results) -> Iterator[Row]:
        """Return every probability, exact and drawn, and every wasted time."""
        yield from recovery_rows(results["recovery"])
        yield from domain_rows(results["domains"])
        yield from window_rows(results["windows"])
        yield from wasted_rows(results["wasted"], results["placement"])

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterator[Printed | str]:
        """Return recovery, survival and wasted time, and how far draws agree."""
        yield _shown_recovery(results["recovery"])
        yield _shown_windows(results["windows"], 24)
        yield _shown_waste(results["wasted"], results["placement"])
        drawn = [results[name] for name in ("windows", "domains", "recovery")]
        inside = sum(int(((one.exact >= one.low) & (one.exact <= one.high)).sum()) for one in drawn)
        yield (
            f"Closed forms within the 95 % interval of the draws: {inside} of "
            f"{sum(map(len, drawn))} cells (cells share draws)."
        )

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say what placement decides."""
        windows, placed = results["windows"], results["placement"]
        day = windows[
            (windows.mix == tables.SHOWN_MIX)
            & (windows.window_h == 24)
            & (windows.domain_share == 0.1)
            & (windows.scheme == "gemini-2")
        ].set_index("placement")
        tenth = placed[placed.domain_share == 0.1].set_index("placement").wasted_s / 60
        return [
            "If 10 % of the failures take a whole scale-up domain, two replicas across domains "
            "survive 24 h of Llama 3's failures, nothing rebuilt, with a probability of "
            f"{day.exact['across-domains']:.1%}, neighbours with {day.exact['neighbours']:.1%}; a "
            f"failure wastes {tenth['across-domains']:.1f} minutes on average instead of "
            f"{tenth['neighbours']:.1f}."
        ]


def _windows_of(argument: tuple[str, Sequence[int], int]) -> pd.DataFrame:
    return tables.window_table(*argument)


def recovery_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Return GEMINI's recovery probability: exact, its lower bound, and by random sets."""
    return _probabilities(
        table[table.lost.isin(_SHOWN_LOSSES)].assign(scheme="gemini"),
        "recovery probability",
        "N={0.machines} m={0.replicas} k={0.lost}",
        _published_recovery,
    )


def domain_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Return the recovery probability after whole domains are lost, exact and by random sets."""
    return _probabilities(
        table[table.scheme != "unprotected"],
        "recovery probability",
        "2048 hosts in domains of 8, {0.lost_domains} domains lost, {0.placement}",
    )


def window_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Return the survival through windows, by the closed form and by failures drawn."""
    return _probabilities(
        table[table.domain_share.isin(_SHOWN_SHARES) & table.window_h.isin(_ROW_WINDOWS_H)],
        "survival of a window",
        "{0.mix} on 16384 GPUs, {0.domain_share:.0%} of failures take a domain, {0.window_h} h, "
        "{0.placement}",
    )


def _published_recovery(cell: Any) -> float | None:
    return tables.PUBLISHED_RECOVERY.get((cell.machines, cell.replicas, cell.lost))


def _probabilities(
    table: pd.DataFrame,
    quantity: str,
    setting: str,
    published: Callable[[Any], float | None] | None = None,
) -> Iterator[Row]:
    """Yield the exact value of each cell, its bound if it has one, and what was drawn, in %."""
    closed = {"exact": quantity, "bound": f"{quantity}, lower bound"}
    for cell in table.itertuples():
        texts, known = (cell.scheme, setting.format(cell)), published(cell) if published else None
        for column, name in closed.items():
            if column in table:
                yield row_of(name, *texts, known, [100.0 * getattr(cell, column)], "%")
        drawn, low, high = (100.0 * value for value in (cell.drawn, cell.low, cell.high))
        yield Row(f"{quantity}, Monte Carlo", *texts, known, drawn, low, high, "%")


def wasted_rows(wasted: pd.DataFrame, placed: pd.DataFrame) -> Iterator[Row]:
    """Return what a failure wastes by where checkpoints are, and what placement does to it."""
    job = f"{tables.PARAMETERS / 1e9:g}B parameters, {tables.MACHINES} machines"
    setting = f"{job}, iteration {tables.ITERATION_S:g} s"
    seconds = dict(zip(wasted.checkpoints, wasted.wasted_s, strict=True))
    memory, *storage = seconds
    for way, wasted_s in seconds.items():
        yield row_of("wasted time a failure", way, setting, None, [wasted_s], "s")
    for way in storage:
        times = [seconds[way] / seconds[memory]]
        yield row_of("wasted time of storage over memory", way, setting, None, times, "1")
    for cell in placed.itertuples():
        where = (
            f"{setting}, m={tables.REPLICAS}, domains of {tables.MACHINES_PER_DOMAIN} machines, "
            f"{cell.domain_share:.0%} of failures take a domain, {cell.placement}"
        )
        yield row_of("mean wasted time a failure", "gemini", where, None, [cell.wasted_s], "s")


def _shown_recovery(table: pd.DataFrame) -> Printed:
    mine = table[table.lost.isin(_SHOWN_LOSSES)]
    frame = mine[["machines", "replicas", "lost"]].assign(
        published=[_published_recovery(cell) for cell in mine.itertuples()],
        bound=mine.bound,
        exact=mine.exact,
        drawn=[f"{cell.low:.2%} to {cell.high:.2%}" for cell in mine.itertuples()],
    )
    return Printed(
        "Recovery from memory after k of N machines are lost, m replicas (GEMINI)",
        frame,
        {"published": "{:g}%", "bound": "{:.2%}", "exact": "{:.2%}", "drawn": "{}"},
        {"machines": "N", "replicas": "m", "lost": "k", "drawn": "Monte Carlo, 95 %"},
    )


def _shown_windows(table: pd.DataFrame, hours: int) -> Printed:
    mine = table[(table.mix == tables.SHOWN_MIX) & (table.window_h == hours)]
    exact = mine.set_index(["scheme", "domain_share", "placement"]).exact.sort_index()
    columns = {"0%\neither": (0.0, "across-domains")} | {
        f"{share:.0%}\n{placement.split('-')[0]}": (share, placement)
        for share in _SHOWN_SHARES[1:]
        for placement in tables.PLACEMENTS
    }
    frame = pd.DataFrame(
        [
            {"scheme": scheme.label} | {title: exact[(name, *at)] for title, at in columns.items()}
            for name, scheme in tables.SCHEMES.items()
        ]
    )
    return Printed(
        f"State in memory survives {hours} h, nothing rebuilt: {tables.SHOWN_MIX}, 16,384 GPUs,\n"
        "by the share of failures that take a domain of 8 hosts, and by placement",
        frame,
        dict.fromkeys(columns, "{:.2%}"),
    )


def _shown_waste(wasted: pd.DataFrame, placed: pd.DataFrame) -> Printed:
    mine = placed[placed.domain_share.isin(_SHOWN_SHARES[1:])]
    where = "memory, {0.placement}, {0.domain_share:.0%} of failures take a domain"
    named = mine.assign(checkpoints=[where.format(cell) for cell in mine.itertuples()])
    return Printed(
        "Wasted time a failure: t_ckpt + 1/(2f) + t_retrieval",
        pd.concat([wasted, named])[["checkpoints", "wasted_s"]],
        {"wasted_s": lambda wasted_s: f"{wasted_s / 60:.1f}"},
        {"wasted_s": "minutes"},
    )
