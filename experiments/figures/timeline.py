"""The figure of a run's timeline."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from faultline.experiments.analysis.course import (
    ACTIVITIES,
    CourseWindow,
    activities_of,
    busiest_window,
    shares_over_time,
)
from faultline.experiments.analysis.quantities import TimeUnit, unit_for
from faultline.experiments.config.errors import UserError
from faultline.experiments.figures.style import (
    ACTIVITY_LOOKS,
    figure_style,
    name_rows,
    write_notes,
    write_title,
)
from faultline.simulator.accounting.timeline import Event, EventKind
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

_BINS = 240
_KEY = (
    "Failures: × detected by an all-reduce, ✖ forced a restart, | happened in a restart. "
    "Checkpoints: ▼ written, ▽ skipped."
)
_NAMES = {
    "training": "training, a bar per step",
    "repair": "step with a failure",
    "lost": "work lost",
    "checkpoint": "checkpoint",
    "rejoin": "groups rejoin",
    "restart": "restart",
    "load": "checkpoint load",
}


def draw_timeline(events: Sequence[Event], title: str) -> Figure:
    """Draw the whole run, and below it a window with lanes of activities and failures.

    The window has some 40 steps around the first restart or failure, or all of a short run.

    Raises
    ------
    UserError
        If the run has no activity.
    """
    activities = activities_of(events)
    if activities.empty:
        raise UserError("the timeline is empty: no activity took any time")
    end_s = float(activities["end_s"].iloc[-1])
    window = busiest_window(events, activities)
    whole = window == CourseWindow(0.0, end_s)
    ratios = (2.0, 2.6) if whole else (1.7, 1.2, 2.6)
    with figure_style():
        figure = Figure(figsize=(10.5, 5.0 if whole else 6.8))
        axes = figure.subplots(len(ratios), 1, height_ratios=ratios)
        _draw_steps(axes[0], activities, unit_for(end_s), end_s)
        if not whole:
            axes[0].tick_params(labelbottom=False)
            _draw_shares(axes[1], activities, unit_for(end_s), end_s)
            _mark_window(axes[:2], window, unit_for(end_s))
        lanes, unit = axes[-1], unit_for(window.end_s)
        _draw_lanes(lanes, events, activities, window, unit)
        lanes.set_xlabel(f"simulated time ({unit.name})")
        if not whole:
            lanes.set_title("The window marked above", fontsize=10)
        write_title(figure, _message(activities))
        write_notes(figure, [f"{title}.", _KEY])
    return figure


def _message(activities: pd.DataFrame) -> str:
    """Return which share of the time trains, and what takes most of the rest."""
    spans_s = (activities["end_s"] - activities["start_s"]).groupby(activities["activity"]).sum()
    shares = 100 * spans_s / spans_s.sum()
    text = f"Undisturbed steps take {shares.get('training', 0.0):.0f} % of the time"
    others = shares.drop("training", errors="ignore")
    if others.empty:
        return text
    name = _NAMES[str(others.idxmax())].partition(",")[0]
    return f"{text}; most of the rest, {others.max():.0f} %: {name}"


def _draw_steps(axis: Axes, activities: pd.DataFrame, unit: TimeUnit, end_s: float) -> None:
    times = np.append(0.0, activities["end_s"]) / unit.seconds
    steps = np.append(0, activities["steps"])
    axis.step(times, steps, where="post", color="black", linewidth=1.2)
    restarts = activities[activities["activity"].isin(["restart", "load"])]
    axis.broken_barh(
        _spans(restarts, unit),
        (0, 1),
        transform=axis.get_xaxis_transform(),
        facecolor=ACTIVITY_LOOKS["restart"].colour,
        alpha=0.45,
        linewidth=0,
    )
    axis.set_ylabel("steps completed")
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.set_ylim(bottom=0)
    axis.set_xlim(0, end_s / unit.seconds)


def _spans(activities: pd.DataFrame, unit: TimeUnit) -> list[tuple[float, float]]:
    """Return starts and lengths of activities."""
    starts_s = activities["start_s"]
    lengths_s = activities["end_s"] - starts_s
    return list(zip(starts_s / unit.seconds, lengths_s / unit.seconds, strict=True))


def _draw_shares(axis: Axes, activities: pd.DataFrame, unit: TimeUnit, end_s: float) -> None:
    edges_s = np.linspace(0.0, end_s, _BINS + 1)
    shares = shares_over_time(activities, edges_s) * 100
    below = np.zeros(_BINS)
    for name in ACTIVITIES:
        look = ACTIVITY_LOOKS[name]
        axis.stairs(
            below + shares[name], edges_s / unit.seconds, baseline=below, fill=True,
            facecolor=look.colour, hatch=look.hatch, edgecolor="white", linewidth=0,
        )  # fmt: skip
        below = below + shares[name].to_numpy()
    axis.set_ylim(0, 100)
    axis.set_xlim(0, end_s / unit.seconds)
    axis.set_ylabel("time (%)")
    happened = set(activities["activity"])
    handles = [
        Patch(facecolor=ACTIVITY_LOOKS[name].colour, hatch=ACTIVITY_LOOKS[name].hatch,
              edgecolor="white", linewidth=0, label=_NAMES[name].partition(",")[0])
        for name in reversed(ACTIVITIES) if name in happened
    ]  # fmt: skip
    # In the order of the stack, from its top.
    axis.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    axis.set_xlabel(f"simulated time ({unit.name})")


def _mark_window(axes: Sequence[Axes], window: CourseWindow, unit: TimeUnit) -> None:
    for axis in axes:
        axis.axvspan(
            window.start_s / unit.seconds, window.end_s / unit.seconds,
            facecolor="none", edgecolor="black", linewidth=1.6, zorder=5,
        )  # fmt: skip


def _draw_lanes(
    axis: Axes,
    events: Sequence[Event],
    activities: pd.DataFrame,
    window: CourseWindow,
    unit: TimeUnit,
) -> None:
    """Draw a lane per activity of the run, and one for its failures, within a window."""
    happened = set(activities["activity"])
    lanes = [name for name in ACTIVITIES if name in happened]
    inside = activities[
        (activities["end_s"] > window.start_s) & (activities["start_s"] < window.end_s)
    ]
    for place, name in enumerate(lanes, start=1):
        mine = inside[inside["activity"] == name]
        look = ACTIVITY_LOOKS[name]
        axis.broken_barh(
            _spans(mine, unit),
            (place - 0.38, 0.76),
            facecolor=look.colour,
            hatch=look.hatch,
            edgecolor="white",
            linewidth=0.5,
        )
    _mark_failures(axis, events, unit)
    if "checkpoint" in lanes:
        _mark_checkpoints(axis, events, unit, lanes.index("checkpoint") + 1)
    name_rows(axis, range(len(lanes) + 1), ["failures", *(_NAMES[name] for name in lanes)])
    axis.set_xlim(window.start_s / unit.seconds, window.end_s / unit.seconds)


def _times(events: Sequence[Event], kind: EventKind, unit: TimeUnit) -> list[float]:
    return [event.time_s / unit.seconds for event in events if event.kind is kind]


def _mark_failures(axis: Axes, events: Sequence[Event], unit: TimeUnit) -> None:
    for kind, marker, colour in (
        (EventKind.MISSING, "x", "black"),
        (EventKind.FAILURE_IN_RESTART, "|", "#888888"),
        (EventKind.WIPE_OUT, "X", "#B04E00"),
    ):
        times = _times(events, kind, unit)
        axis.plot(
            times, np.zeros(len(times)), marker, color=colour, clip_on=True,
            markersize=9 if kind is EventKind.WIPE_OUT else 6,
        )  # fmt: skip


def _mark_checkpoints(axis: Axes, events: Sequence[Event], unit: TimeUnit, lane: int) -> None:
    """Mark the ends of checkpoints, also of those in the background."""
    for kind, face in ((EventKind.CHECKPOINT, "#444444"), (EventKind.CHECKPOINT_SKIPPED, "none")):
        times = _times(events, kind, unit)
        axis.plot(
            times, np.full(len(times), lane), "v", markersize=5,
            markerfacecolor=face, markeredgecolor="#444444",
        )  # fmt: skip
