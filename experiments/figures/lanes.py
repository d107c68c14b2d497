"""A part of a run in lanes: a bar wherever the job did something, and what failed when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from faultline.experiments.analysis.course import ACTIVITIES, Window, steps_of
from faultline.experiments.analysis.time_units import TimeUnit
from faultline.experiments.figures.style import ACTIVITY_LOOKS
from faultline.simulator.timeline import Event, EventKind
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

_NAMES = {
    "training": "training, a bar a step",
    "repair": "step with a failure",
    "lost": "work lost",
    "checkpoint": "checkpoint",
    "rejoin": "groups rejoin",
    "restart": "restart",
    "load": "checkpoint load",
}


def draw_lanes(
    axis: Axes,
    events: Sequence[Event],
    activities: pd.DataFrame,
    window: Window,
    unit: TimeUnit,
) -> None:
    """Draw a lane for each activity of the run, and one for its failures, within a window."""
    happened = set(activities["activity"])
    lanes = [name for name in ACTIVITIES if name in happened]
    inside = activities[
        (activities["end_s"] > window.start_s) & (activities["start_s"] < window.end_s)
    ]
    for place, name in enumerate(lanes, start=1):
        mine = inside[inside["activity"] == name]
        spans = np.column_stack([mine["start_s"], mine["end_s"] - mine["start_s"]]) / unit.seconds
        look = ACTIVITY_LOOKS[name]
        axis.broken_barh(
            [(float(start), float(length)) for start, length in spans],
            (place - 0.38, 0.76),
            facecolor=look.colour,
            hatch=look.hatch,
            edgecolor="white",
            linewidth=0.5,
        )
    _mark_failures(axis, events, unit)
    if "checkpoint" in lanes:
        _mark_checkpoints(axis, events, unit, lanes.index("checkpoint") + 1)
    axis.set_yticks(range(len(lanes) + 1), ["failures", *(_NAMES[name] for name in lanes)])
    axis.set_ylim(len(lanes) + 0.6, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")
    axis.grid(visible=True, axis="x")
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
    """Mark where checkpoints were finished: nobody need have waited for them."""
    for kind, face in ((EventKind.CHECKPOINT, "#444444"), (EventKind.CHECKPOINT_SKIPPED, "none")):
        times = _times(events, kind, unit)
        axis.plot(
            times, np.full(len(times), lane), "v", markersize=5,
            markerfacecolor=face, markeredgecolor="#444444",
        )  # fmt: skip


def draw_stacks(axis: Axes, events: Sequence[Event], window: Window, unit: TimeUnit) -> None:
    """Draw how many stacks a group computes in each step of a window; reorderings are marked."""
    steps = steps_of(events)
    # A missing value after each step leaves a gap wherever no step follows at once.
    gap = (steps["start_s"].shift(-1) > steps["end_s"]).to_numpy()
    times = np.column_stack([steps["start_s"], steps["end_s"], steps["end_s"]]).ravel()
    heights = np.column_stack(
        [steps["stacks"], steps["stacks"], np.where(gap, np.nan, steps["stacks"])]
    ).ravel()
    axis.plot(times / unit.seconds, heights, color="black", linewidth=1.4)
    reordered = [event for event in events if event.kind is EventKind.REORDERED]
    axis.plot(
        [event.time_s / unit.seconds for event in reordered],
        [event.stacks for event in reordered],
        "o",
        color=ACTIVITY_LOOKS["repair"].colour,
    )
    most = max([*steps["stacks"], *(event.stacks for event in reordered)], default=1)
    axis.set_ylabel("stacks S")
    axis.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axis.set_ylim(0, most + 0.6)
    axis.set_xlim(window.start_s / unit.seconds, window.end_s / unit.seconds)
    axis.grid(visible=True, axis="x")
