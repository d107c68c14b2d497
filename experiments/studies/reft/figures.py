"""The figures of the study; they read tables and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.figures.charts import (
    Level,
    Line,
    Mark,
    Panel,
    Scale,
    Text,
    draw_panels,
    line_of,
    lines_by,
)
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.style import PUBLISHED, graded_looks
from faultline.experiments.studies.reft import combinations, failures, snapshots
from matplotlib.figure import Figure

_LABELS = {
    "storage": "storage,\njob waits",
    "async-storage": "storage,\nbackground",
    "reft": "REFT",
    "gemini": "GEMINI",
    "just-in-time": "just in\ntime",
}
# Okabe and Ito (2008), a palette for all kinds of colour vision.
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#555555"
_TOLERANCE_LOOKS = ((_GREY, "-"), (_BLUE, "--"), (_ORANGE, "-."))
_CONTROL: Any = {"color": _GREY, "marker": "s", "ms": 7, "mfc": "white", "mew": 1.5, "ls": "none",
                 "zorder": 3}  # fmt: skip
_TREATMENT_LOOKS = {
    "absorbed": (_BLUE, "-", "o", "a failure is repaired by the stall it falls into"),
    "begins-anew": (_ORANGE, "--", "s", "a group that fails meanwhile begins anew"),
}
_RATIO = "time-to-train ratio (log)"


def draw_combinations(runs: pd.DataFrame) -> Figure:
    """Draw the ratio by protection, a line a scheme and a panel a length of a restart."""
    keys = ["restart_of_s", "strategy", "protection"]
    table = mean_over_seeds(runs, keys, combinations.METRIC)
    places = list(_LABELS).index
    table = table[table.protection.isin(_LABELS)].assign(place=table.protection.map(places))
    table = table.sort_values("place")
    panels = [
        Panel(
            [
                mark
                for scheme in combinations.SCHEMES
                for mark in _by_protection(mine[mine.strategy == scheme], scheme)
            ],
            Scale(limits=(-0.4, len(_LABELS) - 0.4), ticks=dict(enumerate(_LABELS.values()))),
            Scale(_RATIO, log=True, ticks=[2, 3, 4, 5, 7, 10, 20, 50, 100], margin=0.08),
            f"Restarts of {restart_s / 60:g} minutes",
            {"loc": "upper right"} if restart_s == combinations.RESTARTS_S[0] else None,
        )
        for restart_s in combinations.RESTARTS_S
        for mine in [table[table.restart_of_s == restart_s]]
    ]
    notes = [
        f"600,000 GPUs in 200 groups, a failure every 300 s, {runs.steps.iloc[0]:,} steps.",
        f"Mean over {runs.seed.nunique()} seeds, bars: its 95 % interval.",
        "Redundancy and intervals by each scheme's closed form. Scales differ.",
    ]
    return draw_panels(panels, (11.0, 4.8), notes=notes)


def _by_protection(line: pd.DataFrame, scheme: str) -> list[Mark]:
    """Return one scheme: a mark a protection, with its value beside it."""
    look = look_of(scheme)
    # What masks failures: the checkpoints beneath are what is compared.
    label = "no masking" if scheme == "checkpoint" else title_of(scheme)
    points = {"fmt": look.marker, "color": look.colour, "label": label}
    marks: list[Mark] = [
        line_of(line, "place", "mean", points, bars=True),
        line_of(line, "place", "mean", {"color": look.colour, "lw": 0.9, "alpha": 0.6}),
    ]
    note = {"fontsize": 8, "color": look.colour, "va": "baseline"}
    offset = (6, -12 if scheme == "spare" else 5)
    for place, value in zip(line.place, line["mean"], strict=True):
        text = f"{value:.3g}" if value >= 10 else f"{value:.2f}"
        marks.append(Text(place, value, text, note, offset))
    return marks


def draw_scan(scan: pd.DataFrame) -> Figure:
    """Draw SPARe's ratio over redundancy, on storage and on REFT, a panel a restart.

    r = 1 is the control, which masks nothing: up to ten times what the best takes.
    """
    keys = ["restart_of_s", "protection", "redundancy"]
    table = mean_over_seeds(scan, keys, combinations.METRIC)
    looks = {
        name: {"color": colour, "marker": marker, "ls": dashes, "label": label}
        for name, colour, marker, dashes, label in (
            ("storage", _GREY, "^", "--", "storage, job waits"),
            ("reft", _BLUE, "o", "-", "REFT"),
        )
    }
    panels = []
    for restart_s in combinations.RESTARTS_S:
        mine = table[table.restart_of_s == restart_s]
        marks: list[Mark] = [*lines_by(mine, "protection", looks, "redundancy", "mean", band=True)]
        for protection, look in looks.items():
            line, below = mine[mine.protection == protection], protection == "reft"
            note = {"color": look["color"], "fontsize": 8.5, "va": "baseline"}
            best = line.loc[line["mean"].idxmin()]
            text = f"best: r = {best.redundancy:g}, {best['mean']:.2f}"
            at, control = (best.redundancy, best["mean"]), line["mean"].iloc[0]
            marks += [
                Text(*at, text, {**note, "ha": "center"}, (0, -16 if below else 12)),
                Line(1, control, {**_CONTROL, "color": look["color"]}),
                Text(1, control, f"{control:.3g}", {**note, "ha": "right"}, (-9, -3)),
            ]
        marks.append(Line(look={**_CONTROL, "label": "control: r = 1 masks nothing"}))
        first = restart_s == combinations.RESTARTS_S[0]
        panel = Panel(
            marks,
            Scale("redundancy r", (0, 10.5), whole=True),
            Scale(_RATIO * first, (1.6, 45), log=True, ticks=[2, 3, 4, 5, 7, 10, 20, 30]),
            f"Restarts of {restart_s / 60:g} minutes",
            {"loc": "upper right"} if first else None,
        )
        panels.append(panel)
    title = "SPARe, 600,000 GPUs, N = 200, a failure every 300 s"
    return draw_panels(panels, (9.5, 3.9), title=title, share_y=True)


def draw_stalls(table: pd.DataFrame) -> Figure:
    """Draw the effective time over the length of a stall: closed forms, simulated, published."""
    stalls_s = np.linspace(0.0, 780.0, 157)
    marks: list[Mark] = []

    def add_form(treatment: str, colour: str, dashes: str, label: str) -> None:
        curve = [failures.effective_time(treatment, stall_s) for stall_s in stalls_s]
        marks.append(Line(stalls_s / 60, curve, {"color": colour, "ls": dashes, "label": label}))

    for treatment in failures.TREATMENTS:
        colour, dashes, marker, label = _TREATMENT_LOOKS[treatment]
        add_form(treatment, colour, dashes, label)
        mine = mean_over_seeds(table[table.treatment == treatment], ["stall_s"], "effective_time")
        look = {"fmt": marker, "color": colour, "label": f"simulated, {treatment}"}
        marks.append(line_of(mine.assign(min=mine.stall_s / 60), "min", "mean", look, bars=True))
    add_form(failures.ALONE, _GREEN, ":", "each failure waits for a stall of its own")
    minutes = [stall_s / 60 for stall_s in failures.STALLS_S]
    known = [failures.stall_published(stall_s) for stall_s in failures.STALLS_S]
    marks.append(Line(minutes, known, {**PUBLISHED, "label": "published (FT-HSDP)"}))
    panel = Panel(
        marks,
        Scale("stall of a failure (minutes)", (0, 13)),
        Scale("effective time", (0, 1), percent=0),
        "100,000 GPUs, a failure every 17.7 minutes",
        {"loc": "lower left", "fontsize": 8},
    )
    return draw_panels([panel], (7.0, 4.4))


def draw_saving(table: pd.DataFrame) -> Figure:
    """Draw how much faster REFT saves, over the bandwidth of the file system."""
    sizes = sorted(table.sharding_group.unique())
    table = table.assign(bandwidth=table.storage_bandwidth.str.removesuffix("GB/s").astype(float))
    looks = graded_looks([f"sharding groups of {size}" for size in sizes])
    by_size = {size: look.line for size, look in zip(sizes, looks, strict=True)}
    known = snapshots.SAVING_FACTOR
    note = {"color": _GREY, "fontsize": 8.5, "va": "baseline"}
    panel = Panel(
        [
            *lines_by(table, "sharding_group", by_size, "bandwidth", "factor"),
            Level(known, {"color": _GREY, "ls": ":", "lw": 1.2}),
            Text(1.0, known, f"published: more than {known:g}", note, (0, 4)),
            Level(1.0, {"color": _GREY, "lw": 0.8}),
        ],
        Scale(
            "write bandwidth of the file system (GB/s)",
            log=True,
            ticks=list(table.bandwidth.unique()),
        ),
        Scale("REFT saves so many times as fast", log=True, text="{x:g}"),
        "16 HGX A800 servers against asynchronous checkpoints",
        {"loc": "best"},
    )
    return draw_panels([panel], (7.0, 4.2))


def draw_loss_over_time() -> Figure:
    """Draw the loss probability over time for 0, 1 and 2 tolerated losses, and its 10 % times.

    Wang et al. 2023 (REFT): F(t) = 1 - exp(-(t / 50)^3) of a node, 1,024 nodes in groups of 16.
    """
    times = np.linspace(0.0, 20.0, 401)
    marks: list[Mark] = [Level(failures.LOSS, {"color": _GREY, "ls": ":", "lw": 1.2})]
    for tolerated, (colour, dashes) in zip(failures.TOLERATED, _TOLERANCE_LOOKS, strict=True):
        losses = [failures.loss_by(time, tolerated) for time in times]
        label = f"{tolerated or 'no'} loss{'es' if tolerated > 1 else ''} a group tolerated"
        reached = failures.exact_time(tolerated)
        dot = {"color": colour, "marker": "o", "ls": "none", "zorder": 3}
        note = {"color": colour, "va": "baseline"}
        marks += [
            Line(times, losses, {"color": colour, "linestyle": dashes, "label": label}),
            Line(reached, failures.LOSS, dot),
            Text(reached, failures.LOSS, f"{reached:.2f}", note, (6, -12)),
        ]
    panel = Panel(
        marks,
        Scale("time since all nodes were new (scale of a node's lifetime: 50)", (0, 20)),
        Scale("state in memory is lost", (0, 1), percent=0),
        "1,024 nodes in groups of 16; dots: 10% are reached",
    )
    return draw_panels([panel], (7.2, 4.2), below=3)
