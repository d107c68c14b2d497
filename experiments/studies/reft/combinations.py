"""Protections combined with schemes that mask failures, on 600,000 GPUs with a failure every 5 min.

The cluster is that of Lee et al. 2026 (SPARe) under sound rules. The transfer times of the state
are measured on its platform. Each scheme chooses redundancy, unless it is scanned, and intervals by
its closed form for the cost of the protection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import product
from types import MappingProxyType
from typing import Any

import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.style import (
    draw_band,
    draw_means,
    mark,
    ticks_at,
    write_notes,
    write_title,
)
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.point import Point
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

SCHEMES = ("checkpoint", "replication", "spare")
PROTECTIONS = ("storage", "async-storage", "reft", "gemini", "just-in-time")
RESTARTS_MINUTES = (60, 5)
REDUNDANCIES = range(1, 11)
"""The first is the control: SPARe without masking."""

DOMAINS_MIX = files("faultline.experiments.studies.reft").joinpath("domains.toml")
LARGE_FAILURES: dict[str, dict[str, object]] = {
    "hosts": {"failures.component": "host", "failures.hardware_share": 1.0},
    "whole groups": {"failures.component": "group", "failures.hardware_share": 1.0},
    "1 in 5 a domain": {
        "failures.model": "mix",
        "failures.mix": str(DOMAINS_MIX),
        "failures.rate": "mtbf",
        "failures.gpus_per_domain": 64,
    },
}
"""Components that a failure stops. All failures are of hardware, so each erases memory."""

METRIC = "time_to_train_ratio"


def main_points(steps: int, seeds: int) -> Iterator[Point]:
    """Yield every scheme on every protection, for both restarts."""
    for minutes, scheme, protection in product(RESTARTS_MINUTES, SCHEMES, PROTECTIONS):
        yield from _points(minutes, scheme, protection, steps, seeds)


def scan_points(steps: int, seeds: int) -> Iterator[Point]:
    """Yield SPARe at every redundancy, with and without REFT."""
    cells = product(RESTARTS_MINUTES, ("storage", "reft"), REDUNDANCIES)
    for minutes, protection, redundancy in cells:
        more = {"strategy.redundancy": redundancy}
        yield from _points(minutes, "spare", protection, steps, seeds, more)


def placement_points(steps: int, seeds: int) -> Iterator[Point]:
    """Yield failures of several sizes against both placements: no failure is masked."""
    cells = product(LARGE_FAILURES, ("reft", "gemini"), ("across-domains", "neighbours"), (1, 20))
    for failures, protection, placement, persisted in cells:
        more = {
            f"protection.{protection}.placement": placement,
            "checkpoint.interval_steps": persisted,
        }
        labels = {"failures_of": failures, "placement": placement, "persist_steps": str(persisted)}
        more |= LARGE_FAILURES[failures]
        yield from _points(5, "checkpoint", protection, steps, seeds, more, labels)


def _points(
    minutes: int,
    scheme: str,
    protection: str,
    steps: int,
    seeds: int,
    more: Mapping[str, object] = MappingProxyType({}),
    labels: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Point]:
    """Yield a point per seed; all points of one seed have the same failures."""
    changes = {
        "job.steps": steps,
        # Checkpoints on storage alone make almost no progress: 90 days show enough of it.
        "job.time_limit_s": 90 * 86_400.0,
        "job.give_up_after_restarts": 1_000_000,
        "strategy.name": scheme,
        "protection.name": protection,
        "times.restart_s": 60.0 * minutes,
        **more,
    }
    # Resolved here, so that the platform is measured once for all seeds.
    resolved = resolve(load_scenario("spare-sound", changes))
    for seed in range(seeds):
        yield Point.of(resolved, seed, (*labels.items(), ("minutes", minutes)))


_LABELS = {
    "storage": "storage,\njob waits",
    "async-storage": "storage,\nbackground",
    "reft": "REFT",
    "gemini": "GEMINI",
    "just-in-time": "just in\ntime",
}
_SCANNED = {"storage": ("#555555", "^", "--"), "reft": ("#0072B2", "o", "-")}
"""Colour, marker and dashes of SPARe on each protection."""
_NOTE: Any = {"textcoords": "offset points", "fontsize": 8.5}
_CONTROL: Any = {"marker": "s", "ms": 7, "mfc": "white", "mew": 1.5, "ls": "none", "zorder": 3}


def _panels(
    runs: pd.DataFrame, keys: list[str], **figure: Any
) -> tuple[Figure, Iterator[tuple[Axes, pd.DataFrame]]]:
    """Return a figure with a panel for each restart, and the means of the ratio in each panel."""
    means = mean_over_seeds(runs, ["minutes", *keys], METRIC)
    drawn, axes = plt.subplots(1, len(RESTARTS_MINUTES), **figure)

    def panels() -> Iterator[tuple[Axes, pd.DataFrame]]:
        for axis, minutes in zip(axes, RESTARTS_MINUTES, strict=True):
            yield axis, means[means.minutes == minutes]
            axis.set_yscale("log")
            ticks_at(axis.yaxis, [2, 3, 4, 5, 7, 10, 20, 30, 50, 100])
            axis.set_title(f"Restarts of {minutes} minutes")
        axes[0].set_ylabel("time-to-train ratio (log)")
        axes[0].legend(loc="upper right")

    return drawn, panels()


def draw_combinations(runs: pd.DataFrame) -> Figure:
    """Draw the ratio by protection, a line per scheme."""
    figure, panels = _panels(runs, ["strategy", "protection"], figsize=(11.0, 4.8))
    for axis, means in panels:
        for scheme in SCHEMES:
            line = means[means.strategy == scheme].set_index("protection").loc[list(_LABELS)]
            _draw_protections(axis, line, scheme)
        axis.margins(y=0.08)
        axis.set_xticks(range(len(_LABELS)), list(_LABELS.values()), fontsize=9)
        axis.set_xlim(-0.4, len(_LABELS) - 0.4)
    notes = [
        f"600,000 GPUs in 200 groups, a failure every 5 min, {runs.steps.iloc[0]:,} steps.",
        f"Mean over {runs.seed.nunique()} seeds, bars: its 95 % interval.",
        "Redundancy and intervals by each scheme's closed form. Scales differ.",
    ]
    write_title(figure, "State in memory helps most if nothing masks failures")
    write_notes(figure, notes)
    return figure


def _draw_protections(axis: Axes, line: pd.DataFrame, scheme: str) -> None:
    """Draw one scheme: a mark per protection, with its value beside it."""
    look = look_of(scheme)
    # The legend names only the masking: the figure compares the protections.
    label = "no masking" if scheme == "checkpoint" else title_of(scheme)
    draw_means(axis, range(len(line)), line, fmt=look.marker, color=look.colour, label=label)
    axis.plot(range(len(line)), line["mean"], color=look.colour, lw=0.9, alpha=0.6)
    for place, value in enumerate(line["mean"]):
        text = f"{value:.3g}" if value >= 10 else f"{value:.2f}"
        note = {**_NOTE, "fontsize": 8, "color": look.colour}
        axis.annotate(text, (place, value), (6, -12 if scheme == "spare" else 5), **note)


def draw_scan(scan: pd.DataFrame) -> Figure:
    """Draw SPARe's ratio over redundancy, on storage and on REFT.

    r = 1 is the control, which masks nothing: up to ten times the best ratio.
    """
    figure, panels = _panels(scan, ["protection", "redundancy"], figsize=(9.5, 3.9), sharey=True)
    for axis, means in panels:
        for protection, (colour, marker, dashes) in _SCANNED.items():
            line = means[means.protection == protection]
            label = _LABELS[protection].replace("\n", " ")
            ratios = line["mean"]
            axis.plot(line.redundancy, ratios, color=colour, marker=marker, ls=dashes, label=label)
            draw_band(axis, line.redundancy, line, colour)
            best = line.loc[ratios.idxmin()]
            text = f"best: r = {best.redundancy:g}, {best['mean']:.2f}"
            at, offset = (best.redundancy, best["mean"]), (0, -16 if protection == "reft" else 12)
            axis.annotate(text, at, offset, **_NOTE, ha="center", color=colour)
            control = ratios.iloc[0]
            axis.plot(1, control, color=colour, **_CONTROL)
            text = f"{control:.3g}"
            axis.annotate(text, (1, control), (-9, -3), **_NOTE, ha="right", color=colour)
        axis.add_artist(mark("control: r = 1 masks nothing", "#555555", **_CONTROL))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set(xlabel="redundancy r", xlim=(0, 10.5), ylim=(1.6, 45))
    write_title(figure, "With REFT and fast restarts SPARe needs less redundancy")
    write_notes(figure, ["600,000 GPUs in 200 groups, a failure every 5 min."])
    return figure
