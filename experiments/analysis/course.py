"""The course of one run: what the job did when, from its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from faultline.simulator.timeline import Event, EventKind

if TYPE_CHECKING:
    import pandas as pd

ACTIVITIES = ("training", "repair", "lost", "checkpoint", "rejoin", "restart", "load")
"""What a job does.

training
    Steps without a failure.
repair
    Steps in which groups were found missing, until they are committed after all.
lost
    Both of the above, where a restart took them back.
checkpoint, rejoin, restart, load
    Writing a checkpoint (as far as somebody waits for it), taking groups back, the restart,
    loading.
"""

# What the next step begins after; the events within a step are not among them.
_ENDS_OF_PHASES = {
    EventKind.STEP,
    EventKind.CHECKPOINT,
    EventKind.CHECKPOINT_SKIPPED,
    EventKind.RESTARTED,
    EventKind.LOADED,
    EventKind.REJOINED,
}


class Window(NamedTuple):
    """A part of a run, in simulated seconds."""

    start_s: float
    end_s: float


def activities_of(events: Sequence[Event]) -> pd.DataFrame:
    """Return what a job did, without gaps from its start to its last event.

    Returns
    -------
    DataFrame
        A row an activity: ``start_s``, ``end_s``, ``activity`` (one of `ACTIVITIES`) and ``steps``,
        completed at its end. Activities that take no time are left out.
    """
    rows: list[tuple[float, float, str, int]] = []
    now_s = 0.0
    hit = False
    unsaved = 0  # the first row that no checkpoint has saved
    for event in events:
        kind = event.kind
        if kind in {EventKind.FAILURE_IN_RESTART, EventKind.PHASE}:
            # They carry their own moments, within a restart or a repair that is yet to end.
            continue
        if kind is EventKind.WIPE_OUT:
            rows[unsaved:] = [
                (start, end, "lost" if activity in {"training", "repair"} else activity, steps)
                for start, end, activity, steps in rows[unsaved:]
            ]
            unsaved, hit = len(rows), False
            continue
        hit = hit or kind is EventKind.MISSING
        if event.time_s > now_s:
            rows.append((now_s, event.time_s, _activity(kind, hit), event.step))
        now_s = max(now_s, event.time_s)
        if kind is EventKind.STEP:
            hit = False
        if kind is EventKind.CHECKPOINT:
            unsaved = len(rows)
    import pandas as pd

    return pd.DataFrame(rows, columns=["start_s", "end_s", "activity", "steps"])


def _activity(kind: EventKind, hit: bool) -> str:
    if kind in {EventKind.CHECKPOINT, EventKind.CHECKPOINT_SKIPPED}:
        return "checkpoint"
    if kind is EventKind.RESTARTED:
        return "restart"
    if kind is EventKind.LOADED:
        return "load"
    if kind is EventKind.REJOINED:
        return "rejoin"
    return "repair" if hit else "training"


def steps_of(events: Sequence[Event]) -> pd.DataFrame:
    """Return the steps that were committed, those that a restart took back later included.

    Returns
    -------
    DataFrame
        A row a step: ``start_s``, ``end_s`` (its failures and repairs included) and ``stacks``,
        with which it was begun.
    """
    rows = []
    begin_s = 0.0
    for event in events:
        if event.kind is EventKind.STEP:
            rows.append((begin_s, event.time_s, event.stacks))
        if event.kind in _ENDS_OF_PHASES:
            begin_s = event.time_s
    import pandas as pd

    return pd.DataFrame(rows, columns=["start_s", "end_s", "stacks"])


def shares_over_time(activities: pd.DataFrame, edges_s: np.ndarray) -> pd.DataFrame:
    """Return the share of each activity between consecutive moments.

    Parameters
    ----------
    activities : DataFrame
        As `activities_of` returns them.
    edges_s : ndarray of float, shape (n + 1,)
        Ascending moments within the run, in simulated seconds.

    Returns
    -------
    DataFrame, shape (n, 7)
        A column for each of `ACTIVITIES`; rows add up to 1.
    """
    bounds = np.append(activities["start_s"].to_numpy(), activities["end_s"].iloc[-1])
    lengths = np.diff(bounds)
    shares = {}
    for name in ACTIVITIES:
        spent = np.where(activities["activity"] == name, lengths, 0.0)
        so_far = np.concatenate([[0.0], np.cumsum(spent)])
        shares[name] = np.diff(np.interp(edges_s, bounds, so_far)) / np.diff(edges_s)
    import pandas as pd

    return pd.DataFrame(shares)


def telling_window(events: Sequence[Event], activities: pd.DataFrame, steps: int = 40) -> Window:
    """Choose a part of a run that shows how the job lives with failures.

    Returns
    -------
    Window
        About so many steps around the first restart, or around the first failure where there is no
        restart, else at the start; the whole run where it is not much longer than that.
    """
    end_s = float(activities["end_s"].iloc[-1])
    usual = activities[activities["activity"].isin(["training", "repair", "lost"])]
    lengths = (usual["end_s"] - usual["start_s"]).to_numpy()
    width_s = steps * float(np.median(lengths)) if len(lengths) else end_s
    restart = next((event for event in events if event.kind is EventKind.WIPE_OUT), None)
    failure = next((event for event in events if event.kind is EventKind.MISSING), None)
    back = next((event for event in events if event.kind is EventKind.LOADED), None)
    if restart is not None:
        until_s = back.time_s if back is not None else end_s
        window = Window(restart.time_s - 0.6 * width_s, until_s + 0.4 * width_s)
    elif failure is not None:
        window = Window(failure.time_s - 0.2 * width_s, failure.time_s + 0.8 * width_s)
    else:
        window = Window(0.0, width_s)
    if end_s <= 1.5 * (window.end_s - window.start_s):
        return Window(0.0, end_s)
    return Window(max(0.0, window.start_s), min(end_s, window.end_s))
