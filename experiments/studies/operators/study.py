"""What operators and other simulators report of long runs, beside what Faultline makes of it.

Inputs are as they are stated; what is not stated is swept over the range that is left, and gives a
band. Outputs that were withheld from whoever wrote the study have no published value here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Literal

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.figures.palette import look_of
from faultline.experiments.figures.style import legend_below
from faultline.experiments.studies import claims
from faultline.experiments.studies.base import Kind, Kinds, Results, Row, Study, Verdicts, row_of
from faultline.experiments.studies.claims import verdict_of
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.operators import loop, models, scale
from faultline.experiments.studies.operators.jobs import bloom_rows, loop_jobs
from faultline.experiments.studies.operators.scale import EXCESS, FAIL_STOP, KINDS, bands
from faultline.experiments.studies.stage import Stage
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter

Test = claims.Test | Literal["unknown", "ours"]

_COLOURS = {"inside": "#0072B2", "partly": "#56B4E9", "too wide": "#999999", "outside": "#D55E00"}
_SECTIONS = {
    "A": "RSC's closed form",
    "B": "torchft's stress test",
    "C": "FT-HSDP",
    "D": "ByteRobust",
    "E": "long runs",
    "F": "TrainMover",
    "G": "other simulators",
}


@dataclass(frozen=True, slots=True)
class Output:
    """A published output."""

    # Which one: a row of the study has the same.
    setting: str
    quantity: str
    published: float | None = None  # Its value; None where it was not given to whoever wrote this.
    within: float = 0.03  # How far off a simulated value may be, in the quantity's unit.
    # As a claim's (`claims.Test`), "band" without a tolerance; "unknown": an input is missing;
    # "ours": nothing is published.
    test: Test = "point"
    kind: Kind = "prediction"  # What it is evidence of if it is met.
    note: str = ""  # What is not stated, or why it is missed.
    unit: str = "1"  # Its unit; "1" for shares.


@cache
def outputs() -> tuple[Output, ...]:
    """Return all of them, in the order in which they are shown."""
    return tuple(Output(**row) for row in read_rows("operators", "published"))


def verdicts(
    outputs: tuple[Output, ...], samples: pd.DataFrame
) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield a row an output and scheme that has simulated it, with what is to be said of it.

    Samples have the columns of `loop.SAMPLE`; the ends of a row are those of what is swept. Said
    are ``kind``, what it is evidence of; ``verdict``: "inside", "outside", "partly" (a bound that
    holds for part of what is swept), "too wide" (`claims.MOST_WIDE`), "withheld", "not published"
    or "unknown"; ``off``: by how much the nearest allowed
    value is missed, in the row's unit, 0 inside; ``hits``: the swept values that come nearest to
    the published one; and ``note``.
    """
    by_output = dict(list(samples.groupby(["setting", "quantity"], sort=False)))
    for output in outputs:
        found = by_output.get((output.setting, output.quantity))
        if found is None:
            raise LookupError(f"nothing plays {output.setting}, {output.quantity}")
        for scheme, mine in found.groupby("scheme", sort=False):
            row, hits = _swept(output, str(scheme), mine)
            verdict, off = _verdict(output, row)
            settings = mine.sweep.unique()
            stuck = sum(setting.endswith(models.UNFINISHED) for setting in settings)
            note = output.note
            if stuck:
                note += f"; {stuck} of {len(settings)} settings do not finish"
            yield (
                row,
                {
                    "kind": output.kind,
                    "verdict": verdict,
                    "off": off,
                    "hits": hits,
                    "note": note,
                },
            )


def _swept(output: Output, scheme: str, mine: pd.DataFrame) -> tuple[Row, str]:
    by_sweep = mine.groupby("sweep", sort=False).value.mean()
    values = list(mine.value) if len(by_sweep) == 1 else list(by_sweep)
    row = row_of(output.quantity, scheme, output.setting, output.published, values, output.unit)
    if len(by_sweep) == 1:
        return row, ""
    row = replace(row, low=float(by_sweep.min()), high=float(by_sweep.max()))
    known = output.published
    return row, "" if known is None else str((by_sweep - known).abs().idxmin())


def _verdict(output: Output, row: Row) -> tuple[str, float | None]:
    if output.test == "ours":
        return "not published", None
    if output.published is None:
        return "withheld", None
    if output.test == "unknown":
        return "unknown", None
    # What is swept leaves a band: no further tolerance.
    within = 0.0 if output.test == "band" else output.within
    return verdict_of(row, output.test, within)


def draw_agreement(table: pd.DataFrame) -> Figure:
    """Draw every published share of time with what was simulated: a point a run, bands as lines."""
    shares = table[table.unit.eq("1") & table.published.notna() & ~table.verdict.eq("unknown")]
    shares = shares.iloc[::-1].reset_index(drop=True)
    figure, axis = plt.subplots(figsize=(7.6, 0.27 * len(shares) + 1.2))
    for place, one in enumerate(shares.itertuples()):
        colour = _COLOURS[one.verdict]
        axis.plot([one.low, one.high], [place, place], color=colour, linewidth=3, alpha=0.45)
        fill = colour if one.kind == "prediction" else "white"
        axis.plot(one.simulated, place, "o", color=colour, markerfacecolor=fill, markersize=6)
        axis.plot(one.published, place, "D", color="black", markerfacecolor="none", markersize=7)
    names = [f"{one.setting} {one.quantity}, {one.scheme}" for one in shares.itertuples()]
    axis.set_yticks(range(len(shares)), names, fontsize=8)
    axis.set_ylim(-0.7, len(shares) - 0.3)
    axis.set_xlim(0, 1.02)
    axis.xaxis.set_major_formatter(PercentFormatter(1))
    axis.plot([], [], "D", color="black", markerfacecolor="none", label="published")
    axis.plot([], [], "o-", color=_COLOURS["inside"], label="simulated; band of what is not stated")
    axis.plot([], [], "o", color=_COLOURS["inside"], markerfacecolor="white", label="no prediction")
    axis.plot([], [], "o-", color=_COLOURS["outside"], label="missed")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def draw_scale(table: pd.DataFrame) -> Figure:
    """Draw goodput over GPUs by scheme, a panel a rate of failures.

    Filled: what fails is of all kinds, bars are recoveries and seeds. Hollow: stops only, at the
    same rate.
    """
    figure, axes = plt.subplots(1, 4, figsize=(13, 4.6), sharey=True)
    grid = bands(table[table.variant == ""])
    labels = list(dict.fromkeys(grid.label))
    panels = grid.groupby(["rate", "excess"], sort=False)
    for axis, ((rate, excess), mine) in zip(axes, panels, strict=True):
        for place, label in enumerate(labels):
            scheme, _, protection = label.partition(",")
            look = look_of(scheme)
            ours = mine[mine.label == label]
            cells, stops = (
                ours[ours.failing == failing].sort_values("gpus") for failing in (KINDS, FAIL_STOP)
            )
            # Side by side, so that no bar hides another.
            x = cells.gpus.to_numpy() * 1.1 ** (place - (len(labels) - 1) / 2)
            axis.vlines(x, cells.low, cells.high, color=look.colour, linewidth=4, alpha=0.35)
            axis.vlines(x, stops.low, stops.high, color=look.colour, linewidth=0.8)
            axis.plot(
                x, cells.goodput, "--" if protection else "-", linewidth=1.0, marker=look.marker,
                markersize=5, color=look.colour,
                label=look.label + (f",{protection}" if protection else ""),
            )  # fmt: skip
            hollow = {"color": look.colour, "markerfacecolor": "white"}
            axis.plot(x, stops.goodput, look.marker, markersize=5, **hollow)
        axis.set_xscale("log")
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xticks(sorted(mine.gpus.unique()), ["16k", "98k", "600k"])
        axis.set_title(f"{rate}" + (f", bursts of {EXCESS:g}" if excess else ""))
        axis.set_xlabel("GPUs")
        axis.yaxis.set_major_formatter(PercentFormatter(1))
    axes[0].set_ylim(0, 1)
    axes[0].set_ylabel("goodput")
    axes[0].plot([], [], "o", color="grey", markerfacecolor="white", label="stops only, as often")
    figure.suptitle("Failures of all kinds leave little at 600k GPUs, whatever the scheme")
    legend_below(figure, axes[0], 6)
    return figure


class OperatorsStudy(Study):
    """What operators and other simulators report, played."""

    default_seeds = 3
    charts: ClassVar = {
        "operators.png": (draw_agreement, "verdicts"),
        "operators-scale.png": (draw_scale, "scale"),
    }

    def play(self, stage: Stage) -> Results:
        """Play every row."""
        played = bloom_rows(loop.play(stage, loop_jobs()))
        samples = pd.concat([played, models.play(stage)], ignore_index=True)
        judged = list(verdicts(outputs(), samples))
        return {
            "verdicts": pd.DataFrame({**row.as_dict(), **said} for row, said in judged),
            "samples": samples,
            "scale": scale.play(stage),
            "rows": [row for row, _ in judged],
        }

    def rows(self, results: Results) -> Iterator[Row]:
        """Return every output, and the goodput of every scheme at scale."""
        yield from results["rows"]
        yield from scale.rows(results["scale"])

    def verdicts(self, results: Results) -> Verdicts:
        """Return the verdict of every output."""
        table = results["verdicts"]
        keys = zip(table.quantity, table.scheme, table.setting, strict=True)
        return dict(zip(keys, table.verdict, strict=True))

    def kinds(self, results: Results) -> Kinds:
        """Return the kind of every output."""
        table = results["verdicts"]
        keys = zip(table.quantity, table.scheme, table.setting, strict=True)
        return dict(zip(keys, table.kind, strict=True))

    def records(self, results: Results, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return every output with its verdict; what is not there is null."""
        table = results["verdicts"].astype(object)
        judged = list(table.where(table.notna(), None).to_dict(orient="records"))
        said = {
            "kind": "prediction",
            "verdict": "not published",
            "off": None,
            "hits": "",
            "note": "",
        }
        return [*judged, *({**row.as_dict(), **said} for row in scale.rows(results["scale"]))]

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterable[Printed]:
        """Show a table a section."""
        table = results["verdicts"]
        for letter, title in _SECTIONS.items():
            mine = table[table.setting.str.startswith(letter)]
            columns = ["setting", "quantity", "scheme", "published", "simulated", "low", "high"]
            yield Printed(
                f"{letter}: {title}",
                mine[[*columns, "unit", "kind", "verdict", "off"]],
                dict.fromkeys(("published", "simulated", "low", "high", "off"), "{:,.4g}"),
                {"unit": ""},
                "; ".join(dict.fromkeys(note for note in mine.note if note)),
            )
        yield from scale.printed(results["scale"])

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say how many predictions are met, and which are not."""
        table = results["verdicts"]
        missed = table[table.verdict.eq("outside") & table.kind.eq("prediction")]
        told = "; ".join(
            f"{one.setting} {one.quantity} ({one.scheme})" for one in missed.itertuples()
        )
        return [f"{claims.tally_text(table)}. Missed: {told or 'none'}."]
