"""Reports of operators and other simulators on long runs, and Faultline's results.

Stated inputs are used as they are. Unstated ones are swept over their possible range and give a
band. Outputs withheld from the authors of the study have no published value here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.figures.palette import look_of
from faultline.experiments.figures.style import (
    legend_below,
    mark,
    name_rows,
    pale,
    write_notes,
    write_title,
)
from faultline.experiments.studies.base import Results, Row, Study, row_of
from faultline.experiments.studies.claims import verdict_of
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.operators import loop, scale
from faultline.experiments.studies.operators.jobs import bloom_rows, closed_form_samples, loop_jobs
from faultline.experiments.studies.operators.scale import EXCESS, KINDS, RATES
from faultline.experiments.studies.stage import Stage
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

_WITHIN = 0.03
"""Tolerance of an output that states none, in its unit."""

_COLOURS = {"inside": "#0072B2", "partly": "#56B4E9", "too wide": "#999999", "outside": "#D55E00"}
_PUBLISHED: Mapping[str, Any] = {"color": "black", "markersize": 11, "markeredgewidth": 1.6}


def verdict_table(outputs: Iterable[Mapping[str, Any]], samples: pd.DataFrame) -> pd.DataFrame:
    """Return a row per output of ``data/published.csv`` and simulated scheme, with more columns.

    Samples have the columns of `loop.SAMPLE`; the ends of a row are those of the sweep. The columns
    are ``kind`` and ``note`` of the output; ``verdict``: one of `claims.verdict_of`, "withheld",
    "not published" or "unknown"; ``off``: the distance to the nearest allowed value, in the row's
    unit; and ``hits``: the swept values closest to the published one.
    """
    rows = []
    by_output = samples.groupby(["setting", "quantity"], sort=False)
    for output in outputs:
        setting, quantity = output["setting"], output["quantity"]
        published = output.get("published")
        by_scheme = by_output.get_group((setting, quantity)).groupby("scheme", sort=False)
        for scheme, runs in by_scheme:
            means, hits = runs.groupby("sweep", sort=False).value.mean(), ""
            values = list(runs.value if len(means) == 1 else means)
            unit = output.get("unit", "1")
            row = row_of(quantity, str(scheme), setting, published, values, unit)
            if len(means) > 1:
                row = replace(row, low=float(means.min()), high=float(means.max()))
                hits = "" if published is None else str((means - published).abs().idxmin())
            verdict, off = _verdict(output, row)
            kind = output.get("kind", "prediction")
            judged = {"kind": kind, "verdict": verdict, "off": off, "hits": hits}
            rows.append({**row.as_dict(), **judged, "note": output.get("note", "")})
    return pd.DataFrame(rows)


def _verdict(output: Mapping[str, Any], row: Row) -> tuple[str, float | None]:
    test = output.get("test", "point")
    if test == "ours":
        return "not published", None
    if row.published is None:
        return "withheld", None
    if test == "unknown":
        return "unknown", None
    # The sweep already gives a band, so there is no further tolerance.
    return verdict_of(row, test, 0.0 if test == "band" else output.get("within", _WITHIN))


def draw_agreement(table: pd.DataFrame) -> Figure:
    """Draw published and simulated shares of time: a point per run, bands as lines."""
    shares = table[table.unit.eq("1") & table.published.notna() & ~table.verdict.eq("unknown")]
    parts = {
        "Predictions": shares[shares.kind.eq("prediction")],
        "No predictions": shares[shares.kind.ne("prediction")],
    }
    figure, axis = plt.subplots(figsize=(8.6, 0.27 * (len(shares) + len(parts)) + 1.6))
    names: list[str] = []
    for title, rows in parts.items():
        _draw_shares(axis, rows, len(names) + 1)
        axis.axhspan(len(names) - 0.5, len(names) + 0.5, color="#f0f0f0", zorder=0)
        names += [title, *map(_share_name, rows.to_dict("records"))]
    name_rows(axis, range(len(names)), names)
    for text in axis.get_yticklabels():
        text.set_fontweight("bold" if text.get_text() in parts else "normal")
    axis.set_xlim(0, 1.02)
    axis.xaxis.set_major_formatter(PercentFormatter(1))
    axis.set_xlabel("share of time")
    blue, line = _COLOURS["inside"], {"marker": "o", "linewidth": 4}
    entries = [
        mark("published", linestyle="none", marker="|", **_PUBLISHED),
        mark("simulated", blue, linestyle="none", marker="o"),
        mark("range of what is not stated", pale(blue, 0.4), linewidth=4),
        mark("bound met in part", _COLOURS["partly"], **line),
        mark("range too wide to tell", _COLOURS["too wide"], **line),
        mark("missed", _COLOURS["outside"], **line),
    ]
    legend_below(figure, entries, 3)
    write_title(figure, "Most predicted shares of time are met, some ranges are wide")
    note = "No predictions: arithmetic on stated numbers, calibrated rows, other simulators."
    write_notes(figure, [note])
    return figure


def _draw_shares(axis: Axes, rows: pd.DataFrame, first: int) -> None:
    """Draw published and simulated shares, a row each, from the row `first` on."""
    for place, one in enumerate(rows.itertuples(), first):
        colour = _COLOURS[one.verdict]
        axis.plot([one.low, one.high], [place, place], color=colour, linewidth=4, alpha=0.4)
        fill = colour if one.kind == "prediction" else "white"
        axis.plot(one.simulated, place, "o", color=colour, markerfacecolor=fill, markersize=5)
        # A bar does not hide circles.
        axis.plot(one.published, place, "|", **_PUBLISHED)


def _share_name(row: Mapping[Any, Any]) -> str:
    """Return the name of a row: its run, and its quantity."""
    outputs = read_rows("operators", "published")
    runs = {output["setting"]: output["run"] for output in outputs if "run" in output}
    form = ", closed form" if row["scheme"] == "RSC's form" else ""
    return f"{runs[row['setting']]}: {row['quantity']}{form}"


def _rows_of(cells: pd.DataFrame) -> list[tuple[int, str]]:
    """Return a row per number of GPUs, without a label, and per scheme simulated there."""
    return [
        (gpus, label)
        for gpus, of_size in cells.groupby("gpus")
        for label in ("", *dict.fromkeys(of_size.label))
    ]


def _draw_rate(axis: Axes, cells: pd.DataFrame, rows: Sequence[tuple[int, str]]) -> None:
    """Draw goodput at one rate of failures, in these rows."""
    for one in cells.itertuples():
        look, has_kinds = look_of(one.label.partition(",")[0]), one.failing == KINDS
        # Different heights, so that neither hides the other.
        place = rows.index((one.gpus, one.label)) + (-0.18 if has_kinds else 0.18)
        width = 4 if has_kinds else 1.2
        axis.hlines(place, one.low, one.high, color=pale(look.colour, 0.4), linewidth=width)
        fill = look.colour if has_kinds else "white"
        axis.plot(
            one.goodput, place, look.marker, markersize=5, color=look.colour, markerfacecolor=fill
        )
    axis.xaxis.set_major_formatter(PercentFormatter(1))
    names = []
    for place, (gpus, label) in enumerate(rows):
        scheme, _, protection = label.partition(",")
        if label:
            names.append(look_of(scheme).label + (f",{protection}" if protection else ""))
            continue
        axis.axhspan(place - 0.5, place + 0.5, color="#f0f0f0", zorder=0)
        names.append(f"{gpus:,} GPUs")
    name_rows(axis, range(len(names)), names)


def draw_scale(cells: pd.DataFrame) -> Figure:
    """Draw goodput by GPUs and scheme at Llama 3's rate with bursts, a row per scheme.

    Filled: failures of all kinds, bars are recoveries and seeds. Hollow: stops only, at the same
    rate.
    """
    rate = next(iter(RATES))
    mine = cells[(cells.variant == "") & (cells.rate == rate) & cells.excess]
    rows = _rows_of(mine)
    figure, axis = plt.subplots(figsize=(8.0, 0.22 * len(rows) + 1.6))
    _draw_rate(axis, mine, rows)
    for text in axis.get_yticklabels():
        text.set_fontweight("bold" if text.get_text().endswith("GPUs") else "normal")
    axis.set_xlabel("goodput")
    axis.set_xlim(-0.02, 1)
    entries = [
        mark("failures of all kinds; range of recoveries and seeds", marker="o", linewidth=3),
        mark("stops only, at the same rate", marker="o", markerfacecolor="white", linewidth=1),
    ]
    legend_below(figure, entries, 2)
    write_title(figure, "Goodput falls with the GPUs of the job, whatever the scheme")
    write_notes(figure, [f"{rate}'s rate of failures per GPU, in bursts of {EXCESS:g} on average."])
    return figure


class OperatorsStudy(Study):
    """Reports of operators and other simulators, simulated."""

    default_seeds = 3
    charts: ClassVar = {
        "operators.png": (draw_agreement, "verdicts"),
        "operators-scale.png": (draw_scale, "bands"),
    }
    headline_title = "Shares of time in long runs (ETTR, commits, goodput)"
    headline_rows: ClassVar = {
        "RSC-1, 2,048 to 4,096 GPUs (at least)": ("ETTR", "*", "A5"),
        "torchft, a kill a minute": ("commits", "*", "B1"),
        "ByteRobust, dense model (at least)": ("ETTR", "*", "D1"),
        "ByteRobust, mixture of experts": ("ETTR", "*", "D2"),
        "Llama 3": ("ETTR", "*", "E1"),
        "MegaScale": ("ETTR", "*", "E2"),
        "BLOOM-176B": ("share", "*", "E4"),
        "OPT-175B": ("share", "*", "E8"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Run every row."""
        simulated = bloom_rows(loop.simulate(stage, loop_jobs()))
        samples = pd.concat([simulated, closed_form_samples()], ignore_index=True)
        runs = scale.simulate(stage)
        return {
            "verdicts": verdict_table(read_rows("operators", "published"), samples),
            "samples": samples,
            "scale": runs,
            "bands": scale.bands(runs),
        }

    def records(self, results: Results, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return every output with its verdict; missing values are null."""
        table = results["verdicts"].astype(object)
        judged = list(table.where(table.notna(), None).to_dict(orient="records"))
        printed = {"kind": "prediction", "verdict": "not published", "off": None}
        printed |= {"hits": "", "note": ""}
        return [*judged, *(row.as_dict() | printed for row in rows[len(judged) :])]
