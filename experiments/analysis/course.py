"""The course of one run: the job's activities over time, and the files of its events.

A file is a trace for Perfetto and chrome://tracing, or a table.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from faultline.experiments.config.errors import UserError
from faultline.platforms.files import write_file
from faultline.simulator.accounting.timeline import Event, EventKind

if TYPE_CHECKING:
    import pandas as pd

ACTIVITIES = ("training", "repair", "lost", "checkpoint", "rejoin", "restart", "load")
"""The activities of a job.

training
    Steps without a failure.
repair
    Steps with missing groups, up to their commit.
lost
    Steps of training and repair that a restart undid.
checkpoint, rejoin, restart, load
    Writing a checkpoint (while the job waits for it) or sending a mirror of the state; readmitting
    groups; restarting; loading.
"""

# Events that may precede a step; events within a step are not listed.
_ENDS_OF_PHASES = {
    EventKind.CHECKPOINT: "checkpoint",
    EventKind.CHECKPOINT_SKIPPED: "checkpoint",
    EventKind.MIRRORED: "checkpoint",
    EventKind.RESTARTED: "restart",
    EventKind.LOADED: "load",
    EventKind.REJOINED: "rejoin",
}


class CourseWindow(NamedTuple):
    """A part of a run, in simulated seconds."""

    start_s: float
    end_s: float


def activities_of(events: Sequence[Event]) -> pd.DataFrame:
    """Return the activities of a job, without gaps from its start to its last event.

    The frame has a row per activity: ``start_s``, ``end_s``, ``activity`` (one of `ACTIVITIES`),
    and ``steps`` completed at its end. Activities of zero length are omitted.
    """
    rows: list[tuple[float, float, str, int]] = []
    now_s = 0.0
    hit = False
    unsaved = 0  # Index of the first row that no checkpoint covers.
    for event in events:
        kind = event.kind
        if kind in {EventKind.FAILURE_IN_RESTART, EventKind.PHASE}:
            # These events have times of their own, before the end of the restart or repair.
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
            stepping = "repair" if hit else "training"
            activity = _ENDS_OF_PHASES.get(kind, stepping)
            rows.append((now_s, event.time_s, activity, event.step))
        now_s = max(now_s, event.time_s)
        if kind is EventKind.STEP:
            hit = False
        if kind is EventKind.CHECKPOINT:
            unsaved = len(rows)
    import pandas as pd

    return pd.DataFrame(rows, columns=["start_s", "end_s", "activity", "steps"])


def steps_of(events: Sequence[Event]) -> pd.DataFrame:
    """Return the committed steps, including those that a later restart undid.

    The frame has a row per step: ``start_s``, ``end_s`` (after its failures and repairs), and
    ``stacks`` at its beginning.
    """
    rows = []
    begin_s = 0.0
    for event in events:
        if event.kind is EventKind.STEP:
            rows.append((begin_s, event.time_s, event.stacks))
        if event.kind is EventKind.STEP or event.kind in _ENDS_OF_PHASES:
            begin_s = event.time_s
    import pandas as pd

    return pd.DataFrame(rows, columns=["start_s", "end_s", "stacks"])


def shares_over_time(activities: pd.DataFrame, edges_s: np.ndarray) -> pd.DataFrame:
    """Return the share of each of `ACTIVITIES` between n + 1 times, as columns; shape (n, 7).

    The times ascend within the run, in simulated seconds. Each row sums to 1.
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


def busiest_window(
    events: Sequence[Event], activities: pd.DataFrame, steps: int = 40
) -> CourseWindow:
    """Choose a part of a run that shows how the job handles failures.

    The part has about `steps` steps around the first restart. Without a restart it is around the
    first failure, else at the start. A run that is hardly longer is returned whole.
    """
    end_s = float(activities["end_s"].iloc[-1])
    usual = activities[activities["activity"].isin(["training", "repair", "lost"])]
    lengths = (usual["end_s"] - usual["start_s"]).to_numpy()
    width_s = steps * float(np.median(lengths)) if len(lengths) else end_s
    restart, failure, back = (
        next((event for event in events if event.kind is kind), None)
        for kind in (EventKind.WIPE_OUT, EventKind.MISSING, EventKind.LOADED)
    )
    if restart is not None:
        until_s = back.time_s if back is not None else end_s
        window = CourseWindow(restart.time_s - 0.6 * width_s, until_s + 0.4 * width_s)
    elif failure is not None:
        window = CourseWindow(failure.time_s - 0.2 * width_s, failure.time_s + 0.8 * width_s)
    else:
        window = CourseWindow(0.0, width_s)
    if end_s <= 1.5 * (window.end_s - window.start_s):
        return CourseWindow(0.0, end_s)
    return CourseWindow(max(0.0, window.start_s), min(end_s, window.end_s))


TRACE, GOODPUT_LOG, TABLES = ".json", ".jsonl", (".csv", ".parquet")
_MICROSECONDS = 1e6
_JOB, _GROUPS = 0, 1
# The events between a failure and its outcome.
_RECOVERY = {EventKind.PHASE, EventKind.RECOVERED}
# Events that also write counters: between them only the number of steps changes.
_COUNTED = {
    EventKind.MISSING,
    EventKind.CHECKPOINT,
    EventKind.RESTARTED,
    EventKind.LOADED,
    EventKind.REJOINED,
}


def write_timeline(events: Sequence[Event], path: Path, record: Mapping[str, Any]) -> None:
    """Write a run's events, in the order of its log, into a file; its suffix selects the format.

    ``.json`` is a trace, ``.jsonl`` a goodput event log; ``.csv`` and ``.parquet`` are tables,
    a row per event. Another suffix is a UserError.
    """
    suffix = path.suffix.lower()
    if suffix == TRACE:
        write_file(path, _trace_text(events, record))
    elif suffix == GOODPUT_LOG:
        # Every run imports this module, and few need those that read logs.
        from faultline.experiments.analysis.job_lives import goodput_log_text

        groups, end_s = int(record["groups"]), float(record["time_s"])
        write_file(path, goodput_log_text(events, end_s, groups, str(record["scenario"])))
    elif suffix == ".csv":
        write_file(path, _csv_text(events))
    elif suffix == ".parquet":
        write_file(path, _parquet(events))
    else:
        raise UserError(
            f"{path}: name a file that ends in .json (a trace for Perfetto and chrome://tracing), "
            ".jsonl (a goodput event log), .csv or .parquet (tables)"
        )


def _csv_text(events: Sequence[Event]) -> str:
    """Return the table as text; blanks separate groups."""
    text = StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(Event._fields)
    for event in events:
        groups, kind = " ".join(map(str, event.groups)), event.kind.value
        row = {**event._asdict(), "time_s": repr(event.time_s), "kind": kind, "groups": groups}
        rows.writerow(row.values())
    return text.getvalue()


def _parquet(events: Sequence[Event]) -> bytes:
    import pandas as pd

    rows = (
        {**event._asdict(), "kind": event.kind.value, "groups": list(event.groups)}
        for event in events
    )
    content = BytesIO()
    pd.DataFrame(rows, columns=Event._fields).to_parquet(content, index=False)
    return content.getvalue()


def _trace_text(events: Sequence[Event], record: Mapping[str, Any]) -> str:
    """Return a run in the Trace Event Format, an object per line: editors cope with long files."""
    parts = (_names(events, record), _phases(events), _of_groups(events), _counters(events, record))
    lines = (
        json.dumps(thing, separators=(",", ":"), allow_nan=False)
        for part in parts
        for thing in part
    )
    return '{"displayTimeUnit":"ms","traceEvents":[\n' + ",\n".join(lines) + "\n]}\n"


def _names(events: Sequence[Event], record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    job = f"{record['scenario']}: {record['strategy']}, seed {record['seed']}"
    for pid, name in ((_JOB, job), (_GROUPS, "groups that fail")):
        yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": _JOB, "tid": 0, "name": "thread_name", "args": {"name": "the job"}}
    for group in sorted(_failing(events)):
        named = {"name": f"group {group}"}
        yield {"ph": "M", "pid": _GROUPS, "tid": group, "name": "thread_name", "args": named}


def _failing(events: Sequence[Event]) -> set[int]:
    kinds = {EventKind.MISSING, EventKind.FAILURE_IN_RESTART}
    return {group for event in events if event.kind in kinds for group in event.groups}


def _span(name: str, pid: int, tid: int, start_s: float, end_s: float) -> dict[str, Any]:
    times = {"ts": start_s * _MICROSECONDS, "dur": (end_s - start_s) * _MICROSECONDS}
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, **times}


def _phases(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    for row in activities_of(events).itertuples(index=False):
        span = _span(row.activity, _JOB, 0, row.start_s, row.end_s)
        yield {**span, "args": {"steps completed": int(row.steps)}}
    yield from _recoveries(events)


def _recoveries(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """Yield the phases of recoveries; each starts at the event before its end."""
    since_s = 0.0
    for event in events:
        if event.kind is EventKind.PHASE:
            yield _span(event.recovery, _JOB, 0, since_s, event.time_s)
        if event.kind is not EventKind.FAILURE_IN_RESTART:
            since_s = event.time_s


def _of_groups(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """Yield spans (training, down, restart) and failures of each group that ever fails."""
    doing = dict.fromkeys(_failing(events), ("training", 0.0))

    def turn(group: int, name: str, now_s: float) -> Iterator[dict[str, Any]]:
        before, since_s = doing[group]
        if before != name:
            if now_s > since_s:
                yield _span(before, _GROUPS, group, since_s, now_s)
            doing[group] = name, now_s

    for event, dropped in zip(events, _dropped(events), strict=True):
        if event.kind in {EventKind.MISSING, EventKind.FAILURE_IN_RESTART}:
            at = {"ts": event.time_s * _MICROSECONDS, "s": "t"}
            for group in event.groups:
                yield {"ph": "i", "name": "failure", "pid": _GROUPS, "tid": group, **at}
        change = {
            EventKind.MISSING: (dropped, "down"),
            EventKind.WIPE_OUT: (doing, "restart"),
            EventKind.LOADED: (doing, "training"),
            EventKind.REJOINED: (event.groups, "training"),
        }.get(event.kind)
        if change is not None:
            for group in change[0]:
                if group in doing:
                    yield from turn(group, change[1], event.time_s)
    for group in doing:
        yield from turn(group, "end", events[-1].time_s)


def _dropped(events: Sequence[Event]) -> Iterator[tuple[int, ...]]:
    """Yield for each event the groups that it stops; a group that patches its step continues."""
    for place, event in enumerate(events):
        if event.kind is not EventKind.MISSING:
            yield ()
            continue
        later = (events[number] for number in range(place + 1, len(events)))
        following = next((one for one in later if one.kind not in _RECOVERY), event)
        stay = following.groups if following.kind is EventKind.REORDERED else ()
        yield tuple(group for group in event.groups if group not in stay)


def _counters(events: Sequence[Event], record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    down: set[int] = set()
    groups, step_s = record["groups"], record["step_s"]
    for event, dropped in zip(events, _dropped(events), strict=True):
        if event.kind in {EventKind.LOADED, EventKind.WIPE_OUT}:
            down.clear()
        down.update(dropped)
        down.difference_update(event.groups if event.kind is EventKind.REJOINED else ())
        at = {"ph": "C", "pid": _JOB, "ts": event.time_s * _MICROSECONDS}
        if event.kind is EventKind.WIPE_OUT:
            yield {**at, "name": "groups up", "args": {"groups": 0}}
        elif event.kind in _COUNTED:
            if event.kind is not EventKind.RESTARTED:
                yield {**at, "name": "groups up", "args": {"groups": groups - len(down)}}
            share = event.step * step_s / event.time_s if event.time_s else 1.0
            yield {**at, "name": "goodput", "args": {"%": 100.0 * share}}
