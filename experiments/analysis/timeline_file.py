"""Reading back the events that ``faultline run --timeline`` wrote."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from faultline.experiments.config.errors import UserError
from faultline.simulator.timeline import Event, EventKind


def read_timeline(path: Path) -> list[Event]:
    """Return the events of a run, in the order of their log.

    Raises
    ------
    UserError
        If there is no such file, or it is no timeline; names the line.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a timeline or a sweep") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: this is no timeline: it is no CSV text") from error
    if not rows or tuple(rows[0]) != Event._fields:
        raise UserError(
            f"{path}: this is no timeline: its first line is not {','.join(Event._fields)}; "
            "faultline run SCENARIO --timeline FILE writes one"
        )
    events = [_event(row, f"{path}, line {number}") for number, row in enumerate(rows[1:], 2)]
    if not events:
        raise UserError(f"{path}: this timeline has no event")
    return events


def _event(row: list[str], origin: str) -> Event:
    try:
        time_s, kind, step, groups, stacks, moved_types = row
        event = Event(
            float(time_s),
            EventKind(kind),
            int(step),
            tuple(map(int, groups.split())),
            int(stacks),
            int(moved_types),
        )
    except ValueError as error:
        raise UserError(f"{origin}: this is no event: {','.join(row)}") from error
    if not (math.isfinite(event.time_s) and event.time_s >= 0):
        raise UserError(f"{origin}: {time_s} is no time; use seconds from 0")
    return event
